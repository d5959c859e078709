"""What every group of settings is made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Positive = Annotated[int, Field(gt=0, le=1_000_000_000)]
Tokens = Annotated[int, Field(gt=0, le=1_000_000)]  # of one reply
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Amount = Annotated[int, Field(gt=0, le=1_000_000_000_000)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Hours = Annotated[int, Field(gt=0, le=24 * 366)]
Days = Annotated[int, Field(gt=0, le=90)]
Minutes = Annotated[int, Field(gt=0, le=60 * 24 * 7)]


class Section(BaseModel):
    """A group of settings; a name it does not know is an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
    )

"""What the readers of our YAML files share: strict fields, and errors that say how to mend them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
)

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.money import EXPONENTS, MAX_MINOR


class FileEntry(BaseModel):
    """What a file may say: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Entry = TypeVar("Entry", bound=BaseModel)


def canonical(body: object, source: str) -> bytes:
    """One spelling of the same data: sorted keys, compact, UTF-8."""
    try:
        return json.dumps(
            body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except (TypeError, ValueError) as error:
        problem = f"may hold text, whole numbers, lists and mappings only: {error}"
        raise ConfigurationError(problem, setting=source) from error


def validated(model: type[Entry], canonical: bytes, source: str) -> Entry:
    """The entry that JSON spells; every problem of it in one error.

    Strict JSON mode: text becomes a date or a status, but "250000", true or 1.0 never a number.
    """
    try:
        return model.model_validate_json(canonical)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(detail)) for detail in error.errors(include_url=False))
        raise ConfigurationError(problems, setting=source) from error


def _problem(detail: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            return f"{field}: is not a known field; check its spelling or remove it"
        case "missing":
            return f"{field}: is missing; add it"
        case "value_error":
            message = str(detail["ctx"]["error"])
            return f"{field}: {message}" if field else message
        case _:
            return f"{field}: {detail['msg']}, not {detail['input']!r}"


def instant(value: object) -> datetime:
    """An RFC 3339 moment; one without an offset is refused."""
    hint = "write it like 2026-10-01T10:00:00+07:00"
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise ValueError(f"{value!r} is not a date and time; {hint}")
    if moment.utcoffset() is None:
        raise ValueError(f"{value!r} has no UTC offset; {hint}")
    return moment


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, a path, a folder of zones
        raise ValueError(f"{name!r} is not a time zone; write it like Asia/Ho_Chi_Minh") from None
    return name


def _currency(code: str) -> str:
    if code not in EXPONENTS:
        raise ValueError(f"{code!r} is not a known currency; known are {', '.join(EXPONENTS)}")
    return code


Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
Instant = Annotated[datetime, PlainValidator(instant)]
Zone = Annotated[str, AfterValidator(_zone)]
Currency = Annotated[str, AfterValidator(_currency)]
Amount = Annotated[int, Field(ge=0, le=MAX_MINOR)]
Limit = Annotated[int, Field(ge=1, le=MAX_MINOR)]

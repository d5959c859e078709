"""Field types that several tools' arguments share."""

from typing import Annotated

from pydantic import Field, StringConstraints

# Printable, no white space or control characters: an id is compared byte for byte, never completed.
Identifier = Annotated[
    str,
    StringConstraints(min_length=1, max_length=64, pattern=r"^[^\s\x00-\x1f\x7f]+$"),
]
OrderId = Annotated[
    Identifier,
    Field(description="The order's id exactly as the customer or a tool gave it, e.g. A100"),
]
QuoteId = Annotated[Identifier, Field(description="The quote_id that quote_refund returned")]
RequestId = Annotated[Identifier, Field(description="The request_id of a refund request")]

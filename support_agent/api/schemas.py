"""Shapes that many routes share."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from support_agent.domain.money import EXPONENTS
from support_agent.domain.reasons import Language
from support_agent.ports.storage import Page

T = TypeVar("T")
D = TypeVar("D")


class Shape(BaseModel):
    """What the API gives: read off domain objects."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class Body(BaseModel):
    """What the API takes: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Money(Shape):
    """`amount_minor` counts the smallest unit of the currency (VND has no smaller one)."""

    amount_minor: int = Field(examples=[250000])
    currency: str = Field(min_length=3, max_length=3, examples=["VND"])


def money(amount_minor: int, currency: str) -> Money:
    """An amount as it is given out."""
    return Money(amount_minor=amount_minor, currency=currency)


class Listed(Shape, Generic[T]):
    """One page of a list; `next_cursor` is opaque."""

    data: list[T]
    has_more: bool
    next_cursor: str | None


def listed(page: Page[D], shape: "type[T]", data: list[T]) -> Listed[T]:
    """The page with its rows as they are given out."""
    return Listed[shape](  # type: ignore[valid-type]  # a class made at run time
        data=data, has_more=page.has_more, next_cursor=page.next_cursor
    )


KNOWN: dict[str, JsonValue] = {"enum": [*sorted(EXPONENTS)]}  # the currencies
Instant = datetime  # given in RFC 3339, UTC
Limit = Annotated[int, Query(ge=1, le=100, description="The most rows of a page.")]
Lang = Annotated[
    Language | None, Query(description="Of sentences that code makes; the shop's without it.")
]
Cursor = Annotated[
    str | None, Query(max_length=500, description="`next_cursor` of the page before.")
]

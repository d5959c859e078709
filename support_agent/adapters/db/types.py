"""Column types and conventions that every table shares."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, DateTime, Dialect, Integer, MetaData, Text, TypeDecorator
from sqlalchemy.schema import SchemaItem
from sqlmodel import SQLModel

# Every constraint has a name, or a batch migration on SQLite would silently drop it.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

# What a text or JSON column holds: decides what privacy export and erasure touch.
PERSONAL = {"data_class": "personal"}  # what people wrote or who they are
BOOKS = {"data_class": "books"}  # kept for the books, never erased
TECHNICAL = {"data_class": "technical"}  # codes, ids, states


def _in_utc(value: datetime | None) -> datetime | None:
    if value is None:
        return None
    if value.tzinfo is None:
        raise ValueError(f"a naive datetime cannot be stored: {value!r}")
    return value.astimezone(UTC)


def _sqlite_words(value: datetime | None) -> str | None:
    """As SQLAlchemy writes them: no offset, always with microseconds."""
    moment = _in_utc(value)
    return None if moment is None else moment.replace(tzinfo=None).isoformat(" ", "microseconds")


def _sqlite_instant(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value).replace(tzinfo=UTC)


def _told_in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An instant. SQLite hands back naive values; everything here is aware and UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any]:
        return _sqlite_words if dialect.name == "sqlite" else _in_utc

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _sqlite_instant if dialect.name == "sqlite" else _told_in_utc


class CompactJson(TypeDecorator[Any]):
    """JSON as compact UTF-8 text, the same bytes on both databases."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: object, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ANN401 - any JSON
        return None if value is None else json.loads(value)


class Table(SQLModel):
    """Base of every table; rows are mapped to domain objects inside this folder."""

    metadata = MetaData(naming_convention=NAMING)  # ours alone, not SQLModel's global one


def text(
    *items: SchemaItem, info: dict[str, str], nullable: bool = False, primary_key: bool = False
) -> Column[Any]:
    """A text column with its data class; `items` are foreign keys."""
    return Column(Text, *items, nullable=nullable, info=info, primary_key=primary_key)


def json_column(*, info: dict[str, str], nullable: bool = False) -> Column[Any]:
    """A JSON column with its data class."""
    return Column(CompactJson, nullable=nullable, info=info)


def instant(*, nullable: bool = False) -> Column[Any]:
    """A moment of business time, UTC."""
    return Column(UtcDateTime, nullable=nullable)


def minor() -> Column[Any]:
    """An amount in minor units."""
    return Column(BigInteger, nullable=False, server_default="0")


def counter(*, default: int = 0) -> Column[Any]:
    """A whole number that starts at `default`."""
    return Column(BigInteger, nullable=False, server_default=str(default))


def flag() -> Column[Any]:
    """A yes or no that starts as no."""
    return Column(sa.Boolean, nullable=False, server_default=sa.false())


def sequence_key() -> Column[Any]:
    """A gap-allowed row number; INTEGER on SQLite, where only that one counts by itself."""
    return Column(
        BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    )


def real_seconds(*, nullable: bool = False) -> Column[Any]:
    """Seconds since 1970 by the database's own clock: for leases and durations."""
    return Column(sa.Double, nullable=nullable)


def made_storable(value: str) -> str:
    """Text as both databases can hold it: no NUL and no half surrogate, which a model may emit."""
    return value.encode(errors="replace").decode().replace("\x00", "\ufffd")

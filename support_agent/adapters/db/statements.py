"""Small pieces of SQL that several stores need, the same on both databases."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert_of, is_postgres
from support_agent.adapters.db.types import Table


def table_of(model: type[Table]) -> sa.Table:
    """The table behind a model, for statements without an ORM session."""
    table: sa.Table = model.__table__  # type: ignore[attr-defined]  # SQLModel sets it untyped
    return table


def insert_new(
    connection: sa.Connection, table: sa.Table, *rows: Mapping[str, Any], on: Sequence[str] = ()
) -> int:
    """Insert what is not there yet; how many rows were new, when one was given.

    `on` names the columns whose conflict is expected; without them any conflict is.
    """
    statement = _insert_new(table, tuple(on), on_postgres=is_postgres(connection))
    done: sa.CursorResult[Any] = connection.execute(
        statement, rows[0] if len(rows) == 1 else [*rows]
    )
    return done.rowcount


@cache
def _insert_new(table: sa.Table, on: tuple[str, ...], *, on_postgres: bool) -> Any:  # noqa: ANN401 - as `insert_of`
    """Built once: putting it together costs more than running it."""
    statement = insert_of(table, on_postgres=on_postgres)
    # Without `inline`, SQLAlchemy would ask for the key of a row that may not have been
    # inserted; without `preserve_rowcount`, psycopg's count of an INSERT is thrown away.
    return (
        statement.on_conflict_do_nothing(index_elements=on or None)
        .inline()
        .execution_options(preserve_rowcount=True)
    )


def storable(text: str) -> bool:
    """Whether a text column can hold this at all: no NUL, no half of a surrogate pair.

    What it cannot hold is in no row, so looking it up needs no query that would fail.
    """
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)

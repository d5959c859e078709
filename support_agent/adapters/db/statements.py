"""Small pieces of SQL that several stores need, the same on both databases."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert_of, is_postgres
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.types import Table

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


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
    statement = _insert_new(table, tuple(rows[0]), tuple(on), on_postgres=is_postgres(connection))
    if len(rows) == 1:
        return statement.run(connection, rows[0])
    statement.run_each(connection, rows)
    return len(rows)


@cache
def _insert_new(
    table: sa.Table, columns: tuple[str, ...], on: tuple[str, ...], *, on_postgres: bool
) -> Prepared:
    statement = insert_of(table, on_postgres=on_postgres)
    # Without `inline`, SQLAlchemy would ask for the key of a row that may not have been inserted.
    return Prepared(
        statement.on_conflict_do_nothing(index_elements=on or None).inline(), columns=columns
    )


def storable(text: str) -> bool:
    """Whether a text column can hold this at all: no NUL, no half of a surrogate pair.

    What it cannot hold is in no row, so looking it up needs no query that would fail.
    """
    return _UNSTORABLE.search(text) is None


MOST_IDS = 1_000  # in one statement; drivers take some tens of thousands


def marks(
    connection: sa.Connection, statement: sa.Select[Any], ids: Collection[str]
) -> Mapping[str, tuple[object, ...]]:
    """What a statement that takes `ids` says of each, by the id, which it has first."""
    every, found = [*ids], dict[str, tuple[object, ...]]()
    for first in range(0, len(every), MOST_IDS):
        some = {"ids": every[first : first + MOST_IDS]}
        found.update((row[0], tuple(row[1:])) for row in connection.execute(statement, some))
    return found

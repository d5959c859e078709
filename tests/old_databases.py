"""Databases as an earlier revision of the program left them, with requests in every state.

`integration/old_databases/revision_0001.json` was dumped from a database that the first release's
own code had filled: sample orders, and a request in each state, by way of a gateway that declined,
lost answers and so on. Its signatures are real ones, made with the tests' keys.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from alembic import command
from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import _config, exclusive, upgrade
from support_agent.adapters.keys import load_keys
from support_agent.services.audit_index import reindex
from tests.catalogue import reflected
from tests.kit import KEYS

FOLDER = Path(__file__).parent / "integration" / "old_databases"


async def bring_up(url: str) -> None:
    """What `db upgrade` does: our schema, and an index of the history."""
    upgrade(url, live=False)
    keys = load_keys(configured=SecretStr(KEYS), database_url=url)
    database = SqlDatabase(url, keys)
    try:
        await database.transact(lambda tx: reindex(tx, keys))
    finally:
        await database.aclose()


def make_old_database(url: str, revision: str = "0001") -> None:
    """Fill an empty place with the schema of `revision` and the rows dumped from it."""
    dumped = json.loads((FOLDER / f"revision_{revision}.json").read_text(encoding="utf-8"))
    with exclusive(url, create=True) as connection:
        command.upgrade(_config(connection), revision)
        connection.execute(sa.delete(sa.table("audit_head")))  # that of an empty chain
        for table in reflected(connection).sorted_tables:
            if table.name in dumped:
                _fill(connection, table, **dumped[table.name])


def _fill(
    connection: sa.Connection, table: sa.Table, columns: list[str], rows: list[list[Any]]
) -> None:
    told = [dict(zip(columns, row, strict=True)) for row in rows]
    values = [{name: _value(table.c[name], value) for name, value in row.items()} for row in told]
    connection.execute(sa.insert(table), values)
    if connection.dialect.name == "postgresql" and "seq" in table.primary_key.columns:
        _count_on(connection, table.name)


def _count_on(connection: sa.Connection, table: str) -> None:
    """Rows that bring their numbers along do not move PostgreSQL's counter."""
    sequence = connection.scalar(sa.select(sa.func.pg_get_serial_sequence(table, "seq")))
    if sequence is not None:
        newest = sa.select(sa.func.max(sa.column("seq"))).select_from(sa.table(table))
        connection.execute(sa.select(sa.func.setval(sequence, newest.scalar_subquery())))


def _value(column: sa.Column[Any], value: object) -> object:
    """As SQLite stores it, and as either database takes it."""
    if value is None:
        return None
    if isinstance(column.type, sa.DateTime):
        return datetime.fromisoformat(str(value)).replace(tzinfo=UTC)
    return bool(value) if isinstance(column.type, sa.Boolean) else value

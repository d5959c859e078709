"""The few places where SQLite and PostgreSQL need different SQL."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Double, Table, Text, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from support_agent.adapters.db.prepared import NO_PARAMETERS, Prepared
from support_agent.adapters.db.types import UtcDateTime


class database_seconds(FunctionElement[float]):  # noqa: N801 - reads as an SQL function
    """Seconds since 1970 by the database's own clock, so that all workers count leases alike."""

    type = Double()
    inherit_cache = True


@compiles(database_seconds, "sqlite")
def _sqlite_seconds(*_: object, **__: object) -> str:
    # unixepoch('subsec') needs SQLite 3.42, newer than many Pythons bring; exact to 0.1 ms.
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_seconds, "postgresql")
def _postgres_seconds(*_: object, **__: object) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


class database_instant(FunctionElement[datetime]):  # noqa: N801 - reads as an SQL function
    """This moment by the database's own clock, as an instant column holds it."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(database_instant, "sqlite")
def _sqlite_instant(*_: object, **__: object) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"


@compiles(database_instant, "postgresql")
def _postgres_instant(*_: object, **__: object) -> str:
    return "clock_timestamp()"


class words_of(FunctionElement[str]):  # noqa: N801 - reads as an SQL function
    """The texts of all rows, a blank between them; NULL of none."""

    type = Text()
    inherit_cache = True


@compiles(words_of, "sqlite")
def _sqlite_words(element: words_of, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - untyped
    return f"group_concat({compiler.process(element.clauses, **options)}, ' ')"


@compiles(words_of, "postgresql")
def _postgres_words(element: words_of, compiler: Any, **options: Any) -> str:  # noqa: ANN401 - untyped
    return f"string_agg({compiler.process(element.clauses, **options)}, ' ')"


_NOW = Prepared(select(database_instant()))


def database_now(connection: Connection) -> datetime:
    """This moment by the database's own clock."""
    now: datetime = _NOW.value(connection, NO_PARAMETERS)
    return now


Insert = sqlite.Insert | postgresql.Insert


def insert(connection: Connection, table: Table) -> Any:  # noqa: ANN401 - the union below is untyped
    """An INSERT that knows `on_conflict_do_nothing` and `on_conflict_do_update`."""
    return insert_of(table, on_postgres=is_postgres(connection))


def insert_of(table: Table, *, on_postgres: bool) -> Any:  # noqa: ANN401 - as `insert`
    """The same for a statement that is built before there is a connection."""
    return postgresql.insert(table) if on_postgres else sqlite.insert(table)


def is_postgres(connection: Connection) -> bool:
    """Which of the two it is."""
    return connection.dialect.name == "postgresql"

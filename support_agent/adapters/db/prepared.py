"""Statements that are compiled once and then run by the driver itself.

SQLAlchemy compiles, names parameters and knows the types; what it does anew at each execution costs
more than the database does. A prepared statement does it once for each of the two databases.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import result_tuple
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.base import Executable

Row = sa.Row[*tuple[Any, ...]]
Parameters = Mapping[str, Any]
Named = Mapping[Any, Any]  # a row by the names of its columns
NO_PARAMETERS: Parameters = MappingProxyType({})
_Process = Callable[[Any], Any]


@dataclass(slots=True, kw_only=True)
class _Compiled:
    """One statement in one database's words."""

    sql: str
    fixed: Parameters  # parameters that the statement itself brings
    binding: Mapping[str, _Process]  # what becomes of which parameter first
    placed: Callable[[Parameters], Sequence[Any]] | None  # where they have places, not names
    at_place: Sequence[tuple[int, _Process]]  # as `binding`, by place
    names: Sequence[str]  # of the columns
    row: Callable[[Iterable[Any]], Row]
    types: Sequence[sa.types.TypeEngine[Any]]  # of the columns
    dialect: sa.Dialect
    reading: Sequence[tuple[int, _Process]] | None = None  # what becomes of which column

    def arguments(self, parameters: Parameters) -> Any:  # noqa: ANN401 - as the driver takes them
        if self.fixed:
            parameters = {**self.fixed, **parameters}
        if self.placed is not None:
            values = self.placed(parameters)
            if not self.at_place:
                return values
            values = [*values]
            for place, process in self.at_place:
                values[place] = process(values[place])
            return values
        if not self.binding:
            return parameters
        bound = {name: process(parameters[name]) for name, process in self.binding.items()}
        return {**parameters, **bound}

    def rows(self, cursor: DBAPICursor) -> list[Row]:
        row = self.row
        return [row(columns) for columns in self.read(cursor)]

    def read(self, cursor: DBAPICursor) -> list[Sequence[Any]]:
        """The rows as our column types read them."""
        found = [*cursor.fetchall()]
        if self.reading is None:  # a driver tells the types of its columns with the first rows
            self.reading = [*self._readers(cursor)]
        if not self.reading:
            return found
        rows: list[Sequence[Any]] = []
        for columns in found:
            read = [*columns]
            for index, process in self.reading:
                read[index] = process(read[index])
            rows.append(read)
        return rows

    def _readers(self, cursor: DBAPICursor) -> Iterator[tuple[int, _Process]]:
        for index, (kind, told) in enumerate(zip(self.types, cursor.description, strict=True)):
            here = kind.dialect_impl(self.dialect)
            process = here.result_processor(self.dialect, told[1])
            if process is not None:
                yield index, process


class Prepared:
    """A statement of `bindparam`s, run inside the connection's open transaction.

    An INSERT or UPDATE without values names its columns in `columns`.
    """

    def __init__(self, statement: Executable, *, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = columns
        self._compiled: dict[str, _Compiled] = {}

    def all(self, connection: sa.Connection, parameters: Parameters) -> list[Row]:
        compiled = self._for(connection)
        cursor = driven(connection, compiled.sql, compiled.arguments(parameters))
        return compiled.rows(cursor)

    def first(self, connection: sa.Connection, parameters: Parameters) -> Row | None:
        rows = self.all(connection, parameters)
        return rows[0] if rows else None

    def all_named(self, connection: sa.Connection, parameters: Parameters) -> list[Named]:
        """The rows by the names of their columns."""
        compiled = self._for(connection)
        cursor = driven(connection, compiled.sql, compiled.arguments(parameters))
        names = compiled.names
        return [dict(zip(names, row, strict=True)) for row in compiled.read(cursor)]

    def first_named(self, connection: sa.Connection, parameters: Parameters) -> Named | None:
        rows = self.all_named(connection, parameters)
        return rows[0] if rows else None

    def value(self, connection: sa.Connection, parameters: Parameters) -> Any:  # noqa: ANN401 - any column
        """The first column of the first row; None when there is no row."""
        row = self.first(connection, parameters)
        return None if row is None else row[0]

    def run(self, connection: sa.Connection, parameters: Parameters) -> int:
        """How many rows it changed."""
        compiled = self._for(connection)
        count: int = driven(connection, compiled.sql, compiled.arguments(parameters)).rowcount
        return count

    def run_each(self, connection: sa.Connection, many: Iterable[Parameters]) -> None:
        compiled = self._for(connection)
        each = [compiled.arguments(parameters) for parameters in many]
        driven(connection, compiled.sql, each, many=True)

    def _for(self, connection: sa.Connection) -> _Compiled:
        dialect = connection.dialect
        found = self._compiled.get(dialect.name)
        if found is None:  # two threads may compile at once, to the same
            found = self._compiled[dialect.name] = _compile(self._statement, dialect, self._columns)
        return found


def driven(
    connection: sa.Connection,
    sql: str,
    arguments: Any = (),  # noqa: ANN401 - as the driver takes them
    *,
    many: bool = False,
) -> DBAPICursor:
    """The driver's cursor.

    Raises:
        DBAPIError: as SQLAlchemy would have raised it.
    """
    cursor = connection.connection.cursor()
    listeners = connection.dispatch.before_cursor_execute
    if listeners:  # as SQLAlchemy asks them
        for listener in listeners:
            sql, arguments = listener(connection, cursor, sql, arguments, None, many)
    try:
        if many:
            cursor.executemany(sql, arguments)
        else:
            cursor.execute(sql, arguments)
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(connection, sql, cursor, error) from error
    return cursor


def commit(connection: sa.Connection) -> None:
    """Commit what the driver has open.

    Raises:
        DBAPIError: as `driven`.
    """
    try:
        connection.connection.commit()
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(connection, "COMMIT", None, error) from error


def told(
    connection: sa.Connection, sql: str, cursor: DBAPICursor | None, error: Exception
) -> BaseException:
    """The driver's error as SQLAlchemy would have raised it."""
    dialect = connection.dialect
    gone = dialect.is_disconnect(error, connection.connection, cursor)  # type: ignore[arg-type]  # our driver's
    if gone:
        connection.invalidate(error)
    return DBAPIError.instance(
        sql,
        None,  # they may be what a customer wrote
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=gone,
        dialect=dialect,
    )


def _compile(
    statement: Executable, dialect: sa.Dialect, columns: Sequence[str] | None
) -> _Compiled:
    compiled: Any = statement.compile(  # type: ignore[attr-defined]  # of every executable we have
        dialect=dialect,
        column_keys=None if columns is None else [*columns],
    )
    binds: Mapping[str, sa.BindParameter[Any]] = compiled.binds
    processes = {
        name: process
        for name, bind in binds.items()
        if (process := bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None
    }
    fixed = {
        name: processes.get(name, _as_it_is)(bind.value)
        for name, bind in binds.items()
        if not bind.required
    }
    shown = [*getattr(statement, "exported_columns", ())]
    binding = {name: process for name, process in processes.items() if name not in fixed}
    order: Sequence[str] = compiled.positiontup or ()
    return _Compiled(
        sql=compiled.string,
        fixed=fixed,
        binding=binding,
        placed=_places(order) if compiled.positional else None,
        at_place=[(n, binding[name]) for n, name in enumerate(order) if name in binding],
        names=[column.key for column in shown],
        row=result_tuple([column.key for column in shown]),
        types=[column.type for column in shown],
        dialect=dialect,
    )


def _places(names: Sequence[str]) -> Callable[[Parameters], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)  # of one it would give no sequence
    return lambda parameters: [parameters[name] for name in names]


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - any value
    return value

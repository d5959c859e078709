"""What the shop's database really has, held against what the map says of it."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from support_agent.adapters.orders.mapped.shape import Holds, OrdersMap, TableName
from support_agent.adapters.orders.mapped.uses import Use, uses_of

_MOST_NAMES = 12  # of those that are there, in one message

# Catalogs and not SQLAlchemy's inspector: it warns of every type it does not know, such as citext.
_PG_COLUMNS = sa.text(
    "SELECT a.attname AS name, format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE"
    " a.atttypid END, NULL) AS kind, c.relkind IN ('v', 'f') AS is_view"
    " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " JOIN pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = to_regclass(:name) AND a.attnum > 0 AND NOT a.attisdropped"
    " AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
)
_PG_INDEXES = sa.text(
    "SELECT a.attname AS name, i.indisunique AND i.indnkeyatts = 1 AS is_unique"
    " FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
    " WHERE i.indrelid = to_regclass(:name) AND i.indisvalid AND i.indpred IS NULL"
)
_PG_TABLES = sa.text(
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname = coalesce(:schema,"
    " current_schema()) ORDER BY 1 LIMIT 1000"
)
_LITE_COLUMNS = sa.text(
    "SELECT x.name AS name, upper(x.type) AS kind, m.type = 'view' AS is_view, x.pk AS pk"
    " FROM sqlite_master m JOIN pragma_table_xinfo(m.name) x WHERE m.name = :name"
    " AND m.type IN ('table', 'view') AND x.hidden <> 1"
)
_LITE_INDEXES = sa.text(
    'SELECT x.name AS name, l."unique" AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1'
    " AS is_unique FROM pragma_index_list(:name) l JOIN pragma_index_info(l.name) x"
    " WHERE x.seqno = 0 AND l.partial = 0 AND x.name IS NOT NULL"
)
_LITE_TABLES = sa.text(
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY 1 LIMIT 1000"
)

_TEXTS = frozenset({"text", "character varying", "character", "citext"})
_WHOLE = frozenset({"smallint", "integer", "bigint", "numeric"})
_PG_KINDS: Mapping[Holds, frozenset[str]] = {
    Holds.ID: _TEXTS | _WHOLE | {"uuid"},
    Holds.MONEY: _TEXTS | _WHOLE,
    Holds.TIME: _TEXTS | {"date", "timestamp with time zone", "timestamp without time zone"},
    Holds.COUNT: _WHOLE,
    Holds.FLAG: frozenset({"boolean", "smallint", "integer", "bigint"}),
}
_ADVICE: Mapping[Holds, str] = {
    Holds.ID: "ids are text, whole numbers or uuid",
    Holds.MONEY: "money is numeric, a whole number or a text of digits, so that no amount is "
    "rounded; change the column, or map a view that casts it to numeric(18, 2)",
    Holds.TIME: "times are timestamp, date or ISO text; map a view that casts it",
    Holds.COUNT: "counts are whole numbers; map a view that casts it",
    Holds.FLAG: "yes and no are boolean, or 1 and 0; map a view that says which",
}
_FLOATS = ("REAL", "FLOA", "DOUB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflected:
    """A table or view as the database has it."""

    kinds: Mapping[str, str]  # by column
    is_view: bool
    unique: frozenset[str]  # columns of which no two rows have the same value
    leading: frozenset[str]  # columns by which an index finds rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Where the map and the database do not agree: what the file says, and how to mend it."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The tables the map names, and what does not fit."""

    tables: Mapping[TableName, Reflected]
    misfits: tuple[Misfit, ...]


def reflect(connection: sa.Connection, shape: OrdersMap) -> Fit:
    """Look at every table and column that the map names; some statements a table."""
    sections = {
        "customers": shape.customers.table,
        "orders": shape.orders.table,
        "lines": shape.lines.table,
        "payments": shape.payments.table,
    }
    found = {table: _reflected(connection, table) for table in dict.fromkeys(sections.values())}
    misfits = [
        Misfit(key=f"{section}.table", problem=_no_table(connection, table))
        for section, table in sections.items()
        if found[table] is None
    ]
    tables = {table: reflected for table, reflected in found.items() if reflected is not None}
    postgres = connection.dialect.name == "postgresql"
    for use in uses_of(shape):
        if use.table in tables:
            misfits += _misfits(use, tables[use.table], postgres=postgres)
    return Fit(tables=tables, misfits=tuple(misfits))


def quoted(connection: sa.Connection, table: TableName) -> str:
    """The table's name as this database writes it in SQL."""
    return connection.dialect.identifier_preparer.format_table(
        sa.table(table.name, schema=table.schema)
    )


def _reflected(connection: sa.Connection, table: TableName) -> Reflected | None:
    if connection.dialect.name == "postgresql":
        named = {"name": quoted(connection, table)}
        columns = connection.execute(_PG_COLUMNS, named).mappings().all()
        indexes = connection.execute(_PG_INDEXES, named).mappings().all()
    elif table.schema not in {None, "main"}:
        return None
    else:
        named = {"name": table.name}
        columns = connection.execute(_LITE_COLUMNS, named).mappings().all()
        indexes = connection.execute(_LITE_INDEXES, named).mappings().all()
    if not columns:
        return None
    rowid = _rowid(columns)
    return Reflected(
        kinds={column["name"]: column["kind"] for column in columns},
        is_view=bool(columns[0]["is_view"]),
        unique=frozenset(index["name"] for index in indexes if index["is_unique"]) | rowid,
        leading=frozenset(index["name"] for index in indexes) | rowid,
    )


def _rowid(columns: Sequence[sa.RowMapping]) -> frozenset[str]:
    """SQLite keeps an INTEGER PRIMARY KEY as the row's own number, which has no index to list."""
    keys = [column for column in columns if column.get("pk")]
    alone = len(keys) == 1 and keys[0]["kind"] == "INTEGER"
    return frozenset({keys[0]["name"]}) if alone else frozenset()


def _no_table(connection: sa.Connection, table: TableName) -> str:
    if connection.dialect.name == "postgresql":
        names = connection.execute(_PG_TABLES, {"schema": table.schema}).scalars().all()
    elif table.schema not in {None, "main"}:
        return f"{str(table)!r} names a schema, which SQLite has not; write {table.name!r}"
    else:
        names = connection.execute(_LITE_TABLES).scalars().all()
    return f"there is no table or view {str(table)!r} that we can see; {_near(table.name, names)}"


def _near(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name.lower(), {n.lower(): n for n in names}, n=1)
    if close:
        meant = next(n for n in names if n.lower() == close[0])
        return f"did you mean {meant!r}?"
    shown = ", ".join(map(repr, sorted(names)[:_MOST_NAMES])) or "none"
    return f"there are {shown}{', …' if len(names) > _MOST_NAMES else ''}"


def _misfits(use: Use, table: Reflected, *, postgres: bool) -> Iterator[Misfit]:
    kind = table.kinds.get(use.column)
    if kind is None:
        there = f"{str(use.table)!r} has no column {use.column!r}"
        yield Misfit(key=use.key, problem=f"{there}; {_near(use.column, [*table.kinds])}")
        return
    if postgres:
        known = _PG_KINDS.get(use.holds)
        wrong = known is not None and kind not in known
    else:
        # Any column may hold anything; only one that makes a double of what is put in is wrong.
        wrong = use.holds in {Holds.MONEY, Holds.ID} and any(name in kind for name in _FLOATS)
    if wrong:
        problem = f"column {use.column!r} is {kind.lower()}, but {_ADVICE[use.holds]}"
        yield Misfit(key=use.key, problem=problem)

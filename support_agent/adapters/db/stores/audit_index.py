"""The audit index in SQL: what proves one thing is read in one statement."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert_of, is_postgres
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.stores.audit_rows import (
    AS_STORED,
    EVENTS,
    Row,
    audit_row,
    number_of,
    text_of,
)
from support_agent.adapters.db.tables.trail import AuditEntryRow, AuditHeadRow, AuditNodeRow
from support_agent.domain.audit import AuditHead, AuditRow
from support_agent.domain.audit_index import (
    BRANCHES,
    LEVELS,
    AuditIndex,
    Children,
    Entry,
    Position,
    bucket_of,
    path_of,
)
from support_agent.domain.errors import HistoryBroken

HEADS = table_of(AuditHeadRow)
ENTRIES = table_of(AuditEntryRow)
NODES = table_of(AuditNodeRow)
_ROWS_AT_ONCE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is stored of one thing, as it was at one moment; not checked yet."""

    bucket: int
    head: AuditHead
    newest: AuditRow | None
    event: AuditRow | None  # the one that the thing's entry names
    entries: tuple[Entry, ...]
    nodes: Mapping[Position, Children]


def _arm(part: str, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """A row of the statement below: all its columns, of which this part fills some."""
    given = {column.name: column for column in columns}
    filled = [
        given.get(name, sa.type_coerce(sa.cast(sa.null(), kind), shown)).label(name)
        for name, kind, shown in _COLUMNS
    ]
    return sa.select(sa.literal_column(f"'{part}'", sa.Text).label("part"), *filled)


_COLUMNS = (
    *((column.name, EVENTS.c[column.name].type, column.type) for column in AS_STORED),
    *((name, NODES.c[name].type, NODES.c[name].type) for name in ("level", "position", "children")),
    *((name, ENTRIES.c[name].type, ENTRIES.c[name].type) for name in ("bucket", "topic")),
)
_HERE = ENTRIES.c.bucket == sa.bindparam("bucket", type_=sa.Integer)
_THING = sa.and_(
    _HERE,
    ENTRIES.c.topic == sa.bindparam("topic", type_=sa.Text),
    ENTRIES.c.subject == sa.bindparam("subject", type_=sa.Text),
)
_PATH = sa.or_(
    *(
        sa.and_(NODES.c.level == level, NODES.c.position == sa.bindparam(f"at{level}"))
        for level in range(LEVELS)
    )
)
_NEWEST = sa.select(sa.func.max(EVENTS.c.seq)).scalar_subquery()
_PROOF = sa.union_all(
    _arm("newest", *AS_STORED).where(EVENTS.c.seq == _NEWEST),
    _arm("event", *AS_STORED).where(EVENTS.c.seq.in_(sa.select(ENTRIES.c.seq).where(_THING))),
    _arm("head", HEADS.c.seq, HEADS.c.mac),
    _arm("entry", *ENTRIES.columns).where(_HERE),
    _arm("node", *NODES.columns).where(_PATH),
)


def read_proof(connection: sa.Connection, topic: str, subject: str) -> Proof:
    """What is stored of a thing and above it, in one statement: one snapshot on either database.

    Raises:
        HistoryBroken: rows that this program never wrote.
    """
    bucket = bucket_of(topic, subject)
    path = {f"at{level}": position for level, position in path_of(bucket)}
    here = {"bucket": bucket, "topic": topic, "subject": subject, **path}
    parts: dict[str, list[Row]] = {}
    for row in connection.execute(_PROOF, here):
        parts.setdefault(row.part, []).append(row)
    try:
        return Proof(
            bucket=bucket,
            head=_head(_only(parts, "head")),
            newest=_event(_only(parts, "newest")),
            event=_event(_only(parts, "event")),
            entries=tuple(_entry(row) for row in parts.get("entry", ())),
            nodes=dict(_node(row) for row in parts.get("node", ())),
        )
    except (TypeError, ValueError) as error:
        raise HistoryBroken(f"the audit index around {subject!r} cannot be read") from error


def _only(parts: Mapping[str, list[Row]], part: str) -> Row | None:
    rows = parts.get(part, [])
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} rows for {part}")
    return rows[0] if rows else None


def _head(row: Row | None) -> AuditHead:
    if row is None:
        raise ValueError("no head")
    return AuditHead(seq=number_of(row.seq), mac=text_of(row.mac))


def _event(row: Row | None) -> AuditRow | None:
    return None if row is None else audit_row(row)


def _entry(row: Row) -> Entry:
    return Entry(
        bucket=number_of(row.bucket),
        topic=text_of(row.topic),
        subject=text_of(row.subject),
        seq=number_of(row.seq),
    )


def _node(row: Row) -> tuple[Position, Children]:
    children = tuple(text_of(row.children).split(","))
    if len(children) != BRANCHES:
        raise ValueError(f"a node with {len(children)} children")
    return (number_of(row.level), number_of(row.position)), children


def stored_entries(connection: sa.Connection) -> Iterator[Entry]:
    """All of them, streamed; one that cannot be read comes as one that is nowhere expected."""
    for row in _streamed(connection, sa.select(ENTRIES)):
        try:
            yield _entry(row)
        except (TypeError, ValueError):
            yield Entry(bucket=-1, topic="unreadable", subject=repr(row.subject), seq=0)


def stored_nodes(connection: sa.Connection) -> Iterator[tuple[Position, Children]]:
    """As `stored_entries`."""
    for row in _streamed(connection, sa.select(NODES)):
        try:
            yield _node(row)
        except (TypeError, ValueError):
            yield (-1, -1), ()


def _streamed(connection: sa.Connection, statement: sa.Select[Any]) -> sa.CursorResult[Any]:
    return connection.execute(statement, execution_options={"yield_per": _ROWS_AT_ONCE})


def write_index(
    connection: sa.Connection,
    entries: Iterable[Entry],
    nodes: Iterable[tuple[Position, Children]],
) -> None:
    """Store entries and nodes over what is there of them."""
    things = (
        {"bucket": one.bucket, "topic": one.topic, "subject": one.subject, "seq": one.seq}
        for one in entries
    )
    places = (
        {"level": level, "position": position, "children": ",".join(children)}
        for (level, position), children in nodes
    )
    for table, column, rows in ((ENTRIES, "seq", things), (NODES, "children", places)):
        statement = _over(table, column, on_postgres=is_postgres(connection))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            connection.execute(statement, some)


@cache
def _over(table: sa.Table, column: str, *, on_postgres: bool) -> Any:  # noqa: ANN401 - as `insert`
    """An INSERT over what is there; built once, as every audited transaction needs it."""
    statement = insert_of(table, on_postgres=on_postgres)
    return statement.on_conflict_do_update(
        index_elements=[*table.primary_key.columns], set_={column: statement.excluded[column]}
    )


def replace_index(connection: sa.Connection, index: AuditIndex) -> None:
    """Store a whole index in the place of what is there."""
    connection.execute(sa.delete(ENTRIES))
    connection.execute(sa.delete(NODES))
    write_index(connection, index.entries(), index.nodes())

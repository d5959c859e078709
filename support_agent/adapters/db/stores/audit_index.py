"""The audit index in SQL: what proves one thing is read in one statement."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import insert_of, is_postgres
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.stores.audit_rows import (
    AS_STORED,
    EVENTS,
    Row,
    known_row,
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
    Thing,
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
_NEWEST = sa.select(sa.func.max(EVENTS.c.seq)).scalar_subquery()


@cache
def _proofs_of(count: int) -> Prepared:
    """Reads what proves so many things."""
    here = [ENTRIES.c.bucket == sa.bindparam(f"bucket{n}", type_=sa.Integer) for n in range(count)]
    things = (
        sa.and_(
            bucket,
            ENTRIES.c.topic == sa.bindparam(f"topic{n}", type_=sa.Text),
            ENTRIES.c.subject == sa.bindparam(f"subject{n}", type_=sa.Text),
        )
        for n, bucket in enumerate(here)
    )
    path = (
        sa.and_(NODES.c.level == level, NODES.c.position == sa.bindparam(f"at{level}_{n}"))
        for level in range(LEVELS)
        for n in range(count if level else 1)  # the root is above all of them
    )
    named = sa.select(ENTRIES.c.seq).where(sa.or_(*things))
    return Prepared(
        sa.union_all(
            _arm("newest", *AS_STORED).where(EVENTS.c.seq == _NEWEST),
            _arm("event", *AS_STORED).where(EVENTS.c.seq.in_(named)),
            _arm("head", HEADS.c.seq, HEADS.c.mac),
            _arm("entry", *ENTRIES.columns).where(sa.or_(*here)),
            _arm("node", *NODES.columns).where(sa.or_(*path)),
        )
    )


def read_proofs(connection: sa.Connection, things: Sequence[Thing]) -> list[Proof]:
    """What is stored of each thing and above it, in one statement: one snapshot on either database.

    Raises:
        HistoryBroken: rows that this program never wrote.
    """
    given: dict[str, object] = {}
    for n, (topic, subject) in enumerate(things):
        bucket = bucket_of(topic, subject)
        given |= {f"bucket{n}": bucket, f"topic{n}": topic, f"subject{n}": subject}
        given |= {f"at{level}_{n}": position for level, position in path_of(bucket)}
    parts: dict[str, list[Row]] = {}
    for row in _proofs_of(len(things)).all(connection, given):
        parts.setdefault(row.part, []).append(row)
    try:
        return _proofs(parts, things)
    except (TypeError, ValueError) as error:
        about = ", ".join(repr(subject) for _, subject in things)
        raise HistoryBroken(f"the audit index around {about} cannot be read") from error


def _proofs(parts: Mapping[str, list[Row]], things: Sequence[Thing]) -> list[Proof]:
    head, newest = _head(_only(parts, "head")), _event(_only(parts, "newest"))
    events = {row.seq: known_row(row) for row in parts.get("event", ())}
    entries = [_entry(row) for row in parts.get("entry", ())]
    seqs = {(entry.bucket, entry.topic, entry.subject): entry.seq for entry in entries}
    nodes = dict(_node(row) for row in parts.get("node", ()))
    proofs = []
    for topic, subject in things:
        bucket = bucket_of(topic, subject)
        seq = seqs.get((bucket, topic, subject))
        proof = Proof(
            bucket=bucket,
            head=head,
            newest=newest,
            event=None if seq is None else events.get(seq),
            entries=tuple(entry for entry in entries if entry.bucket == bucket),
            nodes={place: nodes[place] for place in path_of(bucket) if place in nodes},
        )
        proofs.append(proof)
    return proofs


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
    return None if row is None else known_row(row)


def _entry(row: Row) -> Entry:
    return Entry(
        bucket=number_of(row.bucket),
        topic=text_of(row.topic),
        subject=text_of(row.subject),
        seq=number_of(row.seq),
    )


def _node(row: Row) -> tuple[Position, Children]:
    return (number_of(row.level), number_of(row.position)), _children(text_of(row.children))


@lru_cache(maxsize=512)
def _children(text: str) -> Children:
    children = tuple(text.split(","))
    if len(children) != BRANCHES:
        raise ValueError(f"a node with {len(children)} children")
    return children


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
            statement.run_each(connection, some)


@cache
def _over(table: sa.Table, column: str, *, on_postgres: bool) -> Prepared:
    """An INSERT over what is there."""
    statement = insert_of(table, on_postgres=on_postgres)
    return Prepared(
        statement.on_conflict_do_update(
            index_elements=[*table.primary_key.columns], set_={column: statement.excluded[column]}
        ).inline(),
        columns=[one.name for one in table.columns],
    )


def replace_index(connection: sa.Connection, index: AuditIndex) -> None:
    """Store a whole index in the place of what is there."""
    connection.execute(sa.delete(ENTRIES))
    connection.execute(sa.delete(NODES))
    write_index(connection, index.entries(), index.nodes())

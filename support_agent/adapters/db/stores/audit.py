"""The audit chain in SQL, and the index over it that every event signs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC

import sqlalchemy as sa
import structlog

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.faults import UPGRADE
from support_agent.adapters.db.prepared import NO_PARAMETERS, Prepared
from support_agent.adapters.db.statements import storable
from support_agent.adapters.db.stores.audit_index import (
    HEADS,
    Proof,
    read_proofs,
    replace_index,
    stored_entries,
    stored_nodes,
    write_index,
)
from support_agent.adapters.db.stores.audit_rows import AS_STORED, EVENTS, audit_row, event_values
from support_agent.domain.audit import (
    UNPROVED,
    AuditEvent,
    AuditHead,
    AuditRow,
    holds,
    link,
    topic_of,
)
from support_agent.domain.audit_index import (
    AuditIndex,
    Children,
    Entry,
    Position,
    Thing,
    entry_of,
    proved_root,
)
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable, HistoryBroken
from support_agent.domain.signing import KeyRing

log = structlog.get_logger(__name__)

_LOCK_HEAD = Prepared(sa.update(HEADS).values(seq=HEADS.c.seq).returning(HEADS.c.seq, HEADS.c.mac))
_MOVE_HEAD = Prepared(sa.update(HEADS), columns=("seq", "mac"))
_ADD = Prepared(sa.insert(EVENTS).inline(), columns=[column.name for column in EVENTS.columns])
_EVENTS = sa.select(*AS_STORED)
_NEWEST = Prepared(_EVENTS.order_by(EVENTS.c.seq.desc()).limit(1))
_ROWS_AT_ONCE = 500
_PROOFS_AT_ONCE = 20


class SqlAudit:
    """Events wait in memory until the commit, so that the head row is the last thing locked.

    What this transaction appended is therefore not yet in `head`, `rows`, `latest_for`, `vouched`.
    """

    def __init__(self, connection: sa.Connection, keys: KeyRing, *, writable: bool) -> None:
        self._connection = connection
        self._keys = keys
        self._writable = writable
        self._waiting: list[AuditEvent] = []
        self._one_moment = not is_postgres(connection)
        self._proofs: dict[Thing, Proof] = {}
        self._rooted: tuple[AuditHead, AuditRow | None, str | None] | None = None
        self._made: str | None = None  # the root of an index that was made anew in here

    def append(self, event: AuditEvent) -> None:
        if not self._writable:
            raise RuntimeError(f"audit event {event.action!r} in a read-only transaction")
        # The row comes back in UTC: the MAC has to cover the same words.
        in_utc = event.at.tzinfo is UTC
        self._waiting.append(event if in_utc else replace(event, at=event.at.astimezone(UTC)))

    def seal(self) -> None:
        """Link what waits to the head; nothing may be locked after this.

        All of it signs the root that the index has after it.
        """
        if not self._waiting:
            return
        head = self._held() or self.hold()
        root = self._advanced(head)
        linked = []
        for event in self._waiting:
            row = link(self._keys, head, event, root)
            head = AuditHead(seq=row.seq, mac=row.mac)
            linked.append(event_values(row))
        _ADD.run_each(self._connection, linked)
        _MOVE_HEAD.run(self._connection, {"seq": head.seq, "mac": head.mac})
        self._waiting.clear()
        self._proofs.clear()

    def _held(self) -> AuditHead | None:
        """The head that a proof was read with; on SQLite the transaction itself holds it."""
        return next((proof.head for proof in self._proofs.values()), None)

    def hold(self) -> AuditHead:
        locked = _LOCK_HEAD.first(self._connection, NO_PARAMETERS)
        if locked is None:
            raise DatabaseUnavailable("the audit head is gone: somebody changed the database")
        return AuditHead(seq=locked.seq, mac=locked.mac)

    def _advanced(self, head: AuditHead) -> str | None:
        """The root after what waits; the index is stored with it.

        What is stored counts only when the newest event proves it. Signing anything else would make
        a forgery ours: then nothing is proved from here on, until the index is made anew.
        """
        newer = {
            (topic, event.subject): seq
            for seq, event in enumerate(self._waiting, head.seq + 1)
            if (topic := topic_of(event.action)) is not None
        }
        try:
            self.expect(*newer)
            proofs = [self._proof(*thing) for thing in newer]
            newest = proofs[0].newest if proofs else self.newest()
            before = self._made or self._root(head, newest)
            if before and newer:
                return self._put(_proved(before, proofs), newer)
        except HistoryBroken:
            before = UNPROVED
        if before == UNPROVED:
            log.error("audit.index_broken", after=head.seq)
        return before

    def _root(self, head: AuditHead, newest: AuditRow | None) -> str | None:
        """`proved_root`, remembered for as long as the very same is asked."""
        if self._rooted is not None and self._rooted[0] == head and self._rooted[1] is newest:
            return self._rooted[2]
        root = proved_root(self._keys, head, newest)
        self._rooted = (head, newest, root)
        return root

    def _put(self, index: AuditIndex, newer: Mapping[Thing, int]) -> str:
        for (topic, subject), seq in newer.items():
            index.put(topic, subject, seq)
        root = index.root()
        things = (entry_of(*thing, seq) for thing, seq in newer.items())
        write_index(self._connection, things, index.nodes())
        return root

    def vouched(self, topic: str, subject: str) -> AuditRow | None:
        if not storable(subject):
            return None
        proof = self._proof(topic, subject)
        root = self._root(proof.head, proof.newest)
        if root is None:
            raise ConfigurationError(f"the history has no index yet, so nothing counts; {UPGRADE}")
        seq = _proved(root, [proof]).newest(topic, subject)
        if seq is None:
            return None
        row = proof.event
        if row is None or row.seq != seq or not holds(self._keys, row):
            raise HistoryBroken(f"event {seq} is not as it was written")
        if (topic_of(row.event.action), row.event.subject) != (topic, subject):
            raise HistoryBroken(f"event {seq} is not about {topic} {subject!r}")
        return row

    def expect(self, *things: tuple[str, str]) -> None:
        if not self._one_moment:
            return
        new = [thing for thing in things if thing not in self._proofs and storable(thing[1])]
        if 1 < len(new) <= _PROOFS_AT_ONCE:
            with suppress(HistoryBroken):  # alone each of them tells whether it is the broken one
                self._proofs.update(zip(new, read_proofs(self._connection, new), strict=True))

    def _proof(self, topic: str, subject: str) -> Proof:
        """On SQLite nothing changes while a transaction lasts, so there a thing is read once."""
        proof = self._proofs.get((topic, subject))
        if proof is None:
            (proof,) = read_proofs(self._connection, [(topic, subject)])
            if self._one_moment:
                self._proofs[topic, subject] = proof
        return proof

    def head(self) -> AuditHead:
        row = self._connection.execute(sa.select(HEADS.c.seq, HEADS.c.mac)).one()
        return AuditHead(seq=row.seq, mac=row.mac)

    def newest(self) -> AuditRow | None:
        row = _NEWEST.first(self._connection, NO_PARAMETERS)
        return None if row is None else audit_row(row)

    def rows(self, *, after: int = 0, most: int | None = None) -> Iterator[AuditRow]:
        found = self._connection.execute(
            _EVENTS.where(EVENTS.c.seq > after).order_by(EVENTS.c.seq).limit(most),
            execution_options={"yield_per": _ROWS_AT_ONCE},
        )
        return (audit_row(row) for row in found)

    def latest_for(self, subject: str, *, prefix: str = "") -> AuditRow | None:
        statement = (
            _EVENTS.where(
                EVENTS.c.subject == subject, EVENTS.c.action.startswith(prefix, autoescape=True)
            )
            .order_by(EVENTS.c.seq.desc())
            .limit(1)
        )
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else audit_row(row)

    def index_entries(self) -> Iterator[Entry]:
        return stored_entries(self._connection)

    def index_nodes(self) -> Iterator[tuple[Position, Children]]:
        return stored_nodes(self._connection)

    def replace_index(self, index: AuditIndex) -> None:
        self._made = index.root()
        self._proofs.clear()
        replace_index(self._connection, index)


def _proved(root: str, proofs: Sequence[Proof]) -> AuditIndex:
    """The part of the index that was read, when it is what the root stands for.

    Raises:
        HistoryBroken: it is not.
    """
    entries = {entry for proof in proofs for entry in proof.entries}
    nodes = {place: children for proof in proofs for place, children in proof.nodes.items()}
    index = AuditIndex(entries=entries, nodes=nodes)
    for proof in proofs:
        if root == UNPROVED or not index.proves(root, proof.bucket):
            raise HistoryBroken("the audit index is not what the newest event signed")
    return index

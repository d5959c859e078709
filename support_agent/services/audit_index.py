"""The audit index against the chain: checking what is stored, and making it anew."""

from collections.abc import Iterator

from support_agent.domain.audit import (
    START,
    AuditEvent,
    AuditHead,
    AuditRow,
    holds,
    topic_of,
)
from support_agent.domain.audit_index import AuditIndex, entry_of
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.people import SYSTEM
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction

INDEXED = "audit.indexed"
EVERYTHING = "audit"  # the subject of such an event
MOST_NAMED = 10  # wrong entries that are told by name


def is_indexed(tx: Transaction, keys: KeyRing) -> bool:
    """Whether the newest event proves all of the stored index; the chain is not walked."""
    newest = tx.audit.newest()
    if newest is None:
        return True
    index, in_place = AuditIndex(), True
    for entry in tx.audit.index_entries():
        in_place = in_place and entry == entry_of(entry.topic, entry.subject, entry.seq)
        index.put(entry.topic, entry.subject, entry.seq)
    proved = holds(keys, newest) and index.root() == newest.root
    return proved and in_place and dict(tx.audit.index_nodes()) == dict(index.nodes())


def reindex(tx: Transaction, keys: KeyRing) -> int:
    """Make the index anew from the chain, and sign it; returns how many events there were.

    The whole chain is walked, with its head held: for a database from before the index, and for one
    whose index was damaged though its chain is whole.

    Raises:
        ConfigurationError: an event is missing or was changed: what it said is not known any more.
    """
    head = tx.audit.hold()
    index, last, whole = AuditIndex(), START, True
    for row in tx.audit.rows():  # to the end, or the cursor would stay open
        follows = (row.seq, row.prev_mac) == (last.seq + 1, last.mac)
        whole = whole and follows and holds(keys, row)
        if whole:
            last = AuditHead(seq=row.seq, mac=row.mac)
            note(index, row)
    if last != head:
        raise _cannot_index(last.seq + 1)
    tx.audit.replace_index(index)
    tx.audit.append(
        AuditEvent(
            action=INDEXED,
            actor=SYSTEM,
            subject=EVERYTHING,
            at=tx.database_now(),
            data={"events": str(head.seq)},
        )
    )
    return head.seq


def _cannot_index(seq: int) -> ConfigurationError:
    return ConfigurationError(
        f"audit event {seq} is missing, was changed or bears the signature of another key, so the "
        "history cannot be indexed and nothing in it counts; run: support-agent audit verify"
    )


def note(index: AuditIndex, row: AuditRow) -> None:
    """What an event changes in the index."""
    topic = topic_of(row.event.action)
    if topic is not None:
        index.put(topic, row.event.subject, row.seq)


class IndexCheck:
    """Follows the chain, and knows after it what the index has to be.

    All events of a transaction sign the root after the last of them. So where the next event has
    another root, the root until there has to be that of what was said until there.
    """

    def __init__(self) -> None:
        self._index = AuditIndex()
        self._last: AuditRow | None = None
        self._wrong_root: int | None = None  # the first; what comes after it is no news

    def follow(self, row: AuditRow) -> None:
        """The next event of the chain."""
        if self._last is not None and self._last.root != row.root:
            self._check_root(self._last)
        note(self._index, row)
        self._last = row

    def _check_root(self, row: AuditRow) -> None:
        if row.root and self._wrong_root is None and row.root != self._index.root():
            self._wrong_root = row.seq

    def problems(self, tx: Transaction) -> Iterator[str]:
        """What is wrong with the roots, and with the stored rows."""
        if self._last is None:
            return
        self._check_root(self._last)
        if self._wrong_root is not None:
            yield f"event {self._wrong_root} signed another index than the history's"
        if not self._last.root:
            yield "the newest event proves no index; run: support-agent db upgrade"
            return
        self._index.root()
        yield from self._entry_problems(tx)
        yield from self._node_problems(tx)

    def _entry_problems(self, tx: Transaction) -> Iterator[str]:
        expected = {(one.topic, one.subject): one for one in self._index.entries()}
        wrong = 0
        for stored in tx.audit.index_entries():
            thing = (stored.topic, stored.subject)
            if expected.pop(thing, None) != stored:
                wrong += 1
                if wrong <= MOST_NAMED:
                    yield f"the index entry of {thing[0]} {thing[1]!r} is not what history says"
        for topic, subject in expected:
            wrong += 1
            if wrong <= MOST_NAMED:
                yield f"the index entry of {topic} {subject!r} is gone"
        if wrong > MOST_NAMED:
            more = wrong - MOST_NAMED
            yield f"{more} more entries of the index are not what the history says"

    def _node_problems(self, tx: Transaction) -> Iterator[str]:
        expected = dict(self._index.nodes())
        wrong = sum(
            expected.pop(position, None) != children
            for position, children in tx.audit.index_nodes()
        )
        wrong += len(expected)
        if wrong:
            yield f"{wrong} node(s) of the index are not what the history says"

"""The audit chain, the outbox and staff tasks as they are stored."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.audit import AuditEvent, AuditHead, AuditRow
from support_agent.domain.audit_index import AuditIndex, Children, Entry, Position


class Audit(Protocol):
    def append(self, event: AuditEvent) -> None:
        """Add to the chain. Linked when the transaction commits: the head row is locked last."""
        ...

    def head(self) -> AuditHead: ...

    def newest(self) -> AuditRow | None:
        """The row the head speaks of; None while nothing has happened."""
        ...

    def rows(self, *, after: int = 0, most: int | None = None) -> Iterator[AuditRow]:
        """By `seq`, streamed, of those after `after`. Read to the end, or the cursor stays open."""
        ...

    def latest_for(self, subject: str, *, prefix: str = "") -> AuditRow | None:
        """The newest event about a subject, of those whose action starts with `prefix`.

        Of those that are there: who can write the database may have hidden it. See `vouched`.
        """
        ...

    def expect(self, *things: tuple[str, str]) -> None:
        """Topics and subjects that will be asked of, so that they may be read together.

        It changes nothing that is told of them.
        """
        ...

    def vouched(self, topic: str, subject: str) -> AuditRow | None:
        """The newest event about a subject, of a topic of `topic_of`: proved, and so not hidden.

        None is proved as well: there never was one. All of it is read in one statement, so that
        who writes meanwhile does not make a sound history look broken.

        Raises:
            HistoryBroken: the stored rows prove nothing, somebody changed them.
            ConfigurationError: the history is older than its index; says how to make that.
        """
        ...

    def hold(self) -> AuditHead:
        """The head, which nobody moves before this transaction ends. Nothing is locked after it."""
        ...

    def index_entries(self) -> Iterator[Entry]:
        """The index as it is stored; read to the end."""
        ...

    def index_nodes(self) -> Iterator[tuple[Position, Children]]:
        """The nodes above its entries; read to the end."""
        ...

    def replace_index(self, index: AuditIndex) -> None:
        """Store this whole index, made from a chain that was walked under `hold`.

        It counts as proved: the next event appended here signs it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """An event that is its claimer's to deliver while the lease runs; `tries` counts this one."""

    seq: int
    key: str
    topic: str
    tries: int


class Outbox(Protocol):
    """Events to the outside, written with what caused them; ids and codes only.

    Events whose body names the same `conversation_id` leave one after the other, as they were
    written; while one of them is tried again the later ones wait. Leases and pauses are counted by
    the database's clock.
    """

    def add(
        self,
        topic: str,
        *,
        key: str,
        body: Mapping[str, str],
        at: datetime,
        deliver: bool = True,
    ) -> None:
        """`key` is unique: the same event twice is written once.

        Without `deliver` it is for webhooks alone. One that is nothing to them (`webhooks.TOPICS`)
        is never kept for them.
        """
        ...

    def is_due(self, topics: Collection[str]) -> bool:
        """Whether `claim` would give anything or `skip` end anything."""
        ...

    def claim(self, topics: Collection[str], *, limit: int, lease_s: float) -> tuple[Claimed, ...]:
        """Take the oldest that are due, of these topics; nobody else gets them meanwhile."""
        ...

    def body(self, claimed: Claimed) -> Mapping[str, str] | None:
        """None when it is gone: the customer was erased since it was claimed."""
        ...

    def settle(self, claimed: Claimed, *, at: datetime) -> bool:
        """It is over; False when the lease was over and somebody else has it, or had it."""
        ...

    def put_off(self, claimed: Claimed, *, pause_s: float) -> bool:
        """To be tried again after a pause; False as `settle`."""
        ...

    def skip(self, topics: Collection[str], *, limit: int, at: datetime) -> int:
        """End the oldest of all other topics, which nobody reads; how many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something a person at the shop has to do."""

    id: str
    kind: str
    subject: str
    conversation_id: str | None
    created_at: datetime
    due_at: datetime | None = None
    done_at: datetime | None = None
    done_by: str | None = None


class Tasks(Protocol):
    def add(self, task: Task) -> bool:
        """False when a task of this id exists: the same fact makes one task."""
        ...

    def get(self, task_id: str) -> Task | None: ...

    def finish(self, task_id: str, *, by: str, at: datetime) -> bool:
        """False when it is done already."""
        ...

    def open_of(self, conversation_id: str) -> tuple[Task, ...]:
        """Those of a conversation that are not done, oldest first."""
        ...

    def list(self, *, open_only: bool, limit: int, after: str | None = None) -> tuple[Task, ...]:
        """Oldest first; `after` is the last id of the page before.

        Raises:
            InvalidInput: `after` names no task.
        """
        ...

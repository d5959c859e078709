"""The audit chain, the outbox and staff tasks as they are stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.audit import AuditEvent, AuditHead, AuditRow


class Audit(Protocol):
    def append(self, event: AuditEvent) -> None:
        """Add to the chain. Linked when the transaction commits: the head row is locked last."""
        ...

    def head(self) -> AuditHead: ...

    def newest(self) -> AuditRow | None:
        """The row the head speaks of; None while nothing has happened."""
        ...

    def rows(self, *, after: int = 0) -> Iterator[AuditRow]:
        """By `seq`, streamed, of those after `after`. Read to the end, or the cursor stays open."""
        ...

    def latest_for(self, subject: str, *, prefix: str = "") -> AuditRow | None:
        """The newest event about a subject, of those whose action starts with `prefix`."""
        ...


class Outbox(Protocol):
    """Events to the outside, written with what caused them; ids and codes only."""

    def add(self, topic: str, *, key: str, body: Mapping[str, str], at: datetime) -> None:
        """`key` is unique: the same event twice is written once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Something a person at the shop has to do."""

    id: str
    kind: str
    subject: str
    conversation_id: str | None
    created_at: datetime
    done_at: datetime | None = None


class Tasks(Protocol):
    def add(self, task: Task) -> bool:
        """False when a task of this id exists: the same fact makes one task."""
        ...

    def list(self, *, open_only: bool, limit: int, after: str | None = None) -> tuple[Task, ...]:
        """Oldest first; `after` is the last id of the page before.

        Raises:
            InvalidInput: `after` names no task.
        """
        ...

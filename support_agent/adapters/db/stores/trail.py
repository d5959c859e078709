"""The audit chain, the outbox and staff tasks in SQL."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.tables.trail import (
    AuditEventRow,
    AuditHeadRow,
    OutboxRow,
    TaskRow,
)
from support_agent.domain.audit import AuditEvent, AuditHead, AuditRow, link
from support_agent.domain.errors import DatabaseUnavailable, InvalidInput
from support_agent.domain.people import SYSTEM, Principal, PrincipalKind, Proof
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Task

Row = sa.Row[*tuple[Any, ...]]

events = table_of(AuditEventRow)
heads = table_of(AuditHeadRow)
outbox = table_of(OutboxRow)
tasks = table_of(TaskRow)

_LOCK_HEAD = sa.update(heads).values(seq=heads.c.seq).returning(heads.c.seq, heads.c.mac)
# As stored, not as our column types would read it: what somebody broke has to be seen, not crash.
_AS_STORED = sa.select(
    *(column for column in events.columns if column.name not in {"at", "data"}),
    sa.type_coerce(events.c.at, sa.Text).label("at"),
    sa.type_coerce(events.c.data, sa.Text).label("data"),
)
_ROWS_AT_ONCE = 500
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SqlAudit:
    """Events wait in memory until the commit, so that the head row is the last thing locked.

    What this transaction appended is therefore not yet in `head`, `rows` and `latest_for`.
    """

    def __init__(self, connection: sa.Connection, keys: KeyRing, *, writable: bool) -> None:
        self._connection = connection
        self._keys = keys
        self._writable = writable
        self._waiting: list[AuditEvent] = []

    def append(self, event: AuditEvent) -> None:
        if not self._writable:
            raise RuntimeError(f"audit event {event.action!r} in a read-only transaction")
        # The row comes back in UTC: the MAC has to cover the same words.
        self._waiting.append(replace(event, at=event.at.astimezone(UTC)))

    def seal(self) -> None:
        """Link what waits to the head; nothing may be locked after this."""
        if not self._waiting:
            return
        locked = self._connection.execute(_LOCK_HEAD).one_or_none()
        if locked is None:
            raise DatabaseUnavailable("the audit head is gone: somebody changed the database")
        head = AuditHead(seq=locked.seq, mac=locked.mac)
        linked = []
        for event in self._waiting:
            row = link(self._keys, head, event)
            head = AuditHead(seq=row.seq, mac=row.mac)
            linked.append(_event_values(row))
        self._connection.execute(sa.insert(events), linked)
        self._connection.execute(sa.update(heads).values(seq=head.seq, mac=head.mac))
        self._waiting.clear()

    def head(self) -> AuditHead:
        row = self._connection.execute(sa.select(heads.c.seq, heads.c.mac)).one()
        return AuditHead(seq=row.seq, mac=row.mac)

    def newest(self) -> AuditRow | None:
        statement = _AS_STORED.order_by(events.c.seq.desc()).limit(1)
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _audit_row(row)

    def rows(self, *, after: int = 0) -> Iterator[AuditRow]:
        found = self._connection.execute(
            _AS_STORED.where(events.c.seq > after).order_by(events.c.seq),
            execution_options={"yield_per": _ROWS_AT_ONCE},
        )
        return (_audit_row(row) for row in found)

    def latest_for(self, subject: str, *, prefix: str = "") -> AuditRow | None:
        statement = (
            _AS_STORED.where(
                events.c.subject == subject, events.c.action.startswith(prefix, autoescape=True)
            )
            .order_by(events.c.seq.desc())
            .limit(1)
        )
        row = self._connection.execute(statement).one_or_none()
        return None if row is None else _audit_row(row)


class SqlOutbox:
    """Written with what caused the event; delivered by somebody else."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, topic: str, *, key: str, body: Mapping[str, str], at: datetime) -> None:
        values = {"topic": topic, "key": key, "body": dict(body), "created_at": at}
        insert_new(self._connection, outbox, values, on=["key"])


class SqlTasks:
    """Oldest first, so that what waits longest is seen first."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, task: Task) -> bool:
        values = {
            "id": task.id,
            "kind": task.kind,
            "subject": task.subject,
            "conversation_id": task.conversation_id,
            "created_at": task.created_at,
            "done_at": task.done_at,
        }
        return insert_new(self._connection, tasks, values, on=["id"]) == 1

    def list(self, *, open_only: bool, limit: int, after: str | None = None) -> tuple[Task, ...]:
        key = sa.tuple_(tasks.c.created_at, tasks.c.id)
        statement = sa.select(tasks).order_by(tasks.c.created_at, tasks.c.id).limit(limit)
        if open_only:
            statement = statement.where(tasks.c.done_at.is_(None))
        if after is not None:
            found = sa.select(tasks.c.created_at, tasks.c.id).where(tasks.c.id == after)
            last = self._connection.execute(found).one_or_none()
            if last is None:
                raise InvalidInput("cursor", "was not handed out by this list; start again")
            statement = statement.where(key > (last.created_at, last.id))
        return tuple(_task(row) for row in self._connection.execute(statement))


def _event_values(row: AuditRow) -> dict[str, object]:
    event, actor = row.event, row.event.actor
    return {
        "seq": row.seq,
        "action": event.action,
        "actor_kind": actor.kind,
        "actor_id": actor.id,
        "actor_person_id": actor.person_id,
        "actor_proof": actor.proof,
        "actor_via": actor.via,
        "subject": event.subject,
        "at": event.at,
        "data": dict(event.data),
        "prev_mac": row.prev_mac,
        "key_id": row.key_id,
        "mac": row.mac,
    }


def _audit_row(row: Row) -> AuditRow:
    """The stored link. One that was made unreadable comes as a link whose MAC cannot hold."""
    try:
        return _readable(row)
    except (TypeError, ValueError):
        event = AuditEvent(action="unreadable", actor=SYSTEM, subject="", at=_EPOCH)
        seq = row.seq if isinstance(row.seq, int) else 0
        return AuditRow(seq=seq, event=event, prev_mac="", key_id="", mac="")


def _readable(row: Row) -> AuditRow:
    actor = Principal(
        kind=PrincipalKind(row.actor_kind),
        id=_text(row.actor_id),
        person_id=None if row.actor_person_id is None else _text(row.actor_person_id),
        proof=Proof(row.actor_proof),
        via=_text(row.actor_via),
    )
    event = AuditEvent(
        action=_text(row.action),
        actor=actor,
        subject=_text(row.subject),
        at=_instant(row.at),
        data={key: _text(value) for key, value in dict(json.loads(row.data)).items()},
    )
    return AuditRow(
        seq=int(row.seq),
        event=event,
        prev_mac=_text(row.prev_mac),
        key_id=_text(row.key_id),
        mac=_text(row.mac),
    )


def _text(value: object) -> str:
    """SQLite keeps any type in any column."""
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):  # PostgreSQL, in the time zone of the session
        return value.astimezone(UTC)
    return datetime.fromisoformat(_text(value)).replace(tzinfo=UTC)


def _task(row: Row) -> Task:
    return Task(
        id=row.id,
        kind=row.kind,
        subject=row.subject,
        conversation_id=row.conversation_id,
        created_at=row.created_at,
        done_at=row.done_at,
    )

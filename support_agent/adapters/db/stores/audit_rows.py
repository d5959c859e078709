"""Audit events between their rows and the domain: whatever somebody wrote there can be read."""

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.trail import AuditEventRow
from support_agent.domain.audit import AuditEvent, AuditRow
from support_agent.domain.people import SYSTEM, Principal, PrincipalKind, Proof

Row = sa.Row[*tuple[Any, ...]]

EVENTS = table_of(AuditEventRow)

# As stored, not as our column types would read it: what somebody broke has to be seen, not crash.
AS_STORED = tuple(
    sa.type_coerce(column, sa.Text).label(column.name) if column.name in {"at", "data"} else column
    for column in EVENTS.columns
)
_TEXT = {str}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def event_values(row: AuditRow) -> dict[str, object]:
    """The columns of a link that is to be stored."""
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
        "root": row.root,
        "prev_mac": row.prev_mac,
        "key_id": row.key_id,
        "mac": row.mac,
    }


@lru_cache(maxsize=64)
def known_row(row: Row) -> AuditRow:
    """`audit_row`, remembered for the same row: what is newest is read again and again."""
    return audit_row(row)


def audit_row(row: Row) -> AuditRow:
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
        id=text_of(row.actor_id),
        person_id=None if row.actor_person_id is None else text_of(row.actor_person_id),
        proof=Proof(row.actor_proof),
        via=text_of(row.actor_via),
    )
    data = dict(json.loads(row.data))
    for value in set(map(type, data.values())) - _TEXT:
        raise TypeError(f"not a text: {value!r}")
    event = AuditEvent(
        action=text_of(row.action),
        actor=actor,
        subject=text_of(row.subject),
        at=_instant(row.at),
        data=data,
    )
    return AuditRow(
        seq=int(row.seq),
        event=event,
        prev_mac=text_of(row.prev_mac),
        key_id=text_of(row.key_id),
        mac=text_of(row.mac),
        root=None if row.root is None else text_of(row.root),
    )


def text_of(value: object) -> str:
    """SQLite keeps any type in any column.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value


def number_of(value: object) -> int:
    """As `text_of`, of a whole number."""
    if not isinstance(value, int):
        raise TypeError(f"not a whole number: {value!r}")
    return value


def _instant(value: object) -> datetime:
    if isinstance(value, datetime):  # PostgreSQL, in the time zone of the session
        return value.astimezone(UTC)
    return datetime.fromisoformat(text_of(value)).replace(tzinfo=UTC)

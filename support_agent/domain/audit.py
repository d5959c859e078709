"""The audit chain: each event signs itself and the one before it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.people import Principal
from support_agent.domain.signing import KeyRing

GENESIS = "genesis"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """What happened: codes, ids, amounts and states; never free text."""

    action: str  # noun.verb
    actor: Principal
    subject: str  # id of what it happened to
    at: datetime
    data: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """An event in the chain. `seq` is gapless from 1; `prev_mac` is unique."""

    seq: int
    event: AuditEvent
    prev_mac: str
    key_id: str
    mac: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """The newest link; kept elsewhere (log, export) it anchors all before it."""

    seq: int
    mac: str


def event_fields(seq: int, event: AuditEvent, prev_mac: str) -> tuple[str, ...]:
    """What the MAC of a row covers."""
    pairs = [item for key in sorted(event.data) for item in (key, event.data[key])]
    actor = event.actor
    return (
        "audit/1",
        str(seq),
        event.action,
        actor.kind,
        actor.id,
        actor.person_id or "",
        actor.proof,
        actor.via,
        event.subject,
        event.at.isoformat(),
        str(len(pairs)),
        *pairs,
        prev_mac,
    )


def link(keys: KeyRing, head: AuditHead, event: AuditEvent) -> AuditRow:
    """The next row of the chain after `head`."""
    seq = head.seq + 1
    key_id, mac = keys.sign(event_fields(seq, event, head.mac))
    return AuditRow(seq=seq, event=event, prev_mac=head.mac, key_id=key_id, mac=mac)


def holds(keys: KeyRing, row: AuditRow) -> bool:
    """Whether the row's own MAC verifies."""
    fields = event_fields(row.seq, row.event, row.prev_mac)
    return keys.verify(fields, key_id=row.key_id, mac=row.mac)

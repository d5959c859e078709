"""The audit chain: each event signs itself, the one before it and what is newest about all else."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.people import Principal
from support_agent.domain.signing import KeyRing

RUN_RESUMED = "run.resumed"
GENESIS = "genesis"
UNPROVED = ""  # the root of an event before which the stored index did not hold

_TOPICS = {
    "approver.changed": "approver",
    "approver.token_set": "approver.token",
    "person.accounts": "person",  # which approvers a person is, and whose customers
    "policy.activated": "policy",
    "policy.proposed": "policy.proposal",
    "account.named": "account",  # of a customer: which of their accounts is the one in use
}
_TOPICS_OF_ALL = ("refund", "switch", "destination", "api_key")  # whatever happened to one


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
    """An event in the chain. `seq` is gapless from 1; `prev_mac` is unique.

    `root` is that of the audit index after the event's transaction; None in events from before
    there was one.
    """

    seq: int
    event: AuditEvent
    prev_mac: str
    key_id: str
    mac: str
    root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """The newest link; kept elsewhere (log, export) it anchors all before it."""

    seq: int
    mac: str


START = AuditHead(seq=0, mac=GENESIS)


def topic_of(action: str) -> str | None:
    """Of what the index keeps the newest event; None for what nobody has to prove later."""
    noun, dot, _ = action.partition(".")
    return noun if dot and noun in _TOPICS_OF_ALL else _TOPICS.get(action)


def event_fields(
    seq: int, event: AuditEvent, prev_mac: str, root: str | None = None
) -> tuple[str, ...]:
    """What the MAC of a row covers."""
    pairs = [item for key in sorted(event.data) for item in (key, event.data[key])]
    actor = event.actor
    return (
        *(("audit/1",) if root is None else ("audit/2", root)),
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


def link(keys: KeyRing, head: AuditHead, event: AuditEvent, root: str | None = None) -> AuditRow:
    """The next row of the chain after `head`."""
    seq = head.seq + 1
    key_id, mac = keys.sign(event_fields(seq, event, head.mac, root))
    return AuditRow(seq=seq, event=event, prev_mac=head.mac, key_id=key_id, mac=mac, root=root)


def holds(keys: KeyRing, row: AuditRow) -> bool:
    """Whether the row's own MAC verifies."""
    fields = event_fields(row.seq, row.event, row.prev_mac, row.root)
    return keys.verify(fields, key_id=row.key_id, mac=row.mac)

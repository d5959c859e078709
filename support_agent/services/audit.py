"""Proving the audit chain: every link verifies, none is missing, and history equals the present."""

from dataclasses import dataclass

from support_agent.domain.approvals import is_genuine
from support_agent.domain.audit import GENESIS, AuditHead, holds
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import RequestFilter, Transaction
from support_agent.services.refunds import state_facts

PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What `audit verify` found; `problems` is empty when the chain holds."""

    head: AuditHead
    events: int
    requests: int
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.problems


def verify(tx: Transaction, keys: KeyRing, *, anchor: AuditHead | None = None) -> AuditReport:
    """Walk the chain from its start, then compare the newest facts with the rows they speak of.

    `anchor` is a head seen earlier (from the log, an export): it must still be in the chain, which
    finds a tail that was cut off.
    """
    problems, newest, seq, seen_anchor = _walk(tx, keys, anchor)
    head = tx.audit.head()
    if seq != head.seq:
        problems.append(f"the chain has {seq} events, its head says {head.seq}")
    if anchor is not None and not seen_anchor:
        problems.append(f"the anchored head {anchor.seq}:{anchor.mac[:12]} is not in the chain")
    requests = _compare(tx, keys, newest, problems)
    return AuditReport(head=head, events=seq, requests=requests, problems=tuple(problems))


def _walk(
    tx: Transaction, keys: KeyRing, anchor: AuditHead | None
) -> tuple[list[str], dict[str, dict[str, str]], int, bool]:
    problems: list[str] = []
    newest: dict[str, dict[str, str]] = {}
    expected_prev, expected_seq, seen_anchor = GENESIS, 1, anchor is None or anchor.seq == 0
    for row in tx.audit.rows():
        if row.seq != expected_seq:
            problems.append(f"event {expected_seq} is missing before {row.seq}")
        if row.prev_mac != expected_prev:
            problems.append(f"event {row.seq} does not follow the one before it")
        if not holds(keys, row):
            problems.append(f"event {row.seq} was changed")
        if anchor is not None and (row.seq, row.mac) == (anchor.seq, anchor.mac):
            seen_anchor = True
        if row.event.action.startswith("refund.") and "status" in row.event.data:
            newest[row.event.subject] = dict(row.event.data)
        expected_prev, expected_seq = row.mac, row.seq + 1
    head = tx.audit.head()
    if head.mac != expected_prev:
        problems.append("the head is not the last event")
    return problems, newest, expected_seq - 1, seen_anchor


def _compare(
    tx: Transaction, keys: KeyRing, newest: dict[str, dict[str, str]], problems: list[str]
) -> int:
    """Each request row against the last event about it, and each decision against its signature."""
    count, cursor = 0, None
    while True:
        page = tx.requests.list(RequestFilter(), limit=PAGE, cursor=cursor)
        for request in page.data:
            count += 1
            facts = newest.pop(request.id, None)
            if facts is None:
                problems.append(f"request {request.id!r} has no history")
            elif any(facts.get(key) != value for key, value in state_facts(request).items()):
                problems.append(f"request {request.id!r} is not what its history says")
            current = [d for d in tx.decisions.of(request.id) if d.round == request.round]
            if not all(is_genuine(d, request, keys) for d in current):
                problems.append(f"request {request.id!r} has a decision that is not genuine")
        cursor = page.next_cursor
        if cursor is None:
            break
    problems += [f"request {missing!r} of the history is gone" for missing in newest]
    return count

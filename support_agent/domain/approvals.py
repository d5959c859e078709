"""Decisions on refund requests: who may make them, and how they are bound to what they decided."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from support_agent.domain.errors import ApproverDisabled, InsufficientAuthority, SelfApproval
from support_agent.domain.money import format_money
from support_agent.domain.people import Approver, Proof
from support_agent.domain.refunds import RefundRequest, fingerprint
from support_agent.domain.signing import KeyRing

AUTO = "auto"  # the person_id of a decision that the policy made alone


class Choice(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision, insert-only; `mac` signs it, so that SQL alone cannot make one."""

    id: str
    request_id: str
    round: int
    choice: Choice
    level: int
    person_id: str
    name: str
    proof: Proof
    fingerprint: str
    amount_minor: int
    currency: str
    limit_minor: int | None
    note: str | None
    at: datetime
    key_id: str = ""
    mac: str = ""

    def fields(self) -> tuple[str, ...]:
        """What is signed. The note is free text that privacy may erase, so it is left out."""
        return (
            "decision/1",
            self.id,
            self.request_id,
            str(self.round),
            self.choice,
            str(self.level),
            self.person_id,
            self.name,
            self.proof,
            self.fingerprint,
            str(self.amount_minor),
            self.currency,
            "" if self.limit_minor is None else str(self.limit_minor),
            self.at.isoformat(),
        )


def is_genuine(decision: Decision, request: RefundRequest, keys: KeyRing) -> bool:
    """Signed by us, and for exactly this request as it stands now."""
    return (
        keys.verify(decision.fields(), key_id=decision.key_id, mac=decision.mac)
        and decision.request_id == request.id
        and decision.round == request.round
        and decision.fingerprint == fingerprint(request)
        and decision.amount_minor == request.amount_minor
        and decision.currency == request.currency
    )


def genuine_approvals(
    decisions: Iterable[Decision], request: RefundRequest, keys: KeyRing
) -> frozenset[str]:
    """The different persons (or AUTO) whose approval of this round verifies."""
    return frozenset(
        d.person_id
        for d in decisions
        if d.choice in {Choice.APPROVE, Choice.AUTO} and is_genuine(d, request, keys)
    )


def check_may_decide(approver: Approver, request: RefundRequest) -> None:
    """Raise unless this approver may decide this request, whatever the amount.

    Raises:
        ApproverDisabled: switched off.
        SelfApproval: requester, customer or operator; compared by person and linked customers.
    """
    if approver.disabled:
        raise ApproverDisabled(approver.name)
    own = (
        request.customer_id in approver.customer_ids
        or request.requester.person_id == approver.person_id
        or request.requester.id in approver.customer_ids
        or request.operator in {approver.name, approver.person_id}
    )
    if own:
        raise SelfApproval(approver.name)


def check_authority(approver: Approver, request: RefundRequest, *, cumulative_minor: int) -> int:
    """The approver's limit in minor units; raises unless level and limit reach.

    The limit is held against the order's cumulative amount (paid + reserved, this one included), so
    that splitting a large refund into small ones gains nothing.

    Raises:
        InsufficientAuthority: names the level and the limit that would suffice.
    """
    if approver.level < request.required_level:
        raise InsufficientAuthority(
            f"approver {approver.name!r} has level {approver.level}; "
            f"this request needs level {request.required_level}",
            limit=approver.limits.get(request.currency),
        )
    limit = approver.limits.get(request.currency)
    if limit is None:
        raise InsufficientAuthority(
            f"approver {approver.name!r} has no limit in {request.currency}, hence no authority; "
            f"one with a limit in {request.currency} has to decide",
            limit=None,
        )
    if cumulative_minor > limit:
        raise InsufficientAuthority(
            f"approver {approver.name!r} may let pass {format_money(limit, request.currency)}; "
            f"the refunds of order {request.order_id!r} come to "
            f"{format_money(cumulative_minor, request.currency)}",
            limit=limit,
        )
    return limit

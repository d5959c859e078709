"""Decisions on refund requests: who may make them, and how they are bound to what they decided."""

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from support_agent.domain.assessment import required_level
from support_agent.domain.errors import ApproverDisabled, InsufficientAuthority, SelfApproval
from support_agent.domain.money import format_money
from support_agent.domain.people import Approver, PrincipalKind, Proof
from support_agent.domain.policy import Policy
from support_agent.domain.refunds import RefundRequest, fingerprint
from support_agent.domain.signing import KeyRing

AUTO = "auto"  # the person_id of a decision that the policy made alone


class Choice(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"
    AUTO = "auto"
    REDUCE = "reduce"  # a lower amount, which somebody has to approve then
    PAID = "paid"  # a manual review ended with a proof of payment
    NOT_PAID = "not_paid"  # a manual review ended with a proof that nothing was paid


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
    evidence: str | None = None  # of PAID and NOT_PAID: a transfer's or refund's id, used once
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
            *(() if self.evidence is None else ("evidence", self.evidence)),
        )


def signed(decision: Decision, keys: KeyRing) -> Decision:
    """The decision with its signature."""
    key_id, mac = keys.sign(decision.fields())
    return replace(decision, key_id=key_id, mac=mac)


def is_signed(decision: Decision, keys: KeyRing) -> bool:
    """Whether one of our keys signed exactly this row."""
    return keys.verify(decision.fields(), key_id=decision.key_id, mac=decision.mac)


def is_genuine(decision: Decision, request: RefundRequest, keys: KeyRing) -> bool:
    """Signed by us, and for exactly this request as it stands now."""
    return (
        is_signed(decision, keys)
        and decision.request_id == request.id
        and decision.round == request.round
        and decision.fingerprint == fingerprint(request)
        and decision.amount_minor == request.amount_minor
        and decision.currency == request.currency
    )


def genuine_approvals(
    decisions: Iterable[Decision], request: RefundRequest, keys: KeyRing
) -> Mapping[str, Decision]:
    """The approvals of this round that verify, one by each person (or AUTO)."""
    return {
        decision.person_id: decision
        for decision in decisions
        if decision.choice in {Choice.APPROVE, Choice.AUTO} and is_genuine(decision, request, keys)
    }


def check_may_decide(
    approver: Approver,
    request: RefundRequest,
    *,
    known: Iterable[Approver] = (),
    operators: Collection[str] = (),
) -> None:
    """Raise unless this approver may decide this request, whatever the amount.

    Args:
        approver: who wants to decide.
        request: what about.
        known: every approver there is; a person may have several accounts, and is all of them.
        operators: who wrote for the customer where it was filed, in that turn or another.

    Raises:
        ApproverDisabled: switched off.
        SelfApproval: requester, customer, operator, or who asked to pay it again; compared by
            person and linked customers.
    """
    if approver.disabled:
        raise ApproverDisabled(approver.name)
    accounts = [approver, *(other for other in known if other.person_id == approver.person_id)]
    customers = {customer_id for account in accounts for customer_id in account.customer_ids}
    staff = {approver.person_id, *(account.name for account in accounts)}
    requester = request.requester
    of_the_shop = requester.kind is not PrincipalKind.CUSTOMER
    wrote = {*operators, *([request.operator] if request.operator else ())}
    own = (
        request.customer_id in customers
        or requester.id in (staff if of_the_shop else customers)
        or requester.person_id == approver.person_id
        or not {_spelled(name) for name in staff}.isdisjoint(map(_spelled, wrote))
        or request.retried_by in staff
    )
    if own:
        raise SelfApproval(approver.name)


def _spelled(name: str) -> str:
    """An operator is named by another system, maybe as `Lan`; it only takes authority away."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def check_reach(
    approver: Approver, request: RefundRequest, policy: Policy, *, cumulative_minor: int
) -> int:
    """The approver's limit in minor units; raises unless it reaches under today's policy.

    Raises:
        InsufficientAuthority: see `check_authority`.
        RefundRefused: ABOVE_POLICY_LIMIT; nobody may let it pass any more.
    """
    level = required_level(policy, request.currency, cumulative_minor)
    judged = replace(request, required_level=max(level, request.required_level))
    return check_authority(approver, judged, cumulative_minor=cumulative_minor)


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

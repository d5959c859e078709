"""Refunds: quotes, requests, payout attempts, and the table of moves a request may make."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

from support_agent.domain.consent import Consent
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import Principal, PrincipalKind
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.signing import canonical


class RequestStatus(StrEnum):
    """Where a refund request stands. Stored; never renamed."""

    PENDING_APPROVAL = "PENDING_APPROVAL"
    APPROVED = "APPROVED"
    PAYING = "PAYING"
    PROVIDER_PENDING = "PROVIDER_PENDING"
    IN_DOUBT = "IN_DOUBT"
    MANUAL_REVIEW = "MANUAL_REVIEW"
    REFUNDED = "REFUNDED"
    FAILED = "FAILED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


# Money is still held for the customer or may be on its way.
OPEN = frozenset(
    {
        RequestStatus.PENDING_APPROVAL,
        RequestStatus.APPROVED,
        RequestStatus.PAYING,
        RequestStatus.PROVIDER_PENDING,
        RequestStatus.IN_DOUBT,
        RequestStatus.MANUAL_REVIEW,
    }
)


class LedgerKind(StrEnum):
    """What a ledger entry does to the counters of its account."""

    RESERVE = "RESERVE"  # reserved += amount
    RELEASE = "RELEASE"  # reserved -= amount
    SETTLE = "SETTLE"  # reserved -= amount, refunded += amount
    REVERSE = "REVERSE"  # refunded -= amount
    EXTERNAL = "EXTERNAL"  # refunded += amount, made outside
    CHARGEBACK = "CHARGEBACK"  # charged_back += amount
    CHARGEBACK_REVERSED = "CHARGEBACK_REVERSED"  # charged_back -= amount
    MANUAL = "MANUAL"  # as SETTLE, paid by hand with a proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One allowed transition: who may make it and what it does to the reserve."""

    actors: frozenset[PrincipalKind]
    effect: LedgerKind | None = None


_CUSTOMER_OR_STAFF = frozenset(
    {PrincipalKind.CUSTOMER, PrincipalKind.OPERATOR, PrincipalKind.STAFF}
)
_APPROVER = frozenset({PrincipalKind.APPROVER})
_SHOP = frozenset({PrincipalKind.OPERATOR, PrincipalKind.STAFF, PrincipalKind.APPROVER})
_SYSTEM = frozenset({PrincipalKind.SYSTEM})
_S = RequestStatus

# Everything that is not here is refused. `None` is "not filed yet".
MOVES: Mapping[tuple[RequestStatus | None, RequestStatus], Move] = MappingProxyType(
    {
        (None, _S.PENDING_APPROVAL): Move(
            actors=_CUSTOMER_OR_STAFF | _APPROVER, effect=LedgerKind.RESERVE
        ),
        (None, _S.APPROVED): Move(
            actors=frozenset({PrincipalKind.CUSTOMER}), effect=LedgerKind.RESERVE
        ),
        # Escalated by the system, reduced or asked about by an approver: the version goes up.
        (_S.PENDING_APPROVAL, _S.PENDING_APPROVAL): Move(actors=_SYSTEM | _APPROVER),
        (_S.PENDING_APPROVAL, _S.APPROVED): Move(actors=_APPROVER),
        (_S.PENDING_APPROVAL, _S.REJECTED): Move(actors=_APPROVER, effect=LedgerKind.RELEASE),
        (_S.PENDING_APPROVAL, _S.CANCELLED): Move(
            actors=_CUSTOMER_OR_STAFF, effect=LedgerKind.RELEASE
        ),
        (_S.PENDING_APPROVAL, _S.EXPIRED): Move(actors=_SYSTEM, effect=LedgerKind.RELEASE),
        (_S.APPROVED, _S.CANCELLED): Move(actors=_CUSTOMER_OR_STAFF, effect=LedgerKind.RELEASE),
        (_S.APPROVED, _S.EXPIRED): Move(actors=_SYSTEM, effect=LedgerKind.RELEASE),
        (_S.APPROVED, _S.PENDING_APPROVAL): Move(actors=_SYSTEM),
        (_S.APPROVED, _S.PAYING): Move(actors=_SYSTEM),
        (_S.APPROVED, _S.MANUAL_REVIEW): Move(actors=_SYSTEM),
        (_S.PAYING, _S.REFUNDED): Move(actors=_SYSTEM, effect=LedgerKind.SETTLE),
        (_S.PAYING, _S.FAILED): Move(actors=_SYSTEM, effect=LedgerKind.RELEASE),
        (_S.PAYING, _S.PROVIDER_PENDING): Move(actors=_SYSTEM),
        (_S.PAYING, _S.IN_DOUBT): Move(actors=_SYSTEM),
        (_S.PAYING, _S.MANUAL_REVIEW): Move(actors=_SYSTEM),
        (_S.IN_DOUBT, _S.PAYING): Move(actors=_SYSTEM),
        (_S.IN_DOUBT, _S.REFUNDED): Move(actors=_SYSTEM, effect=LedgerKind.SETTLE),
        (_S.IN_DOUBT, _S.FAILED): Move(actors=_SYSTEM, effect=LedgerKind.RELEASE),
        (_S.IN_DOUBT, _S.PROVIDER_PENDING): Move(actors=_SYSTEM),
        (_S.IN_DOUBT, _S.MANUAL_REVIEW): Move(actors=_SYSTEM),
        (_S.PROVIDER_PENDING, _S.REFUNDED): Move(actors=_SYSTEM, effect=LedgerKind.SETTLE),
        (_S.PROVIDER_PENDING, _S.FAILED): Move(actors=_SYSTEM, effect=LedgerKind.RELEASE),
        (_S.PROVIDER_PENDING, _S.MANUAL_REVIEW): Move(actors=_SYSTEM),
        (_S.FAILED, _S.PENDING_APPROVAL): Move(actors=_SHOP, effect=LedgerKind.RESERVE),
        (_S.REFUNDED, _S.FAILED): Move(actors=_SYSTEM, effect=LedgerKind.REVERSE),
        (_S.MANUAL_REVIEW, _S.REFUNDED): Move(actors=_APPROVER, effect=LedgerKind.MANUAL),
        (_S.MANUAL_REVIEW, _S.FAILED): Move(actors=_APPROVER, effect=LedgerKind.RELEASE),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundLine:
    """The part of one order line that is refunded; `units` is 0 when only money is."""

    line_id: str
    units: int
    amount_minor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """An exact offer to refund. Code shows it; a yes after `shown_seq` makes it a request, once."""

    id: str
    group_id: str
    conversation_id: str
    customer_id: str
    run_id: str
    order_id: str
    payment_id: str
    lines: tuple[RefundLine, ...]
    amount_minor: int
    currency: str
    method: PaymentMethod
    destination: str
    verdict: Verdict
    reasons: tuple[Reason, ...]  # why a person must look; empty when none must
    required_level: int
    policy_id: str
    policy_version: int
    created_at: datetime
    expires_at: datetime
    shown_seq: int | None = None
    superseded: bool = False
    deduction_minor: int = 0  # taken off for a promotion that is lost; the amount is without it

    @property
    def needs_person(self) -> bool:
        return self.required_level > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundRequest:
    """A filed refund. Only the fields of CHANGEABLE ever change, and only by transition."""

    id: str
    quote_id: str
    group_id: str
    conversation_id: str | None
    run_id: str | None
    customer_id: str
    order_id: str
    payment_id: str
    gateway: str
    account: str
    gateway_payment_id: str
    method: PaymentMethod
    lines: tuple[RefundLine, ...]
    amount_minor: int
    currency: str
    destination: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    required_level: int  # 0: automatic
    approvals_needed: int
    policy_id: str
    policy_version: int
    fingerprint: str
    consent: Consent
    requester: Principal
    operator: str | None
    status: RequestStatus
    version: int
    round: int
    created_at: datetime
    expires_at: datetime
    due_at: datetime  # a person should have decided by then; afterwards it is escalated
    filed_minor: int  # the amount as it was filed; an approver may have reduced it since
    approved_until: datetime | None = None
    escalations: int = 0
    asked_at: datetime | None = None  # an approver asked the customer something and waits
    attempt_no: int = 1  # of the attempt that pays it; only staff's retry after FAILED raises it
    attempt_at: datetime | None = None  # database clock: when that attempt was first committed
    retried_by: str | None = None  # the person who asked to pay it again: may not decide it


# What a transition may change of a request. Everything else is as it was filed, for good.
CHANGEABLE = frozenset(
    {
        "status",
        "version",
        "round",
        "approved_until",
        "amount_minor",
        "lines",
        "reasons",
        "required_level",
        "approvals_needed",
        "fingerprint",
        "expires_at",
        "due_at",
        "escalations",
        "asked_at",
        "attempt_no",
        "attempt_at",
        "retried_by",
    }
)


def fingerprint(request: RefundRequest) -> str:
    """What a decision is bound to: order, payment, lines, amount, currency, destination, policy.

    The method is part of the destination: cash paid by hand must not become a transfer.
    The level and the number of approvals are in it too, so that lowering them in the database voids
    every decision. Balances are left out on purpose: they move while a request waits.
    """
    lines = tuple(f"{line.line_id}:{line.units}:{line.amount_minor}" for line in request.lines)
    fields = (
        request.id,
        request.order_id,
        request.customer_id,
        request.payment_id,
        request.gateway,
        request.account,
        request.gateway_payment_id,
        str(request.amount_minor),
        request.currency,
        request.destination,
        request.method,
        request.policy_id,
        str(request.policy_version),
        str(request.required_level),
        str(request.approvals_needed),
        *lines,
    )
    return hashlib.sha256(canonical(fields)).hexdigest()


def filing_digest(request: RefundRequest) -> str:
    """The rest of what was filed: who asked, for whom, why a person looks, until when."""
    requester = request.requester
    fields = (
        request.quote_id,
        request.group_id,
        request.conversation_id or "",
        request.run_id or "",
        request.verdict,
        request.consent,
        requester.kind,
        requester.id,
        requester.person_id or "",
        requester.proof,
        requester.via,
        request.operator or "",
        request.created_at.astimezone(UTC).isoformat(),
        request.expires_at.astimezone(UTC).isoformat(),
        *request.reasons,
    )
    return hashlib.sha256(canonical(fields)).hexdigest()


def quote_digest(quote: Quote) -> str:
    """What the customer was shown: the exact terms, and in which message."""
    lines = tuple(f"{line.line_id}:{line.units}:{line.amount_minor}" for line in quote.lines)
    fields = (
        quote.id,
        quote.conversation_id,
        quote.customer_id,
        quote.order_id,
        quote.payment_id,
        str(quote.amount_minor),
        quote.currency,
        quote.destination,
        str(quote.shown_seq),
        quote.expires_at.isoformat(),
        *lines,
    )
    return hashlib.sha256(canonical(fields)).hexdigest()


class AttemptStatus(StrEnum):
    CREATED = "CREATED"  # committed before the gateway is called
    SUCCEEDED = "SUCCEEDED"
    PENDING = "PENDING"
    UNKNOWN = "UNKNOWN"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try to pay, with the exact parameters sent. At most one a request is not FAILED."""

    id: str
    request_id: str
    number: int
    round: int
    key: str  # `refund:{request_id}:{number}`: the gateway's idempotency key
    gateway: str
    account: str
    gateway_payment_id: str
    amount_minor: int
    currency: str
    status: AttemptStatus
    created_at: datetime
    sent_at: datetime  # database clock: its age decides whether the key may be sent again
    provider_refund_id: str | None = None
    error_code: str | None = None
    checked_at: datetime | None = None  # database clock: when the gateway was last asked about it


def attempt_key(request_id: str, number: int) -> str:
    """The idempotency key: the request and the attempt, nothing that the model can influence."""
    return f"refund:{request_id}:{number}"

"""Refund requests as the API gives them: to approvers, to staff, and to their own customer."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from support_agent.api.decision_bodies import LONGEST_NOTE
from support_agent.api.schemas import Instant, Money, Shape, money
from support_agent.domain.approvals import Choice, Decision
from support_agent.domain.consent import Consent
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Language, Reason
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundLine,
    RefundRequest,
    RequestStatus,
)
from support_agent.domain.text import visible
from support_agent.services.customer_refunds import OwnRefund

LONGEST_DETAIL = 500


class LineShape(Shape):
    """The part of an order's line that is refunded; `units` is 0 when only money is."""

    line_id: str
    units: int
    amount: Money


class RefundShape(Shape):
    """A request as staff sees it in a list."""

    id: str
    order_id: str
    customer_id: str
    amount: Money
    status: RequestStatus
    version: int = Field(description="Goes up with every move; in double quotes it is the ETag.")
    required_level: int
    approvals_needed: int
    created_at: Instant
    expires_at: Instant


class ApprovalShape(RefundShape):
    """A request of the queue of approvals."""

    due_at: Instant = Field(description="Somebody should have decided by then.")
    overdue: bool
    escalations: int
    asked_at: Instant | None = Field(description="When the customer was asked something.")
    held: bool = Field(description="The customer was asked, and has not written since.")


class RequestFacts(Shape):
    """What a request was filed with."""

    quote_id: str
    group_id: str
    conversation_id: str | None
    run_id: str | None
    payment_id: str
    gateway: str
    method: PaymentMethod
    lines: list[LineShape]
    verdict: Verdict
    reasons: list[Reason]
    policy_id: str
    policy_version: int
    consent: Consent
    requester: str = Field(examples=["customer:C001"])
    operator: str | None = Field(description="Who at the shop typed for the customer.")
    round: int
    filed: Money = Field(description="The amount before an approver lowered it.")
    attempt_no: int
    retried_by: str | None
    approved_until: Instant | None


class DecisionShape(Shape):
    """Who decided what, when, and how it was proved."""

    id: str
    round: int
    choice: Choice
    by: str
    level: int
    proof: str
    evidence: str | None
    at: Instant


class NotedDecision(DecisionShape):
    note: str | None = Field(description="The approver's words, with what hides made visible.")


class AttemptShape(Shape):
    """One try to pay."""

    id: str
    number: int
    status: AttemptStatus
    amount: Money
    provider_refund_id: str | None
    error_code: str | None
    created_at: Instant


class RefundDetails(RefundShape):
    """A request with everything that was done about it."""

    filed_with: RequestFacts
    decisions: list[NotedDecision]
    attempts: list[AttemptShape]


class OwnRefundShape(Shape):
    """A request as its own customer sees it. `sentence` is the one to show: code made it."""

    id: str
    order_id: str
    conversation_id: str | None
    amount: Money
    lines: list[LineShape]
    status: RequestStatus
    sentence: str = Field(
        description="Amount, state and where the money goes; says `recorded` where the shop pays."
    )
    created_at: Instant
    expires_at: Instant


def refund_fields(request: RefundRequest) -> dict[str, object]:
    """What every staff shape of a request begins with."""
    return {
        "id": request.id,
        "order_id": request.order_id,
        "customer_id": request.customer_id,
        "amount": money(request.amount_minor, request.currency),
        "status": request.status,
        "version": request.version,
        "required_level": request.required_level,
        "approvals_needed": request.approvals_needed,
        "created_at": request.created_at,
        "expires_at": request.expires_at,
    }


def refund_shape(request: RefundRequest) -> RefundShape:
    """A request as staff sees it."""
    return RefundShape.model_validate(refund_fields(request))


def approval_shape(request: RefundRequest, *, now: datetime, is_held: bool) -> ApprovalShape:
    """A request as the queue shows it."""
    return ApprovalShape.model_validate(approval_fields(request, now=now, is_held=is_held))


def approval_fields(request: RefundRequest, *, now: datetime, is_held: bool) -> dict[str, object]:
    """A request, and how it stands in the queue."""
    waits = request.status is RequestStatus.PENDING_APPROVAL
    return refund_fields(request) | {
        "due_at": request.due_at,
        "overdue": waits and request.due_at < now,
        "escalations": request.escalations,
        "asked_at": request.asked_at,
        "held": is_held,
    }


def request_facts(request: RefundRequest) -> RequestFacts:
    """What the request was filed with."""
    requester = request.requester
    same = set(RequestFacts.model_fields) - {"lines", "requester", "filed"}
    return RequestFacts.model_validate(
        {name: getattr(request, name) for name in same}
        | {
            "lines": _lines(request.lines, request.currency),
            "requester": f"{requester.kind}:{requester.id}",
            "filed": money(request.filed_minor, request.currency),
        }
    )


def decision_shape(decision: Decision) -> DecisionShape:
    """The decision without its note, which is foreign text."""
    return DecisionShape.model_validate(_decision_fields(decision))


def refund_details(
    request: RefundRequest, decisions: Sequence[Decision], attempts: Sequence[Attempt]
) -> RefundDetails:
    """The request, its decisions and the tries to pay it."""
    noted = [_decision_fields(one) | {"note": _note(one.note)} for one in decisions]
    return RefundDetails.model_validate(
        refund_fields(request)
        | {
            "filed_with": request_facts(request),
            "decisions": noted,
            "attempts": [_attempt_fields(attempt) for attempt in attempts],
        }
    )


def own_refund(own: OwnRefund, language: Language) -> OwnRefundShape:
    """Without levels, approvers, operators, gateways and fingerprints: those are the shop's."""
    request = own.request
    return OwnRefundShape.model_validate(
        {
            "id": request.id,
            "order_id": request.order_id,
            "conversation_id": request.conversation_id,
            "amount": money(request.amount_minor, request.currency),
            "lines": _lines(request.lines, request.currency),
            "status": request.status,
            "sentence": own.sentence(language),
            "created_at": request.created_at,
            "expires_at": request.expires_at,
        }
    )


def _decision_fields(decision: Decision) -> dict[str, object]:
    return {
        "id": decision.id,
        "round": decision.round,
        "choice": decision.choice,
        "by": decision.name,
        "level": decision.level,
        "proof": decision.proof,
        "evidence": decision.evidence,
        "at": decision.at,
    }


def _attempt_fields(attempt: Attempt) -> dict[str, object]:
    return {
        "id": attempt.id,
        "number": attempt.number,
        "status": attempt.status,
        "amount": money(attempt.amount_minor, attempt.currency),
        "provider_refund_id": attempt.provider_refund_id,
        "error_code": attempt.error_code,
        "created_at": attempt.created_at,
    }


def _lines(lines: Sequence[RefundLine], currency: str) -> list[dict[str, object]]:
    return [
        {
            "line_id": line.line_id,
            "units": line.units,
            "amount": money(line.amount_minor, currency),
        }
        for line in lines
    ]


def _note(note: str | None) -> str | None:
    return visible(note, LONGEST_NOTE * 2, keep_newlines=True) if note else None

"""Domain objects as the command line shows them: as JSON objects, and in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from support_agent.cli.output import rfc3339
from support_agent.domain.approvals import Decision
from support_agent.domain.audit import AuditHead
from support_agent.domain.money import format_money
from support_agent.domain.people import Approver
from support_agent.domain.refunds import Attempt, Quote, RefundRequest
from support_agent.domain.runs import Usage

Object = dict[str, object]


def request_object(request: RefundRequest) -> Object:
    """A refund request in a list."""
    return {
        "id": request.id,
        "order_id": request.order_id,
        "customer_id": request.customer_id,
        "amount_minor": request.amount_minor,
        "currency": request.currency,
        "status": request.status,
        "version": request.version,
        "required_level": request.required_level,
        "approvals_needed": request.approvals_needed,
        "created_at": rfc3339(request.created_at),
        "expires_at": rfc3339(request.expires_at),
    }


def request_details(request: RefundRequest) -> Object:
    """Everything the request row holds that a person may need."""
    return request_object(request) | {
        "quote_id": request.quote_id,
        "group_id": request.group_id,
        "conversation_id": request.conversation_id,
        "run_id": request.run_id,
        "payment_id": request.payment_id,
        "gateway": request.gateway,
        "method": request.method,
        "lines": [
            {"line_id": line.line_id, "units": line.units, "amount_minor": line.amount_minor}
            for line in request.lines
        ],
        "verdict": request.verdict,
        "reasons": list(request.reasons),
        "policy_id": request.policy_id,
        "policy_version": request.policy_version,
        "consent": request.consent,
        "requester": f"{request.requester.kind}:{request.requester.id}",
        "operator": request.operator,
        "round": request.round,
        "filed_minor": request.filed_minor,
        "due_at": rfc3339(request.due_at),
        "escalations": request.escalations,
        "asked_at": rfc3339(request.asked_at) if request.asked_at else None,
        "attempt_no": request.attempt_no,
        "retried_by": request.retried_by,
        "approved_until": rfc3339(request.approved_until) if request.approved_until else None,
    }


def decision_object(decision: Decision) -> Object:
    """Who decided what, when, and how it was proved."""
    return {
        "id": decision.id,
        "round": decision.round,
        "choice": decision.choice,
        "by": decision.name,
        "level": decision.level,
        "proof": decision.proof,
        "evidence": decision.evidence,
        "note": decision.note,
        "at": rfc3339(decision.at),
    }


def attempt_object(attempt: Attempt) -> Object:
    """One try to pay."""
    return {
        "id": attempt.id,
        "number": attempt.number,
        "status": attempt.status,
        "amount_minor": attempt.amount_minor,
        "currency": attempt.currency,
        "provider_refund_id": attempt.provider_refund_id,
        "error_code": attempt.error_code,
        "at": rfc3339(attempt.created_at),
    }


def quote_object(quote: Quote) -> Object:
    """An offer that waits for a yes; those of one group are one offer."""
    return {
        "id": quote.id,
        "group_id": quote.group_id,
        "order_id": quote.order_id,
        "amount_minor": quote.amount_minor,
        "currency": quote.currency,
        "expires_at": rfc3339(quote.expires_at),
        "needs_person": quote.needs_person,
    }


def usage_object(usage: Usage) -> Object:
    """What the model calls took."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }


def approver_object(approver: Approver) -> Object:
    """Without the token's hash: that there is one is enough."""
    return {
        "id": approver.name,
        "person_id": approver.person_id,
        "level": approver.level,
        "limits": dict(approver.limits),
        "customer_ids": sorted(approver.customer_ids),
        "disabled": approver.disabled,
        "has_token": approver.token_hash is not None,
    }


def head_text(head: AuditHead) -> str:
    """A head of the history as `audit verify --head` takes it."""
    return f"{head.seq}:{head.mac}"


def money(request: RefundRequest) -> str:
    """The amount as people read it."""
    return format_money(request.amount_minor, request.currency)


def amounts(limits: Sequence[tuple[str, int]]) -> str:
    """Limits by currency as people read them."""
    return ", ".join(format_money(minor, currency) for currency, minor in limits) or "none"


def local(moment: datetime, zone: tzinfo) -> str:
    """The shop's wall clock."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")


def age(since: datetime, now: datetime) -> str:
    """How long ago in one unit: `45m`, `3h`, `2d`."""
    gone = max(now - since, timedelta(0))
    if gone < timedelta(hours=1):
        return f"{gone // timedelta(minutes=1)}m"
    if gone < timedelta(days=2):
        return f"{gone // timedelta(hours=1)}h"
    return f"{gone.days}d"

"""What the audit says of a request and of a decision, and whether a row is still that."""

from collections.abc import Mapping
from datetime import UTC

from support_agent.domain.approvals import Decision
from support_agent.domain.refunds import RefundRequest, filing_digest, fingerprint


def agrees(request: RefundRequest, facts: Mapping[str, str]) -> bool:
    """Whether the row is what an audit event says of it, down to its fingerprint."""
    before = _facts_before(request)
    told = all(facts.get(key, before.get(key)) == now for key, now in state_facts(request).items())
    return told and request.fingerprint == fingerprint(request)


def state_facts(request: RefundRequest) -> dict[str, str]:
    """What the audit says of a request; `audit verify` compares the newest with the row."""
    until, tried, asked = request.approved_until, request.attempt_at, request.asked_at
    return {
        "status": request.status,
        "version": str(request.version),
        "round": str(request.round),
        "order": request.order_id,
        "customer": request.customer_id,
        "amount_minor": str(request.amount_minor),
        "currency": request.currency,
        "level": str(request.required_level),
        "fingerprint": request.fingerprint,
        "filing": filing_digest(request),
        "approved_until": until.astimezone(UTC).isoformat() if until else "",
        "attempt_no": str(request.attempt_no),
        "attempt_at": tried.astimezone(UTC).isoformat() if tried else "",
        "retried_by": request.retried_by or "",
        "filed_minor": str(request.filed_minor),
        "due_at": request.due_at.astimezone(UTC).isoformat(),
        "escalations": str(request.escalations),
        "asked_at": asked.astimezone(UTC).isoformat() if asked else "",
    }


def _facts_before(request: RefundRequest) -> dict[str, str]:
    """What an event that was written before there were such facts says by saying nothing."""
    return {
        "attempt_no": "1",
        "attempt_at": "",
        "retried_by": "",
        "filed_minor": str(request.amount_minor),
        "due_at": request.due_at.astimezone(UTC).isoformat(),  # nothing was ever due
        "escalations": "0",
        "asked_at": "",
    }


def move_facts(
    before: RefundRequest | None, moved: RefundRequest, data: Mapping[str, str]
) -> dict[str, str]:
    """What the outbox says of a move, as it was then: ids and codes, for who reads it later."""
    told = {
        "request_id": moved.id,
        "order_id": moved.order_id,
        "status": moved.status,
        "version": str(moved.version),
        "amount_minor": str(moved.amount_minor),
        "currency": moved.currency,
        "required_level": str(moved.required_level),
        "escalations": str(moved.escalations),
    }
    if before is not None:
        told["was"] = before.status
        if moved.asked_at not in {None, before.asked_at}:
            told["asked"] = "customer"
    return told | {name: data[name] for name in ("reason",) if name in data}


def decision_facts(decision: Decision) -> dict[str, str]:
    """What the audit says of a decision, so that one that is deleted later is missed."""
    return {"decision": decision.id, "decision_mac": decision.mac}

"""The brief of an approver as an object; foreign text stands under `untrusted` only."""

from typing import TYPE_CHECKING

from support_agent.cli.output import rfc3339
from support_agent.cli.views import Object, decision_object, request_details
from support_agent.domain.orders import Order
from support_agent.domain.policy import Assessment
from support_agent.domain.reasons import Language, sentence
from support_agent.domain.refunds import RefundRequest
from support_agent.services.brief_words import clauses, why_a_person

if TYPE_CHECKING:
    from support_agent.services.briefs import Brief


def brief_object(brief: "Brief", language: Language) -> Object:
    """Facts first; what customers, the shop's texts and the model say last."""
    request, order = brief.request, brief.order
    return request_details(request) | {
        **_queue_facts(brief),
        "order": _order_object(order) if order else None,
        "assessment": _assessment_object(brief.assessment, language) if brief.assessment else None,
        "cumulative_minor": brief.cumulative_minor,
        "why_a_person": list(why_a_person(brief, language)),
        "clauses": list(clauses(brief)),
        "destination": brief.destination,
        "may_decide": list(brief.deciders),
        "decisions": [decision_object(decision) | {"note": None} for decision in brief.decisions],
        "group": [_other_object(other) for other in brief.group],
        "earlier_requests": [_other_object(other) for other in brief.earlier],
        "untrusted": _untrusted_object(brief),
    }


def _queue_facts(brief: "Brief") -> Object:
    request = brief.request
    return {
        "due_at": rfc3339(request.due_at),
        "escalations": request.escalations,
        "asked_at": rfc3339(request.asked_at) if request.asked_at else None,
        "held": brief.is_held,
        "filed_minor": request.filed_minor,
    }


def _untrusted_object(brief: "Brief") -> Object:
    order = brief.order
    return {
        "customer_messages": [
            {"seq": message.seq, "at": rfc3339(message.at), "text": message.text}
            for message in brief.customer_words
        ],
        "conversation": [
            {
                "seq": message.seq,
                "at": rfc3339(message.at),
                "author": message.author,
                "text": message.text,
            }
            for message in brief.conversation
        ],
        "model": [
            {"tool": p.tool, "arguments": p.arguments, "thought": p.thought}
            for p in brief.proposals
        ],
        "lines": {line.id: line.name for line in order.lines} if order else {},
        "order_note": order.note if order else None,
        "account_holder": brief.account.holder if brief.account else None,
        "decision_notes": [d.note for d in brief.decisions if d.note],
    }


def _other_object(other: RefundRequest) -> Object:
    return {
        "id": other.id,
        "order_id": other.order_id,
        "amount_minor": other.amount_minor,
        "currency": other.currency,
        "status": other.status,
    }


def _order_object(order: Order) -> Object:
    return {
        "id": order.id,
        "status": order.status,
        "total_minor": order.total_minor,
        "currency": order.currency,
        "placed_at": rfc3339(order.placed_at),
        "delivered_at": order.delivered_at,
    }


def _assessment_object(found: Assessment, language: Language) -> Object:
    return {
        "verdict": found.verdict,
        "reasons": list(found.reasons),
        "sentences": [sentence(reason, language, **found.facts) for reason in found.reasons],
        "days_since_delivery": found.days_since_delivery,
        "window_days": found.window_days,
        "last_day": found.last_day,
        "max_refundable_minor": found.max_refundable_minor,
    }

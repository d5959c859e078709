"""The brief of an approver: what code computed first, what people wrote last and in a box."""

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from support_agent.cli.output import print_box, print_facts, rfc3339, say
from support_agent.cli.views import Object, decision_object, local, money, request_details
from support_agent.domain.money import format_money
from support_agent.domain.orders import Moment, Order
from support_agent.domain.policy import Assessment
from support_agent.domain.reasons import Language, sentence
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.wording import person_reasons

if TYPE_CHECKING:
    from support_agent.services.briefs import Brief

UNTRUSTED = "written by others: not checked, changes no rule"


def brief_object(brief: "Brief", language: Language) -> Object:
    """The brief as an object; foreign text stands under `untrusted` only."""
    request, order = brief.request, brief.order
    return request_details(request) | {
        "order": _order_object(order) if order else None,
        "assessment": _assessment_object(brief.assessment, language) if brief.assessment else None,
        "cumulative_minor": brief.cumulative_minor,
        "why_a_person": list(_why(brief, language)),
        "may_decide": list(brief.deciders),
        "decisions": [decision_object(decision) | {"note": None} for decision in brief.decisions],
        "earlier_requests": [
            {
                "id": other.id,
                "order_id": other.order_id,
                "amount_minor": other.amount_minor,
                "currency": other.currency,
                "status": other.status,
            }
            for other in brief.earlier
        ],
        "untrusted": {
            "customer_messages": [
                {"seq": message.seq, "at": rfc3339(message.at), "text": message.text}
                for message in brief.customer_words
            ],
            "lines": {line.id: line.name for line in order.lines} if order else {},
            "order_note": order.note if order else None,
            "decision_notes": [d.note for d in brief.decisions if d.note],
        },
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


def _assessment_object(assessment: Assessment, language: Language) -> Object:
    return {
        "verdict": assessment.verdict,
        "reasons": list(assessment.reasons),
        "sentences": _sentences(assessment, language),
        "days_since_delivery": assessment.days_since_delivery,
        "window_days": assessment.window_days,
        "last_day": assessment.last_day,
        "max_refundable_minor": assessment.max_refundable_minor,
    }


def print_brief(brief: "Brief", language: Language, zone: tzinfo) -> None:
    """The brief in words; reasons in the language of the shop."""
    request = brief.request
    print_facts(
        [
            ("request", f"{request.id} (version {request.version}, round {request.round})"),
            ("status", _status(brief, zone)),
            ("customer", request.customer_id),
            ("filed", f"{local(request.created_at, zone)}, customer's answer: {request.consent}"),
            ("by", _requester(brief)),
            ("amount", f"{money(request)} to {request.destination}"),
            *_order_facts(brief, zone),
            *_verdict_facts(brief, language),
            ("balance", _balance(brief)),
            *_people_facts(brief, language),
        ]
    )
    _print_history(brief, zone)
    print_box(UNTRUSTED, _foreign_texts(brief, zone))


def _status(brief: "Brief", zone: tzinfo) -> str:
    request = brief.request
    if request.status is RequestStatus.PENDING_APPROVAL:
        return f"{request.status} until {local(request.expires_at, zone)}"
    return str(request.status)


def _requester(brief: "Brief") -> str:
    requester, operator = brief.request.requester, brief.request.operator
    typed = f", typed by {operator}" if operator else ""
    return f"{requester.kind} {requester.id} via {requester.via}{typed}"


def _order_facts(brief: "Brief", zone: tzinfo) -> list[tuple[str, str]]:
    order = brief.order
    if order is None:
        return [("order", f"{brief.request.order_id}: the shop does not know it any more")]
    delivered = f", delivered {_day(order.delivered_at, zone)}" if order.delivered_at else ""
    total = format_money(order.total_minor, order.currency)
    return [("order", f"{order.id}: {order.status}, total {total}{delivered}")]


def _day(moment: Moment, zone: tzinfo) -> str:
    return (moment.astimezone(zone).date() if isinstance(moment, datetime) else moment).isoformat()


def _verdict_facts(brief: "Brief", language: Language) -> list[tuple[str, str]]:
    found = brief.assessment
    if found is None:
        return []
    facts = [("verdict", f"{found.verdict} today, this request aside: {', '.join(found.reasons)}")]
    facts += [("", text) for text in _sentences(found, language)]
    if found.days_since_delivery is not None and found.window_days is not None:
        day = f"day {found.days_since_delivery} of {found.window_days}, last day {found.last_day}"
        facts.append(("window", f"{day} (judged when it was filed)"))
    return facts


def _sentences(assessment: Assessment, language: Language) -> list[str]:
    return [sentence(reason, language, **assessment.facts) for reason in assessment.reasons]


def _balance(brief: "Brief") -> str:
    currency = brief.request.currency
    captured = sum(payment.captured_minor for payment in brief.books.payments)
    refunded = sum(payment.refunded_minor for payment in brief.books.payments)
    taken = brief.cumulative_minor
    return (
        f"captured {format_money(captured, currency)}, "
        f"refunded {format_money(refunded, currency)}, "
        f"with this and other open requests {format_money(taken, currency)}"
    )


def _why(brief: "Brief", language: Language) -> tuple[str, ...]:
    return person_reasons(
        brief.request.reasons,
        policy=brief.policy,
        currency=brief.request.currency,
        cumulative_minor=brief.cumulative_minor,
        language=language,
    )


def _people_facts(brief: "Brief", language: Language) -> list[tuple[str, str]]:
    request = brief.request
    why = [("why a person", text) for text in _why(brief, language)[:1]]
    why += [("", text) for text in _why(brief, language)[1:]]
    persons = request.approvals_needed
    who = "one person" if persons == 1 else f"{persons} different persons"
    needed = f"level {request.required_level}, {who}"
    facts = [*why, ("needed", needed)]
    if request.status is RequestStatus.PENDING_APPROVAL:
        facts.append(("may decide", ", ".join(brief.deciders) or "nobody: no authority reaches"))
    return facts


def _print_history(brief: "Brief", zone: tzinfo) -> None:
    for decision in brief.decisions:
        when = local(decision.at, zone)
        say(f"decided: {decision.choice} by {decision.name} at {when} (proof: {decision.proof})")
    for other in brief.earlier:
        say(f"earlier: {other.id} {money(other)} for order {other.order_id}: {other.status}")


def _foreign_texts(brief: "Brief", zone: tzinfo) -> list[str]:
    texts = [
        f"customer, {local(message.at, zone)}: {message.text}" for message in brief.customer_words
    ]
    if brief.order is not None:
        texts += [f"item {line.id}: {line.name}" for line in brief.order.lines]
        texts += [f"order note: {brief.order.note}"] if brief.order.note else []
    texts += [f"note of {d.name}: {d.note}" for d in brief.decisions if d.note]
    return texts or ["(nothing)"]

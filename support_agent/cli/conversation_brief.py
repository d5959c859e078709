"""The brief of a conversation in words and as an object: for a person who takes it over."""

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from support_agent.cli.output import print_box, print_facts, rfc3339
from support_agent.cli.views import Object, local, money, quote_object, request_object
from support_agent.domain.memory import OrderFact
from support_agent.domain.money import format_money
from support_agent.domain.refunds import Quote

if TYPE_CHECKING:
    from support_agent.services.conversation_briefs import ConversationBrief, Tried

BY_THE_MODEL = "why the agent asked for a person: made by a machine, not checked"
LONGEST_ARGUMENTS = 200
Fact = tuple[str, str]


def print_conversation_brief(brief: "ConversationBrief", zone: tzinfo, now: datetime) -> None:
    """What code knows, and in a box of its own what the model said."""
    print_facts(list(_facts(brief, zone, now)))
    if brief.model_reason is not None:
        print_box(BY_THE_MODEL, [brief.model_reason])


def _facts(brief: "ConversationBrief", zone: tzinfo, now: datetime) -> Iterator[Fact]:
    """Label and value; a value without a label goes on with the one above."""
    conversation = brief.conversation
    if conversation.erased:
        yield "state", "closed: its texts were erased"
    else:
        yield "state", "with a person" if conversation.handed_off else "the agent's"
    yield "language", conversation.language
    yield "opened", local(conversation.created_at, zone)
    if brief.unanswered:
        yield "waiting", f"{brief.unanswered} messages that nobody has answered"
    yield from _several(
        "to do", [f"{t.kind}, since {local(t.created_at, zone)} ({t.id})" for t in brief.tasks]
    )
    yield from _several("order", [_order(order) for order in brief.orders])
    yield from _several("quote", [_quote(quote, zone, now) for quote in brief.quotes])
    yield from _several(
        "request", [f"{r.id}: {money(r)} for {r.order_id}, {r.status}" for r in brief.requests]
    )
    yield from _several("tried", [_call(call) for call in brief.tried])


def _several(label: str, values: list[str]) -> Iterator[Fact]:
    for number, value in enumerate(values):
        yield ("" if number else label), value


def _order(order: OrderFact) -> str:
    if order.total is None or order.currency is None:
        return f"{order.id}: {order.status}"
    return f"{order.id}: {order.status}, {format_money(order.total, order.currency)}"


def _quote(quote: Quote, zone: tzinfo, now: datetime) -> str:
    until = "expired" if quote.expires_at < now else f"valid until {local(quote.expires_at, zone)}"
    amount = format_money(quote.amount_minor, quote.currency)
    return f"{quote.id}: {amount} for {quote.order_id}, {until}"


def _call(call: "Tried") -> str:
    outcome = "done" if call.refusal is None else f"refused: {call.refusal}"
    return f"{call.tool}({call.arguments[:LONGEST_ARGUMENTS]}): {outcome}"


def brief_object(brief: "ConversationBrief") -> Object:
    """The same for programs."""
    return {
        "unanswered": brief.unanswered,
        "tasks": [
            {"id": task.id, "kind": task.kind, "created_at": rfc3339(task.created_at)}
            for task in brief.tasks
        ],
        "orders": [
            {"id": o.id, "status": o.status, "total_minor": o.total, "currency": o.currency}
            for o in brief.orders
        ],
        "quotes": [quote_object(quote) for quote in brief.quotes],
        "requests": [request_object(request) for request in brief.requests],
        "tried": [
            {"tool": call.tool, "arguments": call.arguments, "refusal": call.refusal}
            for call in brief.tried
        ],
        "model_reason": brief.model_reason,
    }

"""Steps towards a refund: quote it, then file it on a yes."""

import re
from typing import Any

from support_agent.adapters.models.offline.entities import as_id
from support_agent.adapters.models.offline.folding import fold
from support_agent.adapters.models.offline.history import Facts, Quote, text_of
from support_agent.adapters.models.offline.intents import Intent
from support_agent.adapters.models.offline.items import (
    Ambiguous,
    Line,
    count_in,
    leftover,
    pick,
    wants_a_part,
)
from support_agent.adapters.models.offline.steps import (
    Ask,
    Call,
    Say,
    Step,
    amount_refused,
    call,
    refused,
    which_order,
)
from support_agent.adapters.models.offline.wish import Wish, lines_of
from support_agent.adapters.models.offline.wording import say

_QUOTE_AGAIN = frozenset({"QUOTE_EXPIRED", "QUOTE_STALE", "QUOTE_SUPERSEDED"})
_WHOLE = re.compile(r"\b(?:toan bo|ca don|tat ca|nguyen don|whole|entire|everything|in full)\b")
_ANOTHER = re.compile(r"\b(?:don (?:kia|khac|con lai)|other (?:one|order)|another (?:one|order))\b")
MOST_QUOTED = 3  # orders of one message; each costs a step
_ASK_AGAIN = frozenset({"NO_CONSENT", "CONSENT_UNCLEAR"})


def ask_refund(facts: Facts, wish: Wish) -> Step:
    """Quote what is asked for, then ask for a yes or no; the quote itself is shown by code.

    One order at a time: the first of several that can be quoted is, the others are named.
    """
    order_ids = wish.order_ids or ((wish.order_id,) if wish.order_id else ())
    if not order_ids or (not wish.order_ids and _ANOTHER.search(fold(wish.rest))):
        return which_order(facts)
    refusals: list[str] = []
    for place, order_id in enumerate(order_ids[:MOST_QUOTED], start=1):
        step = _ask_for_one(facts, wish, order_id)
        if isinstance(step, Say) and len(order_ids) > 1:
            refusals.append(say("of_order", facts.language, order=order_id, told=step.text))
            continue
        if isinstance(step, Ask) and len(order_ids) > 1:
            lead = say("one_at_a_time", facts.language, order=order_id)
            left = ", ".join(order_ids[place:])
            later = " " + say("orders_after_it", facts.language, orders=left) if left else ""
            return Ask(text=" ".join([*refusals, lead + step.text + later]))
        return step
    return Say(text=" ".join(refusals) + and_later(facts, order_ids[MOST_QUOTED:]))


def _ask_for_one(facts: Facts, wish: Wish, order_id: str) -> Step:
    arguments = _arguments(facts, wish, order_id)
    if not isinstance(arguments, dict):
        return arguments
    quoted = call(facts, "quote_refund", arguments)
    if isinstance(quoted, Call):
        return quoted
    if quoted.refusal:
        if wish.amount is not None and quoted.refusal.code == "INVALID_ARGUMENTS":
            return amount_refused(facts)
        return refused(facts, quoted.refusal, order_id)
    return Ask(text=say("confirm", facts.language))


def and_later(facts: Facts, order_ids: tuple[str, ...]) -> str:
    """Names the orders that are still to be done, so that none is dropped in silence."""
    if not order_ids:
        return ""
    return " " + say("next_orders", facts.language, orders=", ".join(order_ids), order=order_ids[0])


def file_refund(facts: Facts, quote: Quote) -> Step:
    """The customer said yes to this quote."""
    filed = call(facts, "request_refund", {"quote_id": quote.id})
    if isinstance(filed, Call):
        return filed
    if not filed.refusal:
        order_id = text_of(filed.data, "order_id") or quote.order_id
        later = and_later(facts, orders_left(facts))
        return Say(text=say("filed", facts.language, order=order_id) + later)
    if filed.refusal.code in _ASK_AGAIN:
        return remind(facts, quote)
    if filed.refusal.code in _QUOTE_AGAIN and quote.arguments:
        return _quote_again(facts, quote)
    return refused(facts, filed.refusal, quote.order_id)


def orders_left(facts: Facts) -> tuple[str, ...]:
    """Of the orders that were last named together for a refund, those not asked for yet."""
    for understood in reversed(facts.before):
        named = tuple(as_id(typed, facts.known_ids) for typed in understood.entities.order_ids)
        if understood.intent is Intent.REFUND_REQUEST and named:
            tried = {
                text_of(outcome.arguments, "order_id")
                for outcome in facts.past
                if outcome.name == "quote_refund"
            }
            return tuple(order_id for order_id in named if order_id not in tried)
    return ()


def remind(facts: Facts, quote: Quote) -> Ask:
    """Ask again for the yes or no that a quote waits for."""
    return Ask(text=say("reminder", facts.language, order=quote.order_id))


def _arguments(facts: Facts, wish: Wish, order_id: str) -> dict[str, Any] | Step:
    """The whole order, an amount, or the named lines; lines have to be looked up first."""
    if wish.amount_unclear:
        return Ask(text=say("how_much", facts.language))
    if wish.amount is not None:
        return {"order_id": order_id, "amount": wish.amount}
    part = bool(leftover(wish.rest)) or wants_a_part(wish.rest)
    whole = _WHOLE.search(fold(wish.rest)) or not part
    if whole or "lookup_order" not in facts.tools:
        return {"order_id": order_id}
    looked_up = call(facts, "lookup_order", {"order_id": order_id})
    if isinstance(looked_up, Call):
        return looked_up
    if looked_up.refusal:
        return refused(facts, looked_up.refusal, order_id)
    return _named_lines(facts, order_id, lines_of(looked_up), wish)


def _named_lines(
    facts: Facts, order_id: str, lines: tuple[Line, ...], wish: Wish
) -> dict[str, Any] | Step:
    picked = pick(lines, wish.rest)
    if isinstance(picked, Ambiguous):
        return Ask(text=say("which_item", facts.language, names=", ".join(picked.names)))
    if not picked and wants_a_part(wish.rest):
        return _unnamed_part(facts, order_id, lines, count_in(wish.rest))
    everything = {line.line_id: line.quantity for line in lines}
    if not picked or {part.line_id: part.quantity for part in picked} == everything:
        return {"order_id": order_id}
    parts = [{"line_id": part.line_id, "quantity": part.quantity} for part in picked]
    return {"order_id": order_id, "lines": parts}


def _unnamed_part(
    facts: Facts, order_id: str, lines: tuple[Line, ...], count: int | None
) -> dict[str, Any] | Step:
    """So many of something: of a single line that is plain, else which line is asked."""
    if count == sum(line.quantity for line in lines):
        return {"order_id": order_id}
    if len(lines) == 1:
        quantity = count or lines[0].quantity
        return {
            "order_id": order_id,
            "lines": [{"line_id": lines[0].line_id, "quantity": quantity}],
        }
    names = ", ".join(line.name for line in lines)
    return Ask(text=say("which_item", facts.language, names=names))


def _quote_again(facts: Facts, quote: Quote) -> Step:
    quoted = call(facts, "quote_refund", quote.arguments)
    if isinstance(quoted, Call):
        return quoted
    if quoted.refusal:
        return refused(facts, quoted.refusal, quote.order_id)
    return Ask(text=say("quoted_again", facts.language) + say("confirm", facts.language))

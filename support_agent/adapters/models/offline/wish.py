"""What is wanted now: the last message, completed by what was asked before it."""

import re
from dataclasses import dataclass

from support_agent.adapters.models.offline.entities import as_id
from support_agent.adapters.models.offline.folding import fold
from support_agent.adapters.models.offline.history import (
    Facts,
    Outcome,
    number_of,
    rows_of,
    text_of,
)
from support_agent.adapters.models.offline.intents import Intent, Understanding
from support_agent.adapters.models.offline.items import Line, Picked, pick
from support_agent.domain.consent import Consent

# "A100" alone goes on with one of these.
_GOES_ON = frozenset(
    {
        Intent.ORDER_STATUS,
        Intent.ELIGIBILITY,
        Intent.REFUND_REQUEST,
        Intent.REFUND_STATUS,
        Intent.CANCEL_REFUND,
        Intent.CANCEL,
        Intent.TOTAL_REFUND,
        Intent.RETURNABLE_ITEMS,
        Intent.PROGRESS,
    }
)
# "A401 nữa" after a yes still belongs to the refund that was asked for.
_PASSED_OVER = frozenset({Intent.DETAIL, Intent.CONFIRM, Intent.UNKNOWN})
_TAKES_BACK = frozenset({Intent.CANCEL, Intent.CANCEL_REFUND})
_ALL = re.compile(r"\b(?:tat ca|het|ca hai|ca ba|ca 2|ca 3|both|all|everything)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """`order_ids` are named now; `order_id` is the first of them, else the one last spoken of."""

    intent: Intent
    consent: Consent
    order_ids: tuple[str, ...]
    order_id: str | None
    request_id: str | None
    amount: int | None
    amount_unclear: bool
    rest: str  # of the text, where goods may be named


def wish_of(facts: Facts, asked: Understanding) -> Wish:
    """The last message, completed: ids as the shop spells them, an earlier question's amount."""
    entities = asked.entities
    earlier = _earlier(facts)
    intent = _completed(facts, asked, earlier)
    amount, unclear, rest = entities.amount, entities.amount_unclear, entities.rest
    # An answer completes the question; after a yes it is the same question about another order.
    completes = intent is not asked.intent and asked.intent in {Intent.DETAIL, Intent.UNKNOWN}
    if earlier and completes and facts.before[-1].intent is not Intent.CONFIRM:
        if amount is None and not unclear:
            amount = earlier.entities.amount
        rest = f"{earlier.entities.rest} {rest}"
    order_ids = tuple(as_id(typed, facts.known_ids) for typed in entities.order_ids)
    return Wish(
        intent=intent,
        consent=asked.consent,
        order_ids=order_ids,
        order_id=order_ids[0] if order_ids else facts.spoken_order,
        request_id=_request_named(entities.references, facts.known_ids),
        amount=amount,
        amount_unclear=unclear,
        rest=rest,
    )


def says_all(typed: str) -> bool:
    """Whether all of several are meant."""
    return _ALL.search(fold(typed)) is not None


def _request_named(references: tuple[str, ...], known: frozenset[str]) -> str | None:
    """The request that is named; ours are never put into capitals."""
    for typed in references:
        return next((told for told in known if told.casefold() == typed.casefold()), typed)
    return None


def lines_of(looked_up: Outcome) -> tuple[Line, ...]:
    """The lines of a `lookup_order` that can be asked for: they have an id and a quantity."""
    return tuple(
        Line(line_id=line_id, name=text_of(row, "name"), quantity=quantity)
        for row in rows_of(looked_up.data, "lines")
        if (line_id := text_of(row, "line_id")) and (quantity := number_of(row, "quantity"))
    )


def _earlier(facts: Facts) -> Understanding | None:
    """The question that a bare detail may belong to; other bare words in between do not count."""
    for understood in reversed(facts.before):
        if understood.intent in _GOES_ON:
            return understood
        if understood.intent not in _PASSED_OVER:
            return None
    return None


def _completed(facts: Facts, asked: Understanding, earlier: Understanding | None) -> Intent:
    if asked.intent is Intent.UNKNOWN and earlier and earlier.intent in _TAKES_BACK:
        return earlier.intent if says_all(asked.entities.rest) else Intent.UNKNOWN
    if asked.intent is Intent.UNKNOWN:
        return Intent.REFUND_REQUEST if _names_a_line(facts, asked, earlier) else Intent.UNKNOWN
    if asked.intent is not Intent.DETAIL:
        return asked.intent
    if asked.entities.amount is not None or asked.entities.amount_unclear:
        return Intent.REFUND_REQUEST
    if earlier:
        return earlier.intent
    return Intent.REFUND_STATUS if asked.entities.references else Intent.ORDER_STATUS


def _names_a_line(facts: Facts, asked: Understanding, earlier: Understanding | None) -> bool:
    """Whether "áo thun" answers "which item?", the order having been looked up for a refund."""
    if earlier is None or earlier.intent is not Intent.REFUND_REQUEST:
        return False
    for outcome in reversed(facts.past):
        if (
            outcome.name == "lookup_order"
            and text_of(outcome.data, "order_id") == facts.spoken_order
        ):
            picked = pick(lines_of(outcome), asked.entities.rest)
            return isinstance(picked, tuple) and any(isinstance(p, Picked) for p in picked)
    return False

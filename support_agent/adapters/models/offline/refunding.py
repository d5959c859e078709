"""Steps towards a refund: quote it, file it on a yes, cancel it."""

import re
from typing import Any

from support_agent.adapters.models.offline.folding import fold
from support_agent.adapters.models.offline.history import (
    Facts,
    Quote,
    rows_of,
    text_of,
)
from support_agent.adapters.models.offline.items import Ambiguous, Line, leftover, pick
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
from support_agent.adapters.models.offline.telling import ask_status, requests_in
from support_agent.adapters.models.offline.wish import Wish, lines_of
from support_agent.adapters.models.offline.wording import say

_QUOTE_AGAIN = frozenset({"QUOTE_EXPIRED", "QUOTE_STALE", "QUOTE_SUPERSEDED"})
_WHOLE = re.compile(r"\b(?:toan bo|ca don|tat ca|nguyen don|whole|entire|everything|in full)\b")
_ASK_AGAIN = frozenset({"NO_CONSENT", "CONSENT_UNCLEAR"})
_CANCELLABLE = frozenset({"PENDING_APPROVAL", "APPROVED"})


def ask_refund(facts: Facts, wish: Wish) -> Step:
    """Quote what is asked for, then ask for a yes or no; the quote itself is shown by code."""
    if not wish.order_id:
        return which_order(facts)
    arguments = _arguments(facts, wish, wish.order_id)
    if not isinstance(arguments, dict):
        return arguments
    quoted = call(facts, "quote_refund", arguments)
    if isinstance(quoted, Call):
        return quoted
    if quoted.refusal:
        if wish.amount is not None and quoted.refusal.code == "INVALID_ARGUMENTS":
            return amount_refused(facts)
        return refused(facts, quoted.refusal, wish.order_id)
    several = len(wish.order_ids) > 1
    lead = say("one_at_a_time", facts.language, order=wish.order_id) if several else ""
    return Ask(text=lead + say("confirm", facts.language))


def file_refund(facts: Facts, quote: Quote) -> Step:
    """The customer said yes to this quote."""
    filed = call(facts, "request_refund", {"quote_id": quote.id})
    if isinstance(filed, Call):
        return filed
    if not filed.refusal:
        order_id = text_of(filed.data, "order_id") or quote.order_id
        return Say(text=say("filed", facts.language, order=order_id))
    if filed.refusal.code in _ASK_AGAIN:
        return remind(facts, quote)
    if filed.refusal.code in _QUOTE_AGAIN and quote.arguments:
        return _quote_again(facts, quote)
    return refused(facts, filed.refusal, quote.order_id)


def remind(facts: Facts, quote: Quote) -> Ask:
    """Ask again for the yes or no that a quote waits for."""
    return Ask(text=say("reminder", facts.language, order=quote.order_id))


def cancel_refund(facts: Facts, wish: Wish) -> Step:
    """Cancel the request that is named or meant; look for it first where that is not plain."""
    request_id = wish.request_id or _only_filed(facts, wish) or _find_cancellable(facts, wish)
    if not isinstance(request_id, str):
        return request_id
    cancelled = call(facts, "cancel_refund", {"request_id": request_id})
    if isinstance(cancelled, Call):
        return cancelled
    if cancelled.refusal:
        return refused(facts, cancelled.refusal)
    done = text_of(cancelled.data, "status") == "CANCELLED"
    return Say(text=say("cancelled" if done else "cancel_sent", facts.language))


def filed_requests(facts: Facts) -> dict[str, str]:
    """Requests filed in this conversation and not cancelled in it: id -> order id, oldest first."""
    filed: dict[str, str] = {}
    for outcome in facts.past:
        if outcome.refusal:
            continue
        if outcome.name == "request_refund" and (request_id := text_of(outcome.data, "request_id")):
            filed[request_id] = text_of(outcome.data, "order_id")
        elif outcome.name == "cancel_refund":
            filed.pop(text_of(outcome.arguments, "request_id"), None)
    return filed


def _arguments(facts: Facts, wish: Wish, order_id: str) -> dict[str, Any] | Step:
    """The whole order, an amount, or the named lines; lines have to be looked up first."""
    if wish.amount_unclear:
        return Ask(text=say("how_much", facts.language))
    if wish.amount is not None:
        return {"order_id": order_id, "amount": wish.amount}
    whole = _WHOLE.search(fold(wish.rest)) or not leftover(wish.rest)
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
    everything = {line.line_id: line.quantity for line in lines}
    if not picked or {part.line_id: part.quantity for part in picked} == everything:
        return {"order_id": order_id}
    parts = [{"line_id": part.line_id, "quantity": part.quantity} for part in picked]
    return {"order_id": order_id, "lines": parts}


def _quote_again(facts: Facts, quote: Quote) -> Step:
    quoted = call(facts, "quote_refund", quote.arguments)
    if isinstance(quoted, Call):
        return quoted
    if quoted.refusal:
        return refused(facts, quoted.refusal, quote.order_id)
    return Ask(text=say("quoted_again", facts.language) + say("confirm", facts.language))


def _only_filed(facts: Facts, wish: Wish) -> str | None:
    """The request this conversation is about, when there is no doubt which."""
    filed = filed_requests(facts)
    fitting = [r for r, order in filed.items() if not wish.order_ids or order in wish.order_ids]
    return fitting[0] if len(fitting) == 1 else None


def _find_cancellable(facts: Facts, wish: Wish) -> str | Step:
    found = ask_status(facts, wish)
    if isinstance(found, Call):
        return found
    if found.refusal:
        return refused(facts, found.refusal, wish.order_id or "")
    cancellable = [
        request_id
        for row in rows_of(found.data, "requests")
        if text_of(row, "status") in _CANCELLABLE and (request_id := text_of(row, "request_id"))
    ]
    if len(cancellable) == 1:
        return cancellable[0]
    if cancellable:
        return Ask(text=say("which_request", facts.language, requests=", ".join(cancellable)))
    state = requests_in(facts, found)
    return Say(text=f"{say('none_to_cancel', facts.language)} {state}".strip())

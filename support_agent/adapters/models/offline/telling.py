"""Answers that change nothing: orders, verdicts, the policy, the state of requests."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from support_agent.adapters.models.offline.history import (
    Facts,
    Outcome,
    number_of,
    part_of,
    rows_of,
    text_of,
    texts_of,
)
from support_agent.adapters.models.offline.steps import (
    Call,
    Say,
    Step,
    call,
    orders_in,
    refused,
    which_order,
)
from support_agent.adapters.models.offline.wish import Wish
from support_agent.adapters.models.offline.wording import money, say, state

MOST_ORDERS = 3  # of one message; each costs a step


def tell_orders(facts: Facts, wish: Wish) -> Step:
    """Where the named orders stand."""
    return _tell_each(facts, wish, with_policy=False)


def tell_verdicts(facts: Facts, wish: Wish) -> Step:
    """Whether the named orders can be refunded, the policy having been read as well."""
    return _tell_each(facts, wish, with_policy=True)


def tell_policy(facts: Facts) -> Step:
    """The policy, in its own words."""
    policy = call(facts, "refund_policy")
    if isinstance(policy, Call):
        return policy
    if policy.refusal:
        return refused(facts, policy.refusal)
    return Say(text=text_of(policy.data, "text") or say("policy_unclear", facts.language))


def tell_list(facts: Facts) -> Step:
    """The customer's orders."""
    listed = call(facts, "list_orders")
    if isinstance(listed, Call):
        return listed
    if listed.refusal:
        return refused(facts, listed.refusal)
    orders = orders_in(facts, listed)
    if not orders:
        return Say(text=say("no_orders", facts.language))
    more = say("more_orders", facts.language) if listed.data.get("has_more") is True else ""
    return Say(text=say("orders", facts.language, orders=orders) + more)


def tell_requests(facts: Facts, wish: Wish) -> Step:
    """What became of the refunds that were asked for."""
    found = ask_status(facts, wish)
    if isinstance(found, Call):
        return found
    if found.refusal:
        return refused(facts, found.refusal, wish.order_id or "")
    return Say(text=requests_in(facts, found) or _no_requests(facts, wish))


def tell_process(facts: Facts, wish: Wish) -> Step:
    """How long it takes and who decides: the state is told, a date is never promised."""
    step = tell_requests(facts, wish)
    if not isinstance(step, Say):
        return step
    return Say(text=f"{step.text} {say('no_date', facts.language)}")


def tell_total(facts: Facts, wish: Wish, *, filed: bool) -> Step:
    """Sums are code's: the requests as they stand, or the question which order is meant."""
    if wish.order_ids:
        return tell_verdicts(facts, wish)
    return tell_requests(facts, replace(wish, order_id=None)) if filed else which_order(facts)


def tell_items(facts: Facts, wish: Wish) -> Step:
    """Which lines of the order can be refunded, as the policy judged each."""
    if not wish.order_id:
        return which_order(facts)
    looked_up = call(facts, "lookup_order", {"order_id": wish.order_id})
    if isinstance(looked_up, Call):
        return looked_up
    if looked_up.refusal:
        return refused(facts, looked_up.refusal, wish.order_id)
    names = ", ".join(
        f"{name} ({money(most, text_of(looked_up.data, 'currency'))})"
        for row in rows_of(looked_up.data, "lines")
        if (name := text_of(row, "name")) and (most := number_of(row, "refundable"))
    )
    verdict = text_of(part_of(looked_up.data, "refund"), "verdict")
    if not names or verdict not in {"ELIGIBLE", "PARTIAL"}:
        return Say(text=_verdict(facts, wish.order_id, looked_up.data))
    items = say("returnable_items", facts.language, order=wish.order_id, names=names)
    others = len(rows_of(looked_up.data, "lines")) > names.count(")")
    return Say(text=items + (say("no_other_items", facts.language) if others else ""))


def ask_status(facts: Facts, wish: Wish) -> Outcome | Call:
    """The requests in question: the one that is named, else the order's, else all."""
    if wish.request_id:
        return call(facts, "refund_status", {"request_id": wish.request_id})
    if wish.order_id:
        return call(facts, "refund_status", {"order_id": wish.order_id})
    return call(facts, "refund_status")


def requests_in(facts: Facts, found: Outcome) -> str:
    """Whose state is asked for; amounts and states are stated beside it by code."""
    rows = rows_of(found.data, "requests")
    orders = dict.fromkeys(text_of(row, "order_id") for row in rows if text_of(row, "request_id"))
    return say("requests_below", facts.language, orders=", ".join(orders)) if orders else ""


def _no_requests(facts: Facts, wish: Wish) -> str:
    about = say("about_order", facts.language, order=wish.order_id) if wish.order_id else ""
    return say("no_requests", facts.language, about=about)


def _tell_each(facts: Facts, wish: Wish, *, with_policy: bool) -> Step:
    if not wish.order_id:
        return which_order(facts)
    told: list[str] = []
    any_found = False
    for order_id in (wish.order_ids or (wish.order_id,))[:MOST_ORDERS]:
        looked_up = call(facts, "lookup_order", {"order_id": order_id})
        if isinstance(looked_up, Call):
            return looked_up
        any_found = any_found or not looked_up.refusal
        told.append(_one(facts, order_id, looked_up, verdict=with_policy))
    if with_policy and any_found and "refund_policy" in facts.tools:
        policy = call(facts, "refund_policy")
        if isinstance(policy, Call):
            return policy
    return Say(text=" ".join(told))


def _one(facts: Facts, order_id: str, looked_up: Outcome, *, verdict: bool) -> str:
    if looked_up.refusal:
        return refused(facts, looked_up.refusal, order_id).text
    return (_verdict if verdict else _order)(facts, order_id, looked_up.data)


def _order(facts: Facts, order_id: str, data: Mapping[str, Any]) -> str:
    language = facts.language
    text = say("order", language, order=order_id, status=state(text_of(data, "status"), language))
    if text_of(data, "status") == "DELIVERED" and (date := text_of(data, "delivered_at")):
        text += say("delivered_on", language, date=date)
    names = [
        f"{number_of(row, 'quantity') or 1} × {name}"
        for row in rows_of(data, "lines")
        if (name := text_of(row, "name"))
    ]
    if names:
        text += say("items", language, items=", ".join(names))
    if (total := number_of(data, "total")) is not None:
        text += say("total", language, total=money(total, text_of(data, "currency")))
    return text + "."


def _verdict(facts: Facts, order_id: str, data: Mapping[str, Any]) -> str:
    """The verdict as code gave it; its numbers are repeated, never worked out here."""
    language, refund = facts.language, part_of(data, "refund")
    most = number_of(refund, "max_refundable")
    amount = money(most, text_of(data, "currency")) if most is not None else ""
    last_day = text_of(refund, "last_day")
    because = "".join(f" {reason}" for reason in texts_of(refund, "reasons"))
    until = say("last_day", language, date=last_day) if last_day else ""
    match text_of(refund, "verdict"):
        case "ELIGIBLE":
            return _eligible(facts, order_id, data, amount) + until
        case "PARTIAL":
            at_most = say("at_most", language, amount=amount) if amount else ""
            return (
                say("partial", language, order=order_id, amount=at_most)
                + because
                + ("" if last_day in because else until)
            )
        case "INELIGIBLE" if "ALREADY_REFUNDED" in texts_of(refund, "codes"):
            return say("already_refunded", language, order=order_id)
        case "INELIGIBLE":
            return say("ineligible", language, order=order_id) + because
        case "NEEDS_REVIEW":
            return say("needs_review", language, order=order_id) + because
        case _:
            return say("no_verdict", language, order=order_id) + because


def _eligible(facts: Facts, order_id: str, data: Mapping[str, Any], amount: str) -> str:
    language = facts.language
    date, days = (
        text_of(data, "delivered_at"),
        number_of(part_of(data, "refund"), "days_since_delivery"),
    )
    of_amount = say("of_amount", language, amount=amount) if amount else ""
    if days is None:
        named = say("order_named", language, order=order_id)
        return named + say("eligible", language, amount=of_amount)
    since = say(
        "delivered" if date else "delivered_days", language, order=order_id, date=date, days=days
    )
    return since + say("eligible_since", language, amount=of_amount)

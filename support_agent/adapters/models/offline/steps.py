"""The next step of a plan, and the few sentences every plan may end in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from support_agent.adapters.models.offline.history import (
    Facts,
    Outcome,
    Refusal,
    number_of,
    rows_of,
    text_of,
)
from support_agent.adapters.models.offline.wording import money, say, state
from support_agent.domain.reasons import Reason, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Ask a tool; the plan is made again with its result."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    thought: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """The turn ends in an answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The turn ends in a question."""

    text: str


Step = Call | Say | Ask

# The tool or the system broke: its sentence is for engineers.
_BROKEN = frozenset(
    {
        "CONFIGURATION",
        "DATABASE_UNAVAILABLE",
        "INTERNAL",
        "INTERRUPTED",
        "INVALID_ARGUMENTS",
        "INVALID_INPUT",
        "ORDERS_UNAVAILABLE",
        "TOOL_ERROR",
        "TOOL_FAILED",
        "TOOL_TIMEOUT",
        "UNKNOWN",
        "UNKNOWN_TOOL",
    }
)
# Refusals whose sentence names internal things and is English only.
_OWN_WORDS = {
    "ALREADY_DECIDED": "too_late",
    "ILLEGAL_TRANSITION": "too_late",
    "QUOTE_NOT_FOUND": "what_next",
    "REQUEST_NOT_FOUND": "request_not_found",
}


def call(
    facts: Facts, name: str, arguments: Mapping[str, Any] = MappingProxyType({})
) -> Outcome | Call:
    """What the call came to in this turn, or the call itself while it was not made."""
    outcome = facts.result(name, arguments)
    if outcome is not None:
        return outcome
    thought = say(f"thought.{name}", facts.language, order=arguments.get("order_id", ""))
    return Call(name=name, arguments=arguments, thought=thought)


def refused(facts: Facts, refusal: Refusal, order_id: str = "") -> Say:
    """Tell the customer why not, in the words that came with the refusal."""
    language = facts.language
    match refusal.code:
        case "ORDER_NOT_FOUND":
            return Say(text=say("order_not_found", language, order=order_id))
        case "ALREADY_REFUNDED":
            return Say(text=say("already_refunded", language, order=order_id))
        case code if code in _OWN_WORDS:
            return Say(text=say(_OWN_WORDS[code], language))
        case code if code in _BROKEN:
            return Say(text=say("broken", language))
        case _ if refusal.sentence:
            return Say(text=say("refused", language, sentence=refusal.sentence))
        case _:
            return Say(text=say("refused_plain", language))


def amount_refused(facts: Facts) -> Say:
    """For an amount that no tool takes, in the words that the rules have for it."""
    why = sentence(Reason.AMOUNT_INVALID, facts.language)
    return Say(text=say("refused", facts.language, sentence=why))


def which_order(facts: Facts) -> Step:
    """Show the orders and ask; a single order is asked about too, money is never guessed."""
    if "list_orders" not in facts.tools:
        return Ask(text=say("which_order_id", facts.language))
    listed = call(facts, "list_orders")
    if isinstance(listed, Call):
        return listed
    if listed.refusal:
        return refused(facts, listed.refusal)
    orders = orders_in(facts, listed)
    if not orders:
        return Say(text=say("no_orders", facts.language))
    return Ask(text=say("which_order", facts.language, orders=orders))


def orders_in(facts: Facts, listed: Outcome) -> str:
    """The orders of a `list_orders` result, one after the other."""
    return ", ".join(
        f"{order_id} ({', '.join(_about(facts, row))})"
        for row in rows_of(listed.data, "orders")
        if (order_id := text_of(row, "order_id"))
    )


def _about(facts: Facts, row: Mapping[str, Any]) -> list[str]:
    about = [state(text_of(row, "status") or "UNKNOWN", facts.language)]
    if (total := number_of(row, "total")) is not None:
        about.append(money(total, text_of(row, "currency")))
    return about

"""What the conversation so far says: read anew at every step, nothing is remembered elsewhere."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support_agent.adapters.models.offline.entities import as_id
from support_agent.adapters.models.offline.folding import compose
from support_agent.adapters.models.offline.intents import Intent, Understanding, understand
from support_agent.domain.consent import Consent
from support_agent.domain.language import detect
from support_agent.domain.reasons import Language
from support_agent.ports.model import (
    AssistantTurn,
    Correction,
    CustomerTurn,
    ModelRequest,
    Recap,
    ToolResult,
    Turn,
)

Readings = Mapping[int, Understanding]  # by the turn's place


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """`ERROR CODE: sentence`, taken apart; the code is the most particular one."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call and what came back; `data` is empty when it was refused or cannot be read."""

    name: str
    arguments: Mapping[str, Any]
    data: Mapping[str, Any] = field(default_factory=dict)
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A quote made in an earlier turn that was neither filed, declined nor replaced."""

    id: str
    order_id: str
    amount: int | None
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the plan is made from. `past` ends where the current turn starts."""

    language: Language
    asked: Understanding | None  # None: nobody has said anything
    before: tuple[Understanding, ...]  # earlier messages, oldest first
    past: tuple[Outcome, ...]
    recalled: tuple[Mapping[str, Any], ...]  # requests from before the view, oldest first
    current: tuple[Outcome, ...]
    quote: Quote | None
    spoken_order: str | None  # the order last spoken of in earlier turns
    known_ids: frozenset[str]
    last_said: str  # to the customer, before the current turn
    corrected: bool
    tools: frozenset[str]

    def result(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """What this very call came to in the current turn; None when it was not made yet."""
        for outcome in self.current:
            if outcome.name == name and outcome.arguments == arguments:
                return outcome
        return None


def read(request: ModelRequest) -> Facts:
    """Everything the request tells; the current turn starts at the last customer message."""
    turns = request.turns
    start = max((i for i, turn in enumerate(turns) if isinstance(turn, CustomerTurn)), default=0)
    readings = {
        i: understand(turn.text) for i, turn in enumerate(turns) if isinstance(turn, CustomerTurn)
    }
    understood = tuple(readings.values())
    past = _outcomes(turns[:start])
    known = frozenset((*_ids_told(past), *_ids_recalled(turns)))
    return Facts(
        language=_language(turns, request.language),
        asked=understood[-1] if understood else None,
        before=understood[:-1],
        past=past,
        recalled=tuple(_requests_recalled(turns)),
        current=_outcomes(turns[start:]),
        quote=_open_quote(turns[:start], readings, known),
        spoken_order=_spoken_order(turns[:start], readings, known),
        known_ids=known,
        last_said=next((t.text for t in turns[start::-1] if isinstance(t, AssistantTurn)), ""),
        corrected=any(isinstance(turn, Correction) for turn in turns[start:]),
        tools=frozenset(tool.name for tool in request.tools),
    )


def text_of(data: Mapping[str, Any], key: str) -> str:
    """A text, or nothing where there is none; like its neighbours it takes any JSON."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number_of(data: Mapping[str, Any], key: str) -> int | None:
    """A whole number; true and 1.0 are none."""
    value = data.get(key)
    return value if type(value) is int else None


def part_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """An object inside an object."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def rows_of(data: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    """The objects of a list."""
    value = data.get(key)
    return tuple(row for row in value if isinstance(row, dict)) if isinstance(value, list) else ()


def texts_of(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The texts of a list."""
    value = data.get(key)
    return tuple(t for t in value if isinstance(t, str)) if isinstance(value, list) else ()


_ERROR = re.compile(r"ERROR\b[ :]*((?:[A-Z][A-Z0-9_]+:? )*[A-Z][A-Z0-9_]+)?:?\s*(.*)", re.DOTALL)


def _outcome(result: ToolResult) -> Outcome:
    name, arguments = result.call.name, _object(result.call.arguments)
    content = compose(result.content.strip()) if result.content.lstrip().startswith("ERROR") else ""
    if match := _ERROR.match(content):
        codes = (match[1] or "UNKNOWN").replace(":", " ").split()
        refusal = Refusal(code=codes[-1], sentence=match[2].strip())
        return Outcome(name=name, arguments=arguments, refusal=refusal)
    return Outcome(name=name, arguments=arguments, data=_object(result.content))


def _object(text: str) -> Mapping[str, Any]:
    """A JSON object; anything else, however broken, is an empty one."""
    try:
        value = json.loads(text.encode("utf-8", "replace"))
        # A lone surrogate may hide in an escape; it could not be sent to anyone.
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _outcomes(turns: Iterable[Turn]) -> tuple[Outcome, ...]:
    return tuple(_outcome(turn) for turn in turns if isinstance(turn, ToolResult))


def _language(turns: Iterable[Turn], language: Language) -> Language:
    """That of the last message; one that does not show it ("ok A100") goes on in the one before."""
    for turn in turns:
        if isinstance(turn, CustomerTurn):
            language = detect(compose(turn.text), language)
    return language


def _ids_told(outcomes: Iterable[Outcome]) -> Iterable[str]:
    for outcome in outcomes:
        for row in (
            outcome.data,
            *rows_of(outcome.data, "orders"),
            *rows_of(outcome.data, "requests"),
        ):
            for key in ("order_id", "request_id"):
                if told := text_of(row, key):
                    yield told


def _ids_recalled(turns: Iterable[Turn]) -> Iterable[str]:
    for turn in turns:
        if isinstance(turn, Recap):
            facts = _object(turn.facts)
            for row in (*rows_of(facts, "orders"), *rows_of(facts, "requests")):
                yield text_of(row, "id")


def _requests_recalled(turns: Iterable[Turn]) -> Iterable[Mapping[str, Any]]:
    for turn in turns:
        if isinstance(turn, Recap):
            yield from rows_of(_object(turn.facts), "requests")


def _missing_orders(outcomes: Iterable[Outcome]) -> frozenset[str]:
    return frozenset(
        text_of(outcome.arguments, "order_id")
        for outcome in outcomes
        if outcome.refusal and outcome.refusal.code == "ORDER_NOT_FOUND"
    )


def _spoken_order(turns: Sequence[Turn], readings: Readings, known: frozenset[str]) -> str | None:
    """The newest id in the customer's words or a result; one that was not found does not count."""
    missing = _missing_orders(_outcomes(turns))
    for i in reversed(range(len(turns))):
        turn, ids = turns[i], tuple[str, ...]()
        if i in readings:
            ids = tuple(as_id(typed, known) for typed in readings[i].entities.order_ids)
        elif isinstance(turn, ToolResult):
            outcome = _outcome(turn)
            ids = (text_of(outcome.data, "order_id"), text_of(outcome.arguments, "order_id"))
        elif isinstance(turn, Recap):
            orders = rows_of(_object(turn.facts), "orders")
            ids = tuple(text_of(order, "id") for order in reversed(orders))
        for order_id in ids:
            if order_id and order_id not in missing:
                return order_id
    return None


def _open_quote(turns: Sequence[Turn], readings: Readings, known: frozenset[str]) -> Quote | None:
    """The newest quote, unless it was filed, or a later message before the present one said no."""
    quote: Quote | None = None
    for i, turn in enumerate(turns):
        if i in readings and quote and _declines(readings[i], quote, known):
            quote = None
        elif isinstance(turn, ToolResult):
            quote = _after(quote, _outcome(turn))
        elif isinstance(turn, Recap):
            quote = _recalled_quote(turn)
    return quote


def _recalled_quote(recap: Recap) -> Quote | None:
    for row in reversed(rows_of(_object(recap.facts), "quotes")):
        return Quote(
            id=text_of(row, "id"),
            order_id=text_of(row, "order_id"),
            amount=number_of(row, "amount"),
            arguments={},
        )
    return None


def _declines(understood: Understanding, quote: Quote, known: frozenset[str]) -> bool:
    if understood.consent is Consent.NO:
        return True
    named = [as_id(typed, known) for typed in understood.entities.order_ids]
    about_it = not understood.entities.references and (not named or quote.order_id in named)
    return about_it and understood.intent in {Intent.CANCEL, Intent.CANCEL_REFUND}


# After these the same quote may be filed again: nothing was decided, or nobody knows.
_QUOTE_LIVES_ON = frozenset(
    {
        "NO_CONSENT",
        "CONSENT_UNCLEAR",
        "DATABASE_UNAVAILABLE",
        "INTERRUPTED",
        "TOOL_FAILED",
        "TOOL_TIMEOUT",
    }
)


def _after(quote: Quote | None, outcome: Outcome) -> Quote | None:
    if outcome.name == "quote_refund" and (quote_id := text_of(outcome.data, "quote_id")):
        return Quote(
            id=quote_id,
            order_id=text_of(outcome.data, "order_id") or text_of(outcome.arguments, "order_id"),
            amount=number_of(outcome.data, "amount"),
            arguments=outcome.arguments,
        )
    if quote and outcome.name == "request_refund" and outcome.arguments.get("quote_id") == quote.id:
        refused = outcome.refusal
        return quote if refused and refused.code in _QUOTE_LIVES_ON else None
    return quote

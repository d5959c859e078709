"""What must not be forgotten of a conversation: typed facts that code took from it."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from support_agent.domain.consent import Consent, classify
from support_agent.domain.conversation import Author

# Of each kind; the newest stay, and of requests those that are open.
MOST_ORDERS = 30
MOST_REQUESTS = 30
MOST_QUOTES = 4
MOST_PROMISES = 5
MOST_WISHES = 3
LONGEST_TEXT = 200
LONGEST_ID = 80
FEWEST_WORDS = 3  # fewer are no wish
CLOSED = frozenset({"REFUNDED", "FAILED", "REJECTED", "CANCELLED", "EXPIRED"})
OF_ORDER = frozenset({"order_id", "currency"})
DEEPEST = 20  # of objects and lists inside each other that facts are looked for in
ELLIPSIS = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFact:
    """An order as a tool last told it; the total in minor units."""

    id: str
    status: str
    total: int | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFact:
    """A refund request; the amount in minor units."""

    id: str
    status: str
    order_id: str | None = None
    amount: int | None = None
    currency: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuoteFact:
    """An offer that the customer may still answer; after a no a new one has to be made."""

    id: str
    order_id: str | None = None
    amount: int | None = None
    currency: str | None = None
    expires_at: str | None = None


Fact = TypeVar("Fact", bound=OrderFact | RequestFact | QuoteFact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bounded facts of a conversation, from results of tools and from messages.

    Promises are what staff wrote and what code told outside a turn; a model's words are none.
    Wishes are the first message of the customer that says more than yes or no, and the last ones.
    """

    orders: tuple[OrderFact, ...] = ()
    requests: tuple[RequestFact, ...] = ()
    quotes: tuple[QuoteFact, ...] = ()
    promises: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()  # what the wishes come to, where somebody names it

    def told(self, content: str) -> "Memory":
        """With what a tool's result says; one that is no JSON (a refusal) says nothing."""
        try:
            found = json.loads(content)
        except (ValueError, RecursionError):
            return self
        memory = self
        for facts in _objects(found, {}):
            memory = memory._with(facts)
        return memory

    def said(self, author: Author, text: str) -> "Memory":
        """With what a message says."""
        line = shortened(text, LONGEST_TEXT)
        match author:
            case Author.STAFF | Author.NOTICE:
                promises = (*(p for p in self.promises if p != line), line)
                return replace(self, promises=promises[-MOST_PROMISES:])
            case Author.CUSTOMER if self.quotes and classify(text) is Consent.NO:
                return replace(self, quotes=())
            case Author.CUSTOMER if _is_wish(text) and line not in self.wishes:
                wishes = (*self.wishes, line)
                kept = wishes if len(wishes) <= MOST_WISHES else (wishes[0], *wishes[2:])
                return replace(self, wishes=kept)
            case _:
                return self

    def wants(self, intents: tuple[str, ...]) -> "Memory":
        """With what the wishes come to; what was known stays where nothing is."""
        return replace(self, intents=intents or self.intents)

    def standing(self, statuses: Mapping[str, str], open_quotes: Collection[str]) -> "Memory":
        """With requests as they stand now, and only the quotes that are still open."""
        return replace(
            self,
            requests=tuple(
                replace(request, status=statuses.get(request.id, request.status))
                for request in self.requests
            ),
            quotes=tuple(quote for quote in self.quotes if quote.id in open_quotes),
        )

    def facts(self) -> dict[str, Any]:
        """As JSON objects, without what is not known; `recalled` reads them back."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: [_plain(fact) for fact in facts] for name, facts in given.items() if facts}

    def _with(self, facts: Mapping[str, Any]) -> "Memory":
        match facts:
            case {"request_id": str(id_)}:
                request = RequestFact(id=id_[:LONGEST_ID], **_known(facts, "status", "?"))
                return replace(self, requests=_most_requests(_newest(self.requests, request)))
            case {"quote_id": str(id_)}:
                quote = QuoteFact(id=id_[:LONGEST_ID], **_known(facts, None, ""))
                return replace(self, quotes=_newest(self.quotes, quote)[-MOST_QUOTES:])
            case {"order_id": str(id_), "status": str(status)}:
                order = OrderFact(
                    id=id_[:LONGEST_ID],
                    status=status[:LONGEST_ID],
                    total=_number(facts.get("total")),
                    currency=_word(facts.get("currency")),
                )
                return replace(self, orders=_newest(self.orders, order)[-MOST_ORDERS:])
        return self


def recalled(facts: Mapping[str, Any]) -> Memory:
    """What `Memory.facts` wrote down."""
    return Memory(
        orders=tuple(OrderFact(**fact) for fact in facts.get("orders", ())),
        requests=tuple(RequestFact(**fact) for fact in facts.get("requests", ())),
        quotes=tuple(QuoteFact(**fact) for fact in facts.get("quotes", ())),
        promises=tuple(facts.get("promises", ())),
        wishes=tuple(facts.get("wishes", ())),
        intents=tuple(facts.get("intents", ())),
    )


def shortened(text: str, most: int) -> str:
    """In one line, and of at most `most` characters."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most else line[: most - 1] + ELLIPSIS


def _is_wish(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS and classify(text) is Consent.UNCLEAR


def _objects(value: object, around: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object of a JSON value, an outer one before those inside it.

    A part of a request is told without the order that the request is of.
    """
    if depth > DEEPEST:
        return
    match value:
        case dict():
            yield {**around, **value} if "request_id" in value else value
            shared = {**around, **{name: value[name] for name in OF_ORDER & value.keys()}}
            for inner in value.values():
                yield from _objects(inner, shared, depth + 1)
        case list():
            for inner in value:
                yield from _objects(inner, around, depth + 1)


def _known(facts: Mapping[str, Any], status: str | None, otherwise: str) -> dict[str, Any]:
    known: dict[str, Any] = {
        "order_id": _word(facts.get("order_id")),
        "amount": _number(facts.get("amount")),
        "currency": _word(facts.get("currency")),
    }
    if status is None:
        return known | {"expires_at": _word(facts.get("expires_at"))}
    return known | {"status": _word(facts.get(status)) or otherwise}


def _word(value: object) -> str | None:
    return value[:LONGEST_ID] if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _newest(facts: Iterable[Fact], new: Fact) -> tuple[Fact, ...]:
    """The new one last, with what was known of the same thing and is not told again."""
    others: list[Fact] = []
    for fact in facts:
        if fact.id != new.id:
            others.append(fact)
            continue
        told = {f.name: getattr(new, f.name) for f in fields(new)}
        new = replace(fact, **{name: value for name, value in told.items() if value is not None})
    return (*others, new)


def _most_requests(requests: tuple[RequestFact, ...]) -> tuple[RequestFact, ...]:
    if len(requests) <= MOST_REQUESTS:
        return requests
    oldest_first = sorted(requests, key=lambda request: request.status not in CLOSED)
    return tuple(request for request in requests if request is not oldest_first[0])


def _plain(fact: OrderFact | RequestFact | QuoteFact | str) -> dict[str, Any] | str:
    if isinstance(fact, str):
        return fact
    values = {field.name: getattr(fact, field.name) for field in fields(fact)}
    return {name: value for name, value in values.items() if value is not None}

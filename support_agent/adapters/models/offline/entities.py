"""What a customer's words name: order ids, ids of ours, and amounts in minor units."""

import re
from dataclasses import dataclass

from support_agent.adapters.models.offline import amounts
from support_agent.adapters.models.offline.folding import compose, fold, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """`order_ids` and `references` as typed, in order; `rest` is the text without all of them."""

    order_ids: tuple[str, ...]
    references: tuple[str, ...]  # ids this product made: requests, quotes
    amount: int | None
    amount_unclear: bool  # a part is asked for, but not how much
    rest: str
    words: str  # of the rest, folded

    @property
    def any(self) -> bool:
        named = self.order_ids or self.references
        return bool(named) or self.amount is not None or self.amount_unclear


# `prefix_` and a long tail: no shop numbers its orders like that, this product its requests.
_REFERENCE = re.compile(r"(?<![0-9A-Za-z_])[A-Za-z]{1,10}_[0-9A-Za-z]{8,40}(?![0-9A-Za-z_])")
_PREFIX = (
    r"(?:(?<![0-9a-z])(?:ma )?(?:don(?: ?hang(?![0-9a-z]))?(?: ?(?:so|ma)(?![0-9a-z]))?|ma so"
    r"|order(?: ?(?:id|no|number)(?![0-9a-z]))?)(?P<gap>[\s:.]*#?\s?)|(?P<sign>#)\s?)"
)
_NAME = r"(?P<token>[0-9a-z](?:[0-9a-z]|[-_](?=[0-9a-z])){0,39})(?![0-9a-z@])"
_NAMED = re.compile(_PREFIX + _NAME)
# "đơn A 100": a lone capital and its number, torn apart by a space.
_TORN = re.compile(r"((?:[Đđ]ơn|[Dd]on|[Hh]àng|hang|[Oo]rder|#) ?[A-Z]) ([0-9]{2,})(?![0-9A-Za-z])")
_BARE = re.compile(
    r"(?<![0-9a-z@_-])(?P<token>[a-z](?:[0-9a-z]|[-_](?=[0-9a-z])){1,39})(?![0-9a-z@])"
)


def entities_of(text: str) -> Entities:
    """Read one message. What was read as an amount is no longer there to be an id."""
    composed = compose(text)
    references = tuple(match[0] for match in _REFERENCE.finditer(composed))
    composed = _REFERENCE.sub(_blank, composed)
    composed = _TORN.sub(lambda match: match[1] + match[2] + " ", composed)
    found, spans = amounts.find(fold(composed))
    for start, end in spans:
        composed = composed[:start] + " " * (end - start) + composed[end:]
    order_ids, rest = _take_order_ids(composed)
    return Entities(
        order_ids=order_ids,
        references=references,
        amount=found,
        amount_unclear=found is None and amounts.is_unclear(fold(rest)),
        rest=rest,
        words=words_of(fold(rest)),
    )


def as_id(typed: str, known: frozenset[str]) -> str:
    """The id that was meant: as the shop spelt it before, else in capitals if typed all small."""
    if typed in known:
        return typed
    for spelling in sorted(known):
        if spelling.casefold() == typed.casefold():
            return spelling
    return typed.upper() if typed == typed.lower() else typed


def _take_order_ids(composed: str) -> tuple[tuple[str, ...], str]:
    """The ids in the order they stand, and the text without them."""
    hits: dict[int, str] = {}
    for match in _NAMED.finditer(fold(composed)):
        token = composed[match.start("token") : match.end("token")]
        glued = match["sign"] is None and not match["gap"]
        if token.isascii() and _may_be_named(token, glued=glued):
            hits[match.start("token")] = token
    rest = _without(composed, hits)
    for match in _BARE.finditer(fold(rest)):
        token = rest[match.start("token") : match.end("token")]
        if token.isascii() and _looks_like_an_id(token):
            hits[match.start("token")] = token
    return tuple(dict.fromkeys(hits[start] for start in sorted(hits))), _without(composed, hits)


def _without(text: str, hits: dict[int, str]) -> str:
    for start, token in hits.items():
        text = text[:start] + " " * len(token) + text[start + len(token) :]
    return text


def _may_be_named(token: str, *, glued: bool) -> bool:
    """After "đơn" or "#" a few digits are enough; "DON123" is one id and not "đơn 123"."""
    digits = sum(character.isdigit() for character in token)
    if token.isdigit():
        return digits >= 3 and not glued
    if not any(character.isalpha() for character in token):
        return False  # a date
    if glued:
        return re.fullmatch(r"[A-Za-z]{1,3}[-_]?[0-9][0-9A-Za-z_-]*", token) is not None
    return digits >= 1 and not re.fullmatch(r"[0-9]+[a-z]+", token)  # "đơn 3kg"


def _looks_like_an_id(token: str) -> bool:
    """Without "đơn" before it: three digits, or two after a code; "size42" and "ps5" are goods."""
    digits = sum(character.isdigit() for character in token)
    letters = sum(character.isalpha() for character in token)
    is_code = letters <= 3 and ("-" in token or token == token.upper())
    return digits >= 3 or (digits == 2 and is_code)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])

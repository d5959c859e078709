"""What stands in a shop's JSON, read as what it has to be or not at all."""

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import TypeVar
from zoneinfo import ZoneInfo

from support_agent.adapters.orders.http_pointers import Node
from support_agent.adapters.orders.mapped import values
from support_agent.adapters.orders.mapped.values import MoneyReader, Unusable
from support_agent.domain.money import EXPONENTS
from support_agent.domain.orders import Moment

T = TypeVar("T")

_LONGEST_ID = 512
_LONGEST_TEXT = 2_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # no database keeps these
_NANOSECONDS = re.compile(r"(\.[0-9]{6})[0-9]{1,3}")


def identifier(node: Node) -> str:
    """An id as it is; a whole number is one, too."""
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        node.unusable("is null or no id: a text or a whole number")
    if len(value) > _LONGEST_ID or _UNSTORABLE.search(value):
        node.unusable("is no id that can be kept")
    return value


def text(node: Node) -> str:
    """A text for people; what no database keeps is replaced."""
    if not isinstance(node.value, str):
        node.unusable("is null or no text")
    return _UNSTORABLE.sub("\ufffd", node.value[:_LONGEST_TEXT])


def maybe_text(node: Node) -> str | None:
    """As `text`; null stays nothing."""
    return text(node) if node.there else None


def meant(node: Node, words: Mapping[str, T], table: str) -> T:
    """Ours for one of the shop's words; what is not in the map is no guess."""
    told = values.word(node.value)
    found = None if told is None else words.get(told)
    if found is None:
        node.unusable(f"is null, or a word that [{table}] does not have")
    return found


def truth(node: Node) -> bool:
    """True or false, and nothing that only looks like it."""
    if not isinstance(node.value, bool):
        node.unusable("is neither true nor false")
    return node.value


def units(node: Node) -> int:
    """A whole number of pieces; 0 of a line that was cancelled."""
    value = node.value
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        node.unusable("is null or no number of units")
    try:
        return values.count(value)
    except Unusable as error:
        node.unusable(str(error))


def currency(node: Node) -> str:
    """An ISO 4217 code that is known here."""
    value = node.value
    if not isinstance(value, str) or value.upper() not in EXPONENTS:
        node.unusable(f"is none of {', '.join(EXPONENTS)}")
    return value.upper()


def amount(node: Node, code: str, money: MoneyReader) -> int:
    """An amount in minor units, exactly; never negative, never rounded."""
    try:
        minor = money.minor(node.value, code)
    except Unusable as error:
        node.unusable(str(error))
    if minor < 0:
        node.unusable("is below 0")
    return minor


def moment(node: Node, zone: ZoneInfo) -> Moment | None:
    """An instant, or a mere day where the shop tells no hour; None where it tells nothing.

    A time that names no zone is one of `zone`. Of a local time that came twice when clocks were
    put back it is the first; one that they left out counts as if they had not been put.
    """
    if not node.there:
        return None
    value = node.value
    try:
        return values.moment(_told(value), zone)
    except Unusable as error:
        node.unusable(str(error))


def day(node: Node, zone: ZoneInfo) -> date | None:
    """As `moment`, without the hour, which means nothing here."""
    if not node.there:
        return None
    try:
        return values.day(_told(node.value), zone)
    except Unusable as error:
        node.unusable(str(error))


def instant(node: Node, zone: ZoneInfo) -> datetime:
    """As `moment`; of a mere day its first instant in the zone."""
    try:
        return values.instant(_told(node.value), zone)
    except Unusable as error:
        node.unusable(str(error))


def _told(value: object) -> str | None:
    """A text as it is, but for digits that no clock here has."""
    return _NANOSECONDS.sub(r"\1", value) if isinstance(value, str) else None

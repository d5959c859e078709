"""Finds amounts of money in a model's words that no tool told, so that code can set them right."""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from support_agent.domain.money import EXPONENTS
from support_agent.ports.model import CustomerTurn, Recap, ToolResult, Turn

_UNITS = {
    "k": 10**3, "nghìn": 10**3, "nghin": 10**3, "ngàn": 10**3, "ngan": 10**3, "thousand": 10**3,
    "tr": 10**6, "triệu": 10**6, "trieu": 10**6, "million": 10**6,
    "tỷ": 10**9, "tỉ": 10**9, "ty": 10**9, "billion": 10**9,
}  # fmt: skip
# "dong" alone is left out: it is also "dòng", a line of an order.
_CURRENCIES = {
    "₫": "VND", "đ": "VND", "đồng": "VND", "vnđ": "VND",
    "$": "USD", "us$": "USD", "đô": "USD", "dollar": "USD", "dollars": "USD",
    "€": "EUR", "£": "GBP",
} | {currency.lower(): currency for currency in EXPONENTS}  # fmt: skip

_BEFORE = _CURRENCIES.keys() - {"đ", "đồng", "đô"}  # đ100 may be an id


def _any_of(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_NUMBER = re.compile(
    rf"""
    (?: (?<!\w) (?P<before>{_any_of(_BEFORE)}) \s? | (?<![\w.,]) )
    (?P<whole> \d{{1,3}} (?:[.,'’ ]\d{{3}})+ (?!\d) | \d+ ) (?: [.,] (?P<part>\d{{1,2}}) (?!\d) )?
    (?: \s? (?P<unit>{_any_of(_UNITS)}) (?P<tail>\d{{1,3}})? (?!\w) )?
    (?: \s? (?P<after>{_any_of(_CURRENCIES)}) (?!\w) (?!\s+ý\b) )?
    """,
    re.VERBOSE,
)
_SPELT = frozenset(
    """
    một mot hai ba bốn bon tư năm nam lăm sáu sau bảy bay tám tam chín chin mười mươi muoi trăm tram
    chục chuc vài mấy nửa rưỡi one two three four five six seven eight nine ten eleven twelve
    fifteen twenty thirty forty fifty sixty seventy eighty ninety hundred several
    """.split()  # noqa: SIM905 - a list of words reads as one
)
_SPELT_OUT = re.compile(
    rf"\b(?:{_any_of(_SPELT)})\s+(?:{_any_of(_UNITS.keys() - {'k', 'tr', 'ty'})})\b"
)
_DIGITS_OF_MONEY = 5  # a bare number this long may well be an amount
_DONE = r"\b(?:đã|da|vừa|vua|sẽ|se)\s+(?:(?:được|duoc|mới|moi)\s+)?"
# Says that money moved, or will. Goods that are sent, orders that are completed and questions that
# are passed on are no money.
_MOVED = re.compile(
    rf"""
    {_DONE}(?:
      (?:hoàn|hoan)\b(?!\s+(?:thành|thanh|toàn|toan|hảo|hao|tất|tat)\b)
      | (?:hoàn|hoan)\s+(?:thành|thanh|tất|tat)\b[^.!?\n]{{0,20}}
        \b(?:hoàn|hoan|chuyển|chuyen|chi|trả|tra|khoản|khoan)\b
      | (?:chuyển|chuyen)\b(?!\s+(?:hàng|hang|đơn|don|sang|cuộc|cuoc|yêu|yeu|trạng|trang|câu|cau
          |(?:cho|đến|den|tới|toi)\s+(?:nhân\ viên|nhan\ vien|đơn\ vị|don\ vi|bộ\ phận|bo\ phan))\b)
      | (?:trả|tra)\b(?!\s+(?:lời|loi|hàng|hang|cứu|cuu)\b)
      | (?:gửi|gui)\b(?!\s+(?:hàng|hang|đơn|don|kiện|kien|yêu|yeu|lệnh|lenh|cho\ nhân|cho\ đơn)\b)
      | (?:chi|cộng|cong)\b
    )
    | \b(?:hoàn|hoan|chuyển|chuyen|trả|tra)\b[^!?\n]{{0,40}}\b(?:thành\ công|thanh\ cong|xong)\b
    """,
    re.VERBOSE,
)
_PAID = re.compile(rf"{_DONE}(?:thanh\ toán|thanh\ toan)\b")
_TO_THE_CUSTOMER = re.compile(
    r"""\b(?:cho|về|ve|vào|vao|lại|lai)\b(?!\s+(?:đơn|don|cửa|cua|shop|hàng|hang)\b)""", re.VERBOSE
)
_BY_THE_SHOP = re.compile(
    r"""\b(?:mình|minh|tôi|toi|shop|cửa\ hàng|cua\ hang|chúng\ tôi|chung\ toi|bên\ em|ben\ em
    |hệ\ thống|he\ thong)\s*$""",
    re.VERBOSE,
)
# Who pays for an order is the customer.
_BY_THE_CUSTOMER = re.compile(
    r"\b(?:đơn|don|hàng|hang|bạn|ban|khách|khach|trạng thái|trang thai)\b"
)
_MOVED_EN = re.compile(
    r"\b(?:refunded|transferred|credited|reimbursed|paid (?:out|back|you|to you|to your))\b"
)
# "can still be refunded", "has not been refunded yet": possible, wished for or denied.
_NOT_MOVED_EN = re.compile(
    r"""
    \b(?:
      (?:can|could|may|might|cannot|can['’]?t|couldn['’]?t|to|if|whether|not|won['’]?t)
        (?:\ (?!will\b|shall\b|has\b|have\b|was\b|were\b|is\b)\w+){0,2}\ be (?:\ \w+ly)?
      | (?:not|never|hasn['’]?t|isn['’]?t|wasn['’]?t|haven['’]?t|didn['’]?t)
        (?:\ (?:yet|been|be|get|got|\w+ly)){0,2}
      | (?:do|would)\ you\ (?:want|like)\b[^.!?\n]{0,40}
    )\ $
    """,
    re.VERBOSE,
)
_CLAUSE_END = re.compile(r"[.;!?\n](?!\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mention:
    """A number in a text, with each amount in minor units it may stand for."""

    readings: frozenset[int]
    is_money: bool


def needs_note(text: str, turns: Sequence[Turn], *, stands_alone: bool) -> bool:
    """Whether a sentence of the shop has to stand beside these words of a model.

    It has to when they name an amount that neither a tool nor the customer named, or name any and
    say that it was paid while no quote or request is stated by code (`stands_alone`). Where it is
    not plain the answer is yes: the sentence is true in any case.
    """
    text = _plain(text)
    exponents = frozenset(EXPONENTS.values())
    mentions = [m for m in _mentions(text, unnamed=exponents) if m.is_money]
    if _SPELT_OUT.search(text):
        return True
    if not mentions:
        return False
    if stands_alone and _says_it_moved(text):
        return True
    known = _known(turns)
    return any(known.isdisjoint(mention.readings) for mention in mentions)


def _says_it_moved(text: str) -> bool:
    """Whether it says that money went to the customer, or will."""
    if _MOVED.search(text):
        return True
    if any(_is_payout(text, match) for match in _PAID.finditer(text)):
        return True
    return any(
        not _NOT_MOVED_EN.search(text, max(0, match.start() - 60), match.start())
        for match in _MOVED_EN.finditer(text)
    )


def _is_payout(text: str, paid: re.Match[str]) -> bool:
    """Whether "đã thanh toán" speaks of the shop's money, not of an order that was paid for."""
    before = _CLAUSE_END.split(text[: paid.start()])[-1]
    after = _CLAUSE_END.split(text[paid.end() :])[0]
    if _BY_THE_SHOP.search(before) or _TO_THE_CUSTOMER.search(after):
        return True
    return not _BY_THE_CUSTOMER.search(before)


def _known(turns: Iterable[Turn]) -> frozenset[int]:
    """Every number the tools told and the customer wrote."""
    numbers: set[int] = set()
    for turn in turns:
        if isinstance(turn, ToolResult):
            numbers.update(_told(turn.content))
        elif isinstance(turn, CustomerTurn):
            numbers.update(_read(turn.text))
        elif isinstance(turn, Recap):  # the facts are the tools', the summary may be a model's
            numbers.update(_told(turn.facts))
    return frozenset(numbers)


def _told(content: str) -> Iterator[int]:
    try:
        told = [*_numbers_in(json.loads(content))]
    except (ValueError, RecursionError):  # ERROR and a sentence, or nothing a tool tells
        told = [*_read(content)]
    yield from told


def _numbers_in(value: object) -> Iterator[int]:
    match value:
        case bool():
            return
        case int():
            yield value
        case str():
            yield from _read(value)
        case dict():
            for item in value.values():
                yield from _numbers_in(item)
        case list():
            for item in value:
                yield from _numbers_in(item)


def _read(text: str) -> Iterator[int]:
    for mention in _mentions(_plain(text)):
        yield from mention.readings


def _plain(text: str) -> str:
    """Without what makes the same digits look different: widths, invisible characters, case."""
    text = unicodedata.normalize("NFKC", text).lower()
    return "".join(c for c in text if unicodedata.category(c) != "Cf")


def _mentions(text: str, *, unnamed: Collection[int] = (0,)) -> Iterator[_Mention]:
    """The numbers of a text; `unnamed` are the exponents tried where no currency stands."""
    for match in _NUMBER.finditer(text):
        digits = re.sub(r"\D", "", match["whole"])[:18]  # longer is no amount of money
        value = Fraction(f"{digits}.{match['part'] or 0}")
        if match["unit"]:
            tail = Fraction(f"0.{match['tail'] or 0}")  # 2tr5 is two and a half million
            value = (value + tail) * _UNITS[match["unit"]]
        if value == 0:
            continue
        currency = _CURRENCIES.get(match["before"] or match["after"] or "")
        exponents = unnamed if currency is None else (EXPONENTS[currency],)
        amounts = [value * 10**exponent for exponent in exponents]
        grouped = len(digits) != len(match["whole"])
        yield _Mention(
            readings=frozenset(int(a) for a in amounts if a.denominator == 1),
            is_money=bool(currency or match["unit"] or grouped) or len(digits) >= _DIGITS_OF_MONEY,
        )

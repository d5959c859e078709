"""Amounts as Vietnamese and English speakers type them, read into whole minor units."""

import re
from fractions import Fraction

from support_agent.domain.money import EXPONENTS

# Nothing that belongs to an id, a date, a phone number or another number may stand before it,
# except the verb itself: "hoàn50k".
_START = r"(?:(?<![0-9a-z_#])(?<![0-9][.,/:])(?<![0-9a-z]-)|(?<=hoan))(?P<minus>-?)"
_NUMBER = (
    r"(?P<number>[0-9]{1,3}(?:[.,][0-9]{3}){1,5}(?:[.,][0-9]{1,2})?|[0-9]{1,15}(?:[.,][0-9]{1,3})?)"
    r"(?![0-9])(?![.,][0-9])"
)
_WORDS = {
    "mot": 1, "hai": 2, "ba": 3, "bon": 4, "nam": 5, "sau": 6, "bay": 7, "tam": 8, "chin": 9,
    "muoi": 10, "one": 1, "two": 2, "three": 3, "five": 5, "ten": 10,
}  # fmt: skip
_SCALES = {
    "tramnghin": 100_000, "tramngan": 100_000, "tramk": 100_000,
    "chucnghin": 10_000, "chucngan": 10_000,
    "trieu": 1_000_000, "tr": 1_000_000, "million": 1_000_000, "mil": 1_000_000,
    "nghin": 1_000, "ngan": 1_000, "k": 1_000, "thousand": 1_000,
}  # fmt: skip
_CURRENCIES = {code.lower(): code for code in EXPONENTS} | {
    "₫": "VND", "d": "VND", "dong": "VND",
    "$": "USD", "dollar": "USD", "dollars": "USD", "dola": "USD", "€": "EUR", "£": "GBP",
}  # fmt: skip

_ANY_NUMBER = rf"(?:{_NUMBER}|(?P<word>{'|'.join(_WORDS)})(?=\s))"
_SCALED = re.compile(
    rf"{_START}{_ANY_NUMBER}\s?"
    r"(?P<scale>(?:tram|chuc)\s?(?:nghin|ngan|k)|trieu|tr|million|mil|nghin|ngan|k|thousand)"
    r"(?:(?P<half>\s?ruoi)|\s?(?P<thousands>[0-9]{1,3})\s?(?:k|nghin|ngan)"
    r"|(?P<fraction>[0-9]{1,3})|\s(?P<apart>[0-9]{1,3})(?=\s*(?:$|[,.;!?]|dong|vnd|don|cho|cua|nhe)))?"
    r"(?:\s?(?:dong|vnd|d|₫))?(?![0-9a-z])"
)
_SIGN = "|".join(sorted(map(re.escape, (*_CURRENCIES, "do la")), key=len, reverse=True))
_WITH_CURRENCY = re.compile(rf"{_START}{_NUMBER}\s?(?P<currency>{_SIGN})(?![0-9a-z])")
_AFTER_SIGN = re.compile(
    rf"(?P<minus>-?)(?<![0-9a-z])(?P<currency>[$€£]|usd|vnd)\s?{_NUMBER}(?![0-9a-z])"
)
_BARE = re.compile(rf"{_START}{_NUMBER}(?![0-9a-z%/:\-])(?!\s?(?:ngay|thang|nam|days?)\b)")
# "250 000 đ": grouped with spaces, believed only before a currency.
_SPACED = re.compile(
    r"(?<![0-9a-z_#.,-])[0-9]{1,3}(?:[ \u00a0][0-9]{3}){1,4}(?=\s?(?:dong|vnd|d|₫)(?![0-9a-z]))"
)
# A number after these is a day, a year, an order or a telephone.
_NO_AMOUNT_BEFORE = re.compile(
    r"\b(?:ngay|thang|nam|don|don hang|order|ma|so|sdt|hotline|phone|year|day)\s?[:#]?\s?$"
)
# Numbers in words are read one word long: "hai trăm năm mươi nghìn" is left to a question.
_NUMBER_WORD = rf"(?:{'|'.join(_WORDS)}|tram|trieu|nghin|ngan)"
_WORD_BEFORE = re.compile(rf"\b{_NUMBER_WORD}\s$")
_WORD_AFTER = re.compile(rf"\s{_NUMBER_WORD}\b")
_VERB = re.compile(r"\b(?:hoan|refund|tra lai|lay lai|rut)")
# "hoàn 50 đơn A100": fifty what? A placeholder stands for a long number that code masked.
_UNCLEAR = re.compile(
    r"\b(?:trieu|nghin|thousand|million)\b|\b(?:mot nua|phan nua|nua tien|half|phan tram|percent)\b"
    r"|\b(?:mot phan|(?:a |just |only )?part of)\b(?! (?:trong|may|nao))"
    r"|[0-9]\s?%"
    r"|\b(?:hoan|refund|tra lai|lay lai)(?: (?:lai|tien|cho|toi|minh|em|me|back|khoang|about)){0,4}"
    r" ?(?:\[(?:number|id)-[0-9]+\]|-?[0-9][0-9.,e]*"
    r"(?=\s*(?:$|[;!?]|(?:don|order|cho|from|of|for|on|thoi|nhe|di)\b)))"
)


def find(folded: str) -> tuple[int | None, list[tuple[int, int]]]:
    """The amount that is asked for, in minor units, and where every amount stands.

    Of several the one after the verb counts: in "đơn 250k, hoàn 50k" that is 50,000.
    """
    folded = _SPACED.sub(lambda match: re.sub(r"\s", ".", match[0]), folded)
    hits: dict[tuple[int, int], int] = {}
    for pattern, read in ((_SCALED, _scaled), (_AFTER_SIGN, _in_currency),
                          (_WITH_CURRENCY, _in_currency), (_BARE, _bare)):  # fmt: skip
        for match in pattern.finditer(folded):
            free = all(match.end() <= start or match.start() >= end for start, end in hits)
            if free and (minor := read(match)) is not None:
                hits[match.span()] = minor
    spans = sorted(hits)
    if not spans:
        return None, []
    verb = _VERB.search(folded)
    asked = [span for span in spans if verb and span[0] >= verb.start()] or spans
    return hits[asked[0]], spans


def is_unclear(folded: str) -> bool:
    """Whether a part of the money is asked for in a way that does not say how much."""
    return _UNCLEAR.search(folded) is not None


def _scaled(match: re.Match[str]) -> int | None:
    factor = _SCALES["".join(match["scale"].split())]
    value = _value(match) * factor
    longer = _WORD_BEFORE.search(match.string, max(0, match.start() - 8), match.start())
    if longer or _WORD_AFTER.match(match.string, match.end()):
        return None
    if match["half"]:
        value += Fraction(factor, 2)
    elif match["thousands"]:
        value += int(match["thousands"]) * 1_000
    elif digits := match["fraction"] or match["apart"]:
        value += Fraction(int(digits) * factor, 10 ** len(digits))
    return _whole(value, match)


def _in_currency(match: re.Match[str]) -> int | None:
    currency = _CURRENCIES["".join(match["currency"].split())]
    return _whole(_value(match) * 10 ** EXPONENTS[currency], match)


def _bare(match: re.Match[str]) -> int | None:
    """A number without a unit: at least four digits, grouped, or with two decimals."""
    number = match["number"]
    if _NO_AMOUNT_BEFORE.search(match.string, max(0, match.start() - 12), match.start()):
        return None
    if number.isdigit():
        telephone = number.startswith("0") or len(number) > 12
        return None if telephone or len(number) < 4 else _whole(_value(match), match)
    if re.search(r"[.,][0-9]{2}$", number):
        return _whole(_value(match) * 100, match)
    return _whole(_value(match), match) if re.search(r"[.,][0-9]{3}$", number) else None


def _value(match: re.Match[str]) -> Fraction:
    number = match["number"]
    if number is None:
        return Fraction(_WORDS[match["word"]])
    if decimals := re.search(r"[.,]([0-9]{1,2})$", number):
        whole = re.sub(r"[.,]", "", number[: decimals.start()])
        return Fraction(f"{whole}.{decimals[1]}")
    return Fraction(re.sub(r"[.,]", "", number))


def _whole(value: Fraction, match: re.Match[str]) -> int | None:
    """Half a đồng is no amount; a minus stays, so that code refuses it in plain sight."""
    if value.denominator != 1:
        return None
    return -value.numerator if match["minus"] else value.numerator

"""Money as integer minor units; no float ever."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from support_agent.domain.errors import InvalidInput

# ISO 4217 exponents of the currencies a shop may name here. A currency that is not listed is
# refused: guessing two decimals is how a refund of 5,000 VND becomes 500,000.
EXPONENTS = {
    "VND": 0, "JPY": 0, "KRW": 0,
    "USD": 2, "EUR": 2, "GBP": 2, "SGD": 2, "THB": 2, "AUD": 2,
    "KWD": 3, "BHD": 3,
}  # fmt: skip
SYMBOLS = {"VND": "₫"}
NO_BREAK_SPACE = "\u00a0"
# Far above any order, far below where SQLite and PostgreSQL integers or their sums would overflow.
MAX_MINOR = 10**15


@dataclass(frozen=True, slots=True, kw_only=True, order=False)
class Money:
    """An exact amount in one currency; `amount_minor` counts minor units (đồng, cents)."""

    amount_minor: int
    currency: str

    def __post_init__(self) -> None:
        if type(self.amount_minor) is not int:
            raise InvalidInput(
                "amount", f"must be a whole number of minor units, not {self.amount_minor!r}"
            )
        if abs(self.amount_minor) > MAX_MINOR:
            raise InvalidInput("amount", f"is out of range, at most {MAX_MINOR} minor units")
        check_currency(self.currency)

    def __add__(self, other: "Money") -> "Money":
        return Money(
            amount_minor=self.amount_minor + self._same(other).amount_minor, currency=self.currency
        )

    def __sub__(self, other: "Money") -> "Money":
        return Money(
            amount_minor=self.amount_minor - self._same(other).amount_minor, currency=self.currency
        )

    def __lt__(self, other: "Money") -> bool:
        return self.amount_minor < self._same(other).amount_minor

    def __le__(self, other: "Money") -> bool:
        return self.amount_minor <= self._same(other).amount_minor

    def _same(self, other: "Money") -> "Money":
        if other.currency != self.currency:
            raise InvalidInput("currency", f"cannot mix {self.currency} and {other.currency}")
        return other

    def __str__(self) -> str:
        return format_money(self.amount_minor, self.currency)


def format_money(amount_minor: int, currency: str) -> str:
    """`250.000 ₫` (no-break space before the sign), `12,50 USD`: the Vietnamese form everywhere."""
    exponent = EXPONENTS[currency]
    sign = "-" if amount_minor < 0 else ""
    whole, fraction = divmod(abs(amount_minor), minor_units(currency))
    digits = f"{whole:,}".replace(",", ".")
    if exponent:
        digits += f",{fraction:0{exponent}d}"
    return f"{sign}{digits}{NO_BREAK_SPACE}{SYMBOLS.get(currency, currency)}"


def minor_units(currency: str) -> int:
    """How many minor units one major unit has: 1 for VND, 100 for USD, 1000 for KWD."""
    return int(10 ** EXPONENTS[currency])


_PLAIN = re.compile(r"[0-9]+")
# No group of thousands starts with 0: 0.250 is a quarter of something and never 250.
_GROUPED = re.compile(r"[1-9][0-9]{0,2}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*")
_LONGEST_AMOUNT = 24  # digits and separators of MAX_MINOR, and Python will not parse 5,000 digits


def check_currency(currency: str) -> str:
    """The currency, when it is one that is known here.

    Raises:
        InvalidInput: with those that are.
    """
    if currency not in EXPONENTS:
        known = ", ".join(EXPONENTS)
        raise InvalidInput("currency", f"{currency!r} is not known; known are {known}")
    return currency


def parse_amount(text: str, currency: str) -> int:
    """Minor units of an amount typed by a person: `250000`, `250.000`, `250,000`; `12.50` in USD.

    A separator means one thing per currency: groups of thousands where there are no decimals, so
    that `17,000` VND is 17000 and never 17; else the decimals, all of them, so that `10.555` USD
    is refused and never 10555.

    Raises:
        InvalidInput: anything else; the message has an example in the currency.
    """
    exponent = EXPONENTS[check_currency(currency)]
    text = text.strip()
    minor = _parsed(text, exponent) if len(text) <= _LONGEST_AMOUNT else None
    if minor is None or minor > MAX_MINOR:
        shown = text[:_LONGEST_AMOUNT]
        example = f"12.{'500'[:exponent]}" if exponent else "250000"
        raise InvalidInput(
            "amount", f"{shown!r} is not an amount in {currency}; write it like {example}"
        )
    return minor


def _parsed(text: str, exponent: int) -> int | None:
    if _PLAIN.fullmatch(text):
        return int(text) * int(10**exponent)
    separated = rf"[0-9]+[.,][0-9]{{{exponent}}}" if exponent else _GROUPED
    return int(re.sub(r"[.,]", "", text)) if re.fullmatch(separated, text) else None


def line_part(*, line_total: int, quantity: int, done: int, units: int) -> int:
    """What `units` more units of a line cost once `done` were given back, in minor units.

    `floor(line_total * (done + units) / quantity)` is what may be gone after it; the caller takes
    off what is gone already, so that 1 + 1 + 1 units never add up to more than the line.
    """
    return line_total * (done + units) // quantity


def spread(amount: int, rooms: Sequence[int]) -> list[int]:
    """Spread an amount over lines in proportion to their rooms, by largest remainder.

    The parts add up to `amount` exactly and none exceeds its room; a line that gave back more than
    it cost has none.

    Raises:
        InvalidInput: the rooms together are smaller than the amount.
    """
    rooms = [max(room, 0) for room in rooms]
    total = sum(rooms)
    if amount > total or amount < 0:
        raise InvalidInput("amount", f"{amount} does not fit into {total}")
    if total == 0:
        return [0 for _ in rooms]
    parts = [amount * room // total for room in rooms]
    remainders = [amount * room % total for room in rooms]
    # Ties go to the earlier line, so the same order always spreads the same way.
    order = sorted(range(len(rooms)), key=lambda i: (-remainders[i], i))
    for i in order[: amount - sum(parts)]:
        parts[i] += 1
    return parts

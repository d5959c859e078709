"""Single values of a foreign database, read exactly or not at all."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from support_agent.domain.money import EXPONENTS, MAX_MINOR
from support_agent.domain.orders import Moment

MOST_UNITS = 1_000_000  # of one line
_MOST_DIGITS = 60  # of an amount, with the zeros that a NUMERIC may have behind its point
_MOST_SHOWN = 2_000  # characters
_AMOUNT = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,20})?", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r" ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?",
    re.ASCII,
)


class Unusable(Exception):
    """A value that may not be guessed. The words name columns, and no customer's data."""


def key(value: object) -> str | None:
    """An id as text, to the byte; None for what is no id."""
    match value:
        case bool() | None:
            return None
        case str():
            return value if value and "\0" not in value else None
        case int() | UUID():
            return str(value)
        case Decimal() if value.is_finite() and abs(value.adjusted()) < _MOST_DIGITS:
            return f"{value:f}".partition(".")[0] if value == int(value) else None
        case _:
            return None


def word(value: object) -> str | None:
    """A word of a closed list as the map spells it: numbers in digits, `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return key(value)


def text(value: object) -> str:
    """A text, or a number as it stands.

    Raises:
        Unusable: NULL, or no text that we could store.
    """
    told = value if isinstance(value, str) else key(value)
    if told is None or "\0" in told:
        raise Unusable("is NULL or no text")
    return told


def shown(value: object) -> str:
    """As `text`, for what is only ever shown: the beginning of it is enough."""
    return text(value)[:_MOST_SHOWN]


def flag(value: object) -> bool:
    """True and false, or 1 and 0 where a database has no others.

    Raises:
        Unusable: NULL, or anything else.
    """
    if isinstance(value, int) and value in {0, 1}:
        return bool(value)
    raise Unusable("is NULL, or neither true nor false (nor 1 or 0)")


def count(value: object) -> int:
    """A whole number from 0.

    Raises:
        Unusable: NULL, a part of a unit, below 0 or past all sense.
    """
    number = _whole(value)
    if number is None:
        raise Unusable("is NULL or no whole number")
    if not 0 <= number <= MOST_UNITS:
        raise Unusable(f"is below 0 or above {MOST_UNITS}")
    return number


def _whole(value: object) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, float | Decimal):
        return None
    number = Decimal(value)
    # Of what is past all sense nothing is worked out: 1e999999 has a million digits, and what has
    # more cannot even be compared.
    if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
        return None
    if abs(number) > MOST_UNITS or number != int(number):
        return None
    return int(number)


@dataclass(frozen=True, slots=True)
class MoneyReader:
    """Amounts as whole minor units; nothing is ever rounded."""

    unit: str
    scale: int | None

    def minor(self, value: object, currency: str) -> int:
        """Minor units of the currency.

        Raises:
            Unusable: NULL, no number, not finite, or not exact in minor units.
        """
        digits, exponent = _decimal(value)
        decimals = EXPONENTS[currency]
        scale = decimals if self.scale is None else self.scale
        if self.unit == "minor":
            whole = _shifted(digits, exponent, 0)
            amount = None if whole is None else _shifted(whole, 0, decimals - scale)
        else:
            # More decimals than the shop writes are as wrong as more than the currency has.
            in_scale = _shifted(digits, exponent, scale) is not None
            amount = _shifted(digits, exponent, decimals) if in_scale else None
        if amount is None:
            raise Unusable(f"is not exact in the smallest unit of {currency}")
        if abs(amount) > MAX_MINOR:
            raise Unusable("is out of range")
        return amount


def _decimal(value: object) -> tuple[int, int]:
    """A number as digits and a power of ten, so that nothing rounds on the way."""
    match value:
        case bool() | None:
            raise Unusable("is NULL or no number")
        case int():
            return value, 0
        case Decimal():
            number = value
        case float():
            # SQLite has no decimals: what was written as 12.5 into a NUMERIC column comes as the
            # nearest double, and its shortest spelling is what was written.
            number = Decimal(repr(value))
        case str() if _AMOUNT.fullmatch(value):
            number = Decimal(value)
        case _:
            raise Unusable("is no number; a text must be digits, with a point for decimals")
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise Unusable("is not a finite number")
    if len(digits) > _MOST_DIGITS or abs(exponent) > _MOST_DIGITS:
        raise Unusable("is out of range")
    whole = int("".join(map(str, digits)) or "0")
    return -whole if sign else whole, exponent


def _shifted(digits: int, exponent: int, places: int) -> int | None:
    """The number times a power of ten, when that is whole."""
    power = exponent + places
    if power >= 0:
        return digits * int(10**power)
    whole, rest = divmod(digits, int(10**-power))
    return None if rest else whole


def moment(value: object, zone: ZoneInfo) -> Moment:
    """An instant, or a day where there is no hour; a time without a zone is the shop's own.

    Of an hour that a clock change repeats it is the first; one that it leaves out counts as if the
    clock had not been changed.

    Raises:
        Unusable: NULL, or no date that a calendar has.
    """
    try:
        match value:
            case datetime():
                return _instant(value, zone)
            case date():
                return value
            case str() if _DAY.fullmatch(value):
                return date.fromisoformat(value)
            case str() if _TIME.fullmatch(value):
                return _instant(datetime.fromisoformat(value.replace(" +", "+")), zone)
            case _:
                raise Unusable(
                    "is NULL or no date and time; a text must be like 2026-10-01 09:30:00"
                )
    except (ValueError, OverflowError) as error:
        raise Unusable("is no date that the calendar has") from error


def _instant(value: datetime, zone: ZoneInfo) -> datetime:
    known = value if value.tzinfo is not None else value.replace(tzinfo=zone)
    return known.astimezone(UTC)


def instant(value: object, zone: ZoneInfo) -> datetime:
    """As `moment`; a mere day counts from its beginning."""
    told = moment(value, zone)
    return told if isinstance(told, datetime) else _instant(datetime.combine(told, time()), zone)


def day(value: object, zone: ZoneInfo) -> date:
    """As `moment`, without the hour: that of a time without a zone means nothing."""
    told = moment(value, zone)
    return told.astimezone(zone).date() if isinstance(told, datetime) else told

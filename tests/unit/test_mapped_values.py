"""Single values of a shop's own database: exact, or not used at all."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from support_agent.adapters.orders.mapped import values
from support_agent.adapters.orders.mapped.values import MoneyReader, Unusable
from support_agent.domain.money import MAX_MINOR

VIETNAM = ZoneInfo("Asia/Ho_Chi_Minh")
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("unit", "scale", "value", "currency", "minor"),
    [
        ("major", None, 250_000, "VND", 250_000),
        ("major", None, Decimal("250000.00"), "VND", 250_000),
        ("major", None, Decimal("250000.00000000000000000000"), "VND", 250_000),
        ("major", None, Decimal("12.99"), "USD", 1_299),
        ("major", None, 12.99, "USD", 1_299),  # as SQLite hands over NUMERIC
        ("major", None, "12.5", "USD", 1_250),
        ("major", None, "-3.10", "USD", -310),
        ("major", None, Decimal("1.001"), "KWD", 1_001),
        ("major", None, Decimal("2.5E+5"), "VND", 250_000),
        ("major", 2, Decimal("1.10"), "KWD", 1_100),
        ("minor", None, 250_000, "VND", 250_000),
        ("minor", None, 1_299, "USD", 1_299),
        ("minor", None, Decimal("1299.0"), "USD", 1_299),
        ("minor", 2, 25_000_000, "VND", 250_000),  # a shop that writes dong in hundredths
        ("minor", 2, 110, "KWD", 1_100),
        ("major", None, 0, "VND", 0),
        ("major", None, MAX_MINOR, "VND", MAX_MINOR),
    ],
)
def test_exact_amounts_are_read(unit, scale, value, currency, minor):
    assert MoneyReader(unit, scale).minor(value, currency) == minor


@pytest.mark.parametrize(
    ("unit", "scale", "value", "currency"),
    [
        ("major", None, Decimal("100.005"), "USD"),
        ("major", None, Decimal("0.5"), "VND"),
        ("major", None, 0.1 + 0.2, "USD"),
        ("major", 2, Decimal("1.001"), "KWD"),  # more decimals than the shop writes
        ("minor", None, Decimal("12.99"), "USD"),
        ("minor", 2, 25_000_001, "VND"),
        ("major", None, Decimal("NaN"), "USD"),
        ("major", None, Decimal("Infinity"), "USD"),
        ("major", None, float("nan"), "USD"),
        ("major", None, float("inf"), "USD"),
        ("major", None, None, "USD"),
        ("major", None, True, "USD"),
        ("major", None, "1,5", "USD"),
        ("major", None, "250.000 ₫", "VND"),
        ("major", None, "١٢", "VND"),
        ("major", None, "", "VND"),
        ("major", None, b"12", "VND"),
        ("major", None, MAX_MINOR + 1, "VND"),
        ("major", None, Decimal("1E+999999"), "VND"),
        ("major", None, Decimal("1E-999999"), "VND"),
        ("major", None, Decimal("1" * 100), "VND"),
    ],
)
def test_an_amount_that_is_not_exact_is_none(unit, scale, value, currency):
    with pytest.raises(Unusable):
        MoneyReader(unit, scale).minor(value, currency)


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-10-01 09:30:00", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
        ("2026-10-01T09:30", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
        ("2026-10-01T09:30:00Z", datetime(2026, 10, 1, 9, 30, tzinfo=UTC)),
        ("2026-10-01 09:30:00+07", datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),
        ("2026-10-01 09:30:00.5 +07:00", datetime(2026, 10, 1, 2, 30, 0, 500_000, tzinfo=UTC)),
        (datetime(2026, 10, 1, 9, 30), datetime(2026, 10, 1, 2, 30, tzinfo=UTC)),  # noqa: DTZ001
        (
            datetime(2026, 10, 1, 9, 30, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 10, 1, 7, 30, tzinfo=UTC),
        ),
        ("2026-10-01", date(2026, 10, 1)),
        (date(2026, 10, 1), date(2026, 10, 1)),
    ],
)
def test_a_time_without_a_zone_is_the_shops_and_a_day_stays_a_day(value, moment):
    found = values.moment(value, VIETNAM)

    assert (found, type(found)) == (moment, type(moment))


@pytest.mark.parametrize(
    "value",
    [
        *("", "hôm qua", "01/10/2026", "20261001", "2026-W40-4", "2026-13-01", "0000-00-00"),
        *("2026-02-30", "2026-10-01 25:00:00", "2026-10-01 09:30:00 PM", "0001-01-01 00:00:00"),
        *(None, 1_790_000_000, 1.5, True, b"2026-10-01"),
    ],
)
def test_a_time_that_is_none_is_not_guessed(value):
    with pytest.raises(Unusable):
        values.moment(value, VIETNAM)


def test_an_hour_that_comes_twice_is_the_first_and_one_left_out_counts_as_if_it_were():
    twice = values.moment("2026-10-25 02:30:00", BERLIN)
    left_out = values.moment("2026-03-29 02:30:00", BERLIN)

    assert twice == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert left_out == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def test_a_day_is_taken_where_the_hour_means_nothing():
    assert values.day("2026-10-01 00:00:00", VIETNAM) == date(2026, 10, 1)
    assert values.day("2026-09-30T17:00:00Z", VIETNAM) == date(2026, 10, 1)
    assert values.instant("2026-10-01", VIETNAM) == datetime(2026, 9, 30, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("A100", "A100"),
        (" A100 ", " A100 "),
        (1042, "1042"),
        (Decimal("1042.00"), "1042"),
        (UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        *((nothing, None) for nothing in (None, "", "A\0", True, 1.0, b"A100", Decimal("1.5"))),
        *((nothing, None) for nothing in (Decimal("NaN"), Decimal("1E+999999"))),
    ],
)
def test_ids_are_opaque(value, key):
    assert values.key(value) == key


@pytest.mark.parametrize(
    ("value", "word"), [(True, "true"), (False, "false"), (3, "3"), ("Xong", "Xong"), (None, None)]
)
def test_words_may_be_numbers_and_truths(value, word):
    assert values.word(value) == word


@pytest.mark.parametrize(("value", "number"), [(0, 0), (3, 3), (Decimal("2.000"), 2), (4.0, 4)])
def test_whole_units_are_counted(value, number):
    assert values.count(value) == number


@pytest.mark.parametrize(
    "value", [None, True, "3", 1.5, -1, Decimal("0.5"), 10**7, float("nan"), Decimal("1E+999999")]
)
def test_anything_else_is_no_count(value):
    with pytest.raises(Unusable):
        values.count(value)


@pytest.mark.parametrize("value", [None, 2, -1, "true", "t", 1.0, ""])
def test_only_true_and_false_or_1_and_0_are_answers(value):
    assert (values.flag(1), values.flag(value=False)) == (True, False)
    with pytest.raises(Unusable):
        values.flag(value)

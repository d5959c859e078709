"""Money: exact minor units, amounts as people type them, parts that add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.errors import InvalidInput
from support_agent.domain.money import (
    EXPONENTS,
    MAX_MINOR,
    Money,
    format_money,
    line_part,
    parse_amount,
    spread,
)


def vnd(amount: int) -> Money:
    return Money(amount_minor=amount, currency="VND")


@pytest.mark.parametrize(("currency", "exponent"), [("VND", 0), ("USD", 2), ("KWD", 3)])
def test_each_currency_has_its_own_exponent(currency, exponent):
    assert EXPONENTS[currency] == exponent


@pytest.mark.parametrize(
    ("amount", "currency", "shown"),
    [
        (250_000, "VND", "250.000\u00a0₫"),
        (0, "VND", "0\u00a0₫"),
        (999, "VND", "999\u00a0₫"),
        (-1_250_000, "VND", "-1.250.000\u00a0₫"),
        (1_250, "USD", "12,50\u00a0USD"),
        (5, "USD", "0,05\u00a0USD"),
        (123_456_789, "USD", "1.234.567,89\u00a0USD"),
        (1_250, "KWD", "1,250\u00a0KWD"),
        (5_800, "JPY", "5.800\u00a0JPY"),
    ],
)
def test_an_amount_is_shown_in_the_vietnamese_form(amount, currency, shown):
    assert format_money(amount, currency) == shown
    assert str(Money(amount_minor=amount, currency=currency)) == shown


@pytest.mark.parametrize(
    ("typed", "currency", "minor"),
    [
        ("250000", "VND", 250_000),
        ("250.000", "VND", 250_000),
        ("250,000", "VND", 250_000),
        ("17,000", "VND", 17_000),
        ("1.234.567", "VND", 1_234_567),
        ("  5000 ", "VND", 5_000),
        ("0", "VND", 0),
        ("5800", "JPY", 5_800),
        ("12.50", "USD", 1_250),
        ("12,50", "USD", 1_250),
        ("0.05", "USD", 5),
        ("12", "USD", 1_200),
        ("1250,50", "USD", 125_050),
        ("12", "KWD", 12_000),
        ("0.250", "KWD", 250),
        ("1.250", "KWD", 1_250),
        ("10,555", "KWD", 10_555),
        ("1250.500", "KWD", 1_250_500),
        (str(MAX_MINOR), "VND", MAX_MINOR),
    ],
)
def test_an_amount_is_read_as_a_person_means_it(typed, currency, minor):
    assert parse_amount(typed, currency) == minor


@pytest.mark.parametrize(
    ("typed", "currency"),
    [
        ("", "VND"),
        (" ", "VND"),
        ("-5", "VND"),
        ("+5", "VND"),
        ("abc", "VND"),
        ("1e9", "VND"),
        ("250k", "VND"),
        ("250,5", "VND"),
        ("250.00", "VND"),
        ("12.50", "VND"),
        ("0.250", "VND"),  # a quarter, never 250
        ("0.250", "USD"),
        ("1.000,000", "VND"),
        ("1.000.00", "VND"),
        ("1 000", "VND"),
        ("1_000", "VND"),
        ("12.5", "USD"),
        ("1,250.50", "USD"),
        ("1,250", "USD"),  # 1,250 dollars, or one and a quarter
        ("10.555", "USD"),
        ("1.234.567", "USD"),
        ("1.234.567", "KWD"),
        ("1.25", "KWD"),
        (".50", "USD"),
        ("12.", "USD"),
        ("inf", "USD"),
        ("0x10", "VND"),
        ("２５００", "VND"),  # full-width digits
        ("٢٥٠", "VND"),  # Arabic digits
        (str(MAX_MINOR + 1), "VND"),
        (str(MAX_MINOR), "USD"),
        ("9" * 5_000, "VND"),
        ("True", "VND"),
    ],
)
def test_an_amount_that_could_mean_something_else_is_refused(typed, currency):
    with pytest.raises(InvalidInput) as refused:
        parse_amount(typed, currency)
    assert refused.value.field == "amount"
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("currency", "example"), [("VND", "250000"), ("USD", "12.50"), ("KWD", "12.500")]
)
def test_a_refused_amount_is_answered_with_one_that_is_read(currency, example):
    with pytest.raises(InvalidInput, match=rf"write it like {example}$"):
        parse_amount("1,2", currency)

    assert parse_amount(example, currency) > 0


def test_an_amount_in_an_unknown_currency_is_refused_and_the_known_ones_are_named():
    with pytest.raises(InvalidInput, match="VND"):
        parse_amount("5", "XYZ")
    with pytest.raises(InvalidInput, match="VND"):
        Money(amount_minor=5, currency="XYZ")


@given(minor=st.integers(0, MAX_MINOR), currency=st.sampled_from(sorted(EXPONENTS)))
def test_what_is_typed_with_a_decimal_point_is_what_is_shown(minor, currency):
    whole, fraction = divmod(minor, 10 ** EXPONENTS[currency])
    exponent = EXPONENTS[currency]
    typed = f"{whole}.{fraction:0{exponent}d}" if exponent else str(whole)
    assert parse_amount(typed, currency) == minor


def test_money_of_one_currency_adds_subtracts_and_compares():
    assert vnd(2) + vnd(3) == vnd(5)
    assert vnd(2) - vnd(3) == vnd(-1)
    assert vnd(2) < vnd(3)
    assert vnd(3) <= vnd(3)
    assert vnd(3) > vnd(2)
    assert vnd(3) >= vnd(3)


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a < b,
        lambda a, b: a <= b,
        lambda a, b: a > b,
        lambda a, b: a >= b,
    ],
)
def test_two_currencies_do_not_mix(mix):
    with pytest.raises(InvalidInput, match="cannot mix"):
        mix(vnd(1), Money(amount_minor=1, currency="USD"))


def test_the_same_number_in_two_currencies_is_not_equal():
    assert vnd(1) != Money(amount_minor=1, currency="JPY")


@pytest.mark.parametrize("amount", [True, 1.0, 250.5, "250000", None])
def test_only_a_whole_number_is_an_amount(amount):
    with pytest.raises(InvalidInput, match="whole number"):
        Money(amount_minor=amount, currency="VND")


@pytest.mark.parametrize(
    "amount", [MAX_MINOR + 1, -MAX_MINOR - 1, pytest.param(10**5_000, id="unprintable")]
)
def test_an_amount_out_of_range_is_refused(amount):
    with pytest.raises(InvalidInput, match="out of range"):
        vnd(amount)


def test_a_sum_out_of_range_is_refused():
    with pytest.raises(InvalidInput, match="out of range"):
        vnd(MAX_MINOR) + vnd(1)


amounts_and_rooms = st.lists(st.integers(0, 10**9), max_size=12).flatmap(
    lambda rooms: st.tuples(st.integers(0, sum(rooms)), st.just(rooms))
)


@given(amounts_and_rooms)
def test_a_spread_amount_adds_up_exactly_and_no_part_exceeds_its_room(case):
    amount, rooms = case

    parts = spread(amount, rooms)

    assert sum(parts) == amount
    assert all(0 <= part <= room for part, room in zip(parts, rooms, strict=True))
    # Largest remainder: each part is its exact share, rounded one way or the other.
    total = sum(rooms)
    assert all(
        abs(part * total - amount * room) < max(total, 1)
        for part, room in zip(parts, rooms, strict=True)
    )


@pytest.mark.parametrize(
    ("amount", "rooms", "parts"),
    [
        (100, [1, 1, 1], None),  # does not fit
        (1, [1, 1, 1], [1, 0, 0]),
        (2, [1, 1, 1], [1, 1, 0]),
        (10_000, [60_000, 40_000], [6_000, 4_000]),
        (100, [50, 30, 20], [50, 30, 20]),
        (10, [33, 33, 34], [3, 3, 4]),
        (0, [5, 5], [0, 0]),
        (0, [], []),
        (5, [-5, 10], [0, 5]),  # a line that gave back more than it cost has no room
        (6, [-5, 5], None),
        (-1, [5], None),
    ],
)
def test_spreading_goes_by_largest_remainder_and_ties_to_the_earlier_line(amount, rooms, parts):
    if parts is None:
        with pytest.raises(InvalidInput):
            spread(amount, rooms)
    else:
        assert spread(amount, rooms) == parts


def returned_one_by_one(line_total: int, quantity: int) -> list[int]:
    """What each of `quantity` returns of one unit pays."""
    paid: list[int] = []
    for done in range(quantity):
        may_be_gone = line_part(line_total=line_total, quantity=quantity, done=done, units=1)
        paid.append(may_be_gone - sum(paid))
    return paid


def test_a_line_of_three_for_100_is_paid_back_as_33_33_34():
    assert returned_one_by_one(100, 3) == [33, 33, 34]


@given(line_total=st.integers(0, 10**12), quantity=st.integers(1, 60))
def test_units_returned_one_by_one_pay_the_line_and_no_more(line_total, quantity):
    paid = returned_one_by_one(line_total, quantity)

    assert sum(paid) == line_total
    assert max(paid) - min(paid) <= 1


def test_both_units_at_once_pay_what_they_pay_one_by_one():
    assert line_part(line_total=100_001, quantity=2, done=0, units=2) == 100_001
    assert returned_one_by_one(100_001, 2) == [50_000, 50_001]


def test_an_order_wide_discount_is_part_of_what_an_item_gives_back():
    discount = spread(10_000, [60_000, 40_000])
    totals = [60_000 - discount[0], 40_000 - discount[1]]

    assert line_part(line_total=totals[0], quantity=1, done=0, units=1) == 54_000
    assert line_part(line_total=totals[1], quantity=1, done=0, units=1) == 36_000

"""Which lines and which payment a wish comes to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.allocation import (
    Wish,
    allocate,
    still_fits,
)
from support_agent.domain.assessment import assess
from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.policy import LineBalance, OrderBooks, PaymentBalance
from support_agent.domain.refunds import RefundLine
from support_agent.domain.tenders import destination_of, payment_with_room
from support_agent.testing.builders import NOW, make_line, make_order, make_payment
from tests.heart import sample_shop

POLICY = sample_shop().policy


def order_of(*totals: tuple[int, int]):
    """An order of lines with a total and a quantity each, paid at once."""
    lines = tuple(
        replace(
            make_line(str(number), 0, 1),
            quantity=quantity,
            unit_price_minor=total,
            discount_minor=total * quantity - total,
        )
        for number, (total, quantity) in enumerate(totals, start=1)
    )
    return make_order(lines, (make_payment("P1", sum(total for total, _ in totals)),))


def allocated(wish: Wish, order, books: OrderBooks = OrderBooks()):  # noqa: B008 - frozen
    return allocate(wish, assess(order, books, POLICY, NOW)).lines


def after(order, books: OrderBooks, lines) -> OrderBooks:
    """The books once the lines are reserved."""
    balances = {balance.line_id: balance for balance in books.lines}
    for line in order.lines:
        balances.setdefault(
            line.id,
            LineBalance(line_id=line.id, total_minor=line.total_minor, quantity=line.quantity),
        )
    for part in lines:
        old = balances[part.line_id]
        balances[part.line_id] = replace(
            old,
            reserved_minor=old.reserved_minor + part.amount_minor,
            units_taken=old.units_taken + part.units,
        )
    taken = sum(balance.reserved_minor for balance in balances.values())
    captured = order.payments[0].captured_minor
    payment = PaymentBalance(payment_id="P1", captured_minor=captured, reserved_minor=taken)
    return OrderBooks(lines=tuple(balances.values()), payments=(payment,))


sizes = st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 7)), min_size=1, max_size=4)


@given(sizes)
def test_all_of_it_is_every_line_in_full(totals):
    order = order_of(*totals)

    lines = allocated(Wish(), order)

    assert [line.amount_minor for line in lines] == [total for total, _ in totals]


@given(sizes, st.data())
def test_an_amount_is_spread_exactly_and_over_no_line(totals, data):
    order = order_of(*totals)
    amount = data.draw(st.integers(1, order.total_minor))

    lines = allocated(Wish(amount_minor=amount), order)

    rooms = {line.id: line.total_minor for line in order.lines}
    assert sum(line.amount_minor for line in lines) == amount
    assert all(0 < line.amount_minor <= rooms[line.line_id] for line in lines)


@given(st.integers(1, 10**6), st.integers(1, 9))
def test_units_one_by_one_add_up_to_the_line_and_not_a_dong_more(total, quantity):
    order, books, paid = order_of((total, quantity)), OrderBooks(), 0
    for _ in range(quantity):
        try:
            lines = allocated(Wish(units={"1": 1}), order, books)
        except RefundRefused:  # a unit whose part is nothing: 1 dong for seven units
            assert total < quantity
            return
        paid += sum(line.amount_minor for line in lines)
        books = after(order, books, lines)

    assert paid == total
    with pytest.raises(RefundRefused):
        allocated(Wish(units={"1": 1}), order, books)


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (Wish(amount_minor=0), "AMOUNT_INVALID"),
        (Wish(amount_minor=-1), "AMOUNT_INVALID"),
        (Wish(amount_minor=1_001), "AMOUNT_TOO_HIGH"),
        (Wish(units={}), "LINE_UNKNOWN"),
        (Wish(units={"9": 1}), "LINE_UNKNOWN"),
        (Wish(units={"1": 0}), "QUANTITY_INVALID"),
        (Wish(units={"1": -1}), "QUANTITY_INVALID"),
        (Wish(units={"1": 3}), "QUANTITY_TOO_HIGH"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(wish: Wish, code: str):
    with pytest.raises(RefundRefused, match=code):
        allocated(wish, order_of((1_000, 2)))


def test_lines_and_an_amount_together_are_refused():
    with pytest.raises(InvalidInput, match="amount"):
        allocated(Wish(units={"1": 1}, amount_minor=1), order_of((1_000, 2)))


def test_money_given_back_before_lowers_what_the_units_come_to():
    order = order_of((1_000, 2))
    books = after(order, OrderBooks(), allocated(Wish(amount_minor=700), order))

    (line,) = allocated(Wish(units={"1": 2}), order, books)

    assert line.amount_minor == 300


class TestPayments:
    ORDER = make_order((make_line("1", 1_000),), (make_payment("P1", 400), make_payment("P2", 600)))

    @pytest.mark.parametrize(
        "balance",
        [
            {"reserved_minor": 1},
            {"refunded_minor": 1},
            {"charged_back_minor": 1},
            {"disputed": True},
            {"frozen": True},
        ],
    )
    def test_what_is_taken_disputed_or_frozen_has_no_room(self, balance):
        books = OrderBooks(
            payments=(PaymentBalance(payment_id="P1", captured_minor=400, **balance),)
        )

        assert payment_with_room(self.ORDER, books, "P1", 400) is None

    def test_a_payment_that_is_gone_has_no_room(self):
        assert payment_with_room(self.ORDER, OrderBooks(), "P3", 1) is None

    def test_money_goes_back_to_where_it_came_from(self):
        assert destination_of(self.ORDER.payments[0]) == "ledger:shop:A1-P1"


class TestStillFits:
    def test_what_was_allocated_fits_as_long_as_nothing_was_taken(self):
        order = order_of((1_000, 2), (500, 1))
        lines = allocated(Wish(units={"1": 2}), order)

        assert still_fits(lines, assess(order, OrderBooks(), POLICY, NOW))

    @pytest.mark.parametrize("wish", [Wish(amount_minor=1), Wish(units={"1": 1})])
    def test_it_does_not_once_something_of_it_was(self, wish: Wish):
        order = order_of((1_000, 2))
        lines = allocated(Wish(), order)
        books = after(order, OrderBooks(), allocated(wish, order))

        assert not still_fits(lines, assess(order, books, POLICY, NOW))

    def test_a_line_that_is_gone_fits_nothing(self):
        lines = allocated(Wish(), order_of((1_000, 1), (1, 1)))
        shorter = order_of((1_001, 1))

        assert not still_fits(lines, assess(shorter, OrderBooks(), POLICY, NOW))

    def test_more_than_a_line_has_left_does_not_though_the_order_has_it(self):
        order = order_of((1_000, 1), (1_000, 1))

        for amount, fits in ((1_000, True), (1_001, False)):
            part = RefundLine(line_id="1", units=0, amount_minor=amount)
            assert still_fits([part], assess(order, OrderBooks(), POLICY, NOW)) is fits

    def test_more_than_the_payments_have_left_does_not_though_the_lines_have_it(self):
        """Something was refunded outside, on no line."""
        order = order_of((1_000, 1))
        lines = allocated(Wish(), order)
        outside = PaymentBalance(payment_id="P1", captured_minor=1_000, refunded_minor=1)
        books = OrderBooks(payments=(outside,))

        assert not still_fits(lines, assess(order, books, POLICY, NOW))

"""Received quantity: no more is refunded than came back, where the policy asks for that."""

from dataclasses import replace

import pytest

from support_agent.domain.allocation import Wish, still_fits
from support_agent.domain.errors import RefundRefused
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine
from tests.rule_cases import (
    COUNTED,
    NO_BOOKS,
    PLAIN,
    after,
    asked,
    goods,
    judged,
    paid,
    parts,
    units,
)

E, P, I, N = Verdict.ELIGIBLE, Verdict.PARTIAL, Verdict.INELIGIBLE, Verdict.NEEDS_REVIEW  # noqa: E741 - columns of a table
R = Reason


def three(received, total: int = 100_000):
    """Three units of one line that cost 100,000 together: a third is no whole amount."""
    price = -(-total // 3)
    line = goods("a", price, 3, discount=price * 3 - total, received_units=received)
    return paid(line)


# Each: how many came back, and verdict, reasons, units and amount they leave.
CASES = [
    (0, I, (R.RETURN_NOT_RECEIVED,), 0, 0),
    (1, E, (R.WITHIN_WINDOW,), 1, 33_333),
    (2, E, (R.WITHIN_WINDOW,), 2, 66_666),
    (3, E, (R.WITHIN_WINDOW,), 3, 100_000),
    (4, E, (R.WITHIN_WINDOW,), 3, 100_000),  # more than was sold: never more than that
    (None, N, (R.RETURN_NOT_COUNTED,), 3, 100_000),
]


@pytest.mark.parametrize(("received", "verdict", "reasons", "left", "most"), CASES)
def test_what_came_back_bounds_what_may_be_asked_for(received, verdict, reasons, left, most):
    order = three(received)
    found = judged(order, COUNTED)
    (line,) = found.lines

    assert (found.verdict, found.reasons) == (verdict, reasons)
    assert (line.reasons, line.refundable_minor) == (reasons, most)
    assert found.max_refundable_minor == most
    if most:
        assert line.units_left == left
        assert parts(asked(Wish(), order, COUNTED)) == [("a", left, most)]


@pytest.mark.parametrize("received", [0, 1, 2, 3, None])
def test_it_says_nothing_under_a_policy_that_does_not_ask(received):
    found = judged(three(received), PLAIN)

    assert (found.verdict, found.max_refundable_minor) == (E, 100_000)


REFUSED = {
    "one more than came back": (three(2), units(a=3), "QUANTITY_TOO_HIGH"),
    "one dong more than two thirds": (three(2), Wish(amount_minor=66_667), "AMOUNT_TOO_HIGH"),
    "one of none": (three(0), units(a=1), "RETURN_NOT_RECEIVED"),
}


@pytest.mark.parametrize(("order", "wish", "code"), REFUSED.values(), ids=REFUSED)
def test_more_than_came_back_is_refused(order, wish, code):
    with pytest.raises(RefundRefused, match=code):
        asked(wish, order, COUNTED)


def test_two_thirds_by_amount_are_two_units():
    assert parts(asked(Wish(amount_minor=66_666), three(2), COUNTED)) == [("a", 2, 66_666)]


def test_what_came_back_later_is_refunded_later_and_adds_up():
    books = after(three(2), NO_BOOKS, asked(Wish(), three(2), COUNTED).lines)
    waiting = judged(three(2), COUNTED, books)
    rest = asked(Wish(), three(3), COUNTED, books)

    assert (waiting.verdict, waiting.reasons) == (I, (R.RETURN_NOT_RECEIVED,))
    assert parts(rest) == [("a", 1, 33_334)]
    done = judged(three(3), COUNTED, after(three(3), books, rest.lines))
    assert done.reasons == (R.ALREADY_REFUNDED,)


def test_money_given_without_units_counts_against_what_came_back():
    order = three(2)
    books = after(order, NO_BOOKS, asked(Wish(amount_minor=50_000), order, COUNTED).lines)

    assert judged(order, COUNTED, books).max_refundable_minor == 16_666
    assert parts(asked(Wish(), order, COUNTED, books)) == [("a", 2, 16_666)]


def test_money_that_units_long_back_are_owed_does_not_wait_for_more():
    order = paid(goods("a", 36_000, received_units=1))
    books = after(order, NO_BOOKS, (RefundLine(line_id="a", units=1, amount_minor=30_000),))

    assert parts(asked(Wish(), order, COUNTED, books)) == [("a", 0, 6_000)]


def test_a_line_that_is_not_back_leaves_the_others():
    order = paid(goods("a", 1_000, received_units=0), goods("b", 2_000, received_units=1))
    found = judged(order, COUNTED)

    assert (found.verdict, found.max_refundable_minor) == (P, 2_000)
    assert found.lines[0].reasons == (R.RETURN_NOT_RECEIVED,)


def test_what_was_quoted_does_not_fit_once_less_is_said_to_have_come_back():
    lines = asked(Wish(), three(2), COUNTED).lines

    assert still_fits(lines, judged(three(2), COUNTED))
    assert not still_fits(lines, judged(three(1), COUNTED))
    assert still_fits(lines, judged(three(1), replace(COUNTED, return_required=False)))

"""Shipping: once an order, and only by the policy's rule or a word of staff."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.allocation import Wish, still_fits
from support_agent.domain.errors import RefundRefused
from support_agent.domain.orders import OrderStatus
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine
from support_agent.testing.builders import NOW
from tests.rule_cases import (
    COUNTED,
    FULL_RETURN,
    NO_BOOKS,
    PLAIN,
    after,
    asked,
    goods,
    judged,
    paid,
    parts,
    shipping,
    units,
)

ORDER = paid(goods("a", 120_000), goods("b", 40_000, 2), shipping("s", 30_000))
NO_WINDOW = replace(PLAIN, window_days=None)
BY_WORD = Wish(units={"a": 1}, with_shipping=True)
E, P, I, N = Verdict.ELIGIBLE, Verdict.PARTIAL, Verdict.INELIGIBLE, Verdict.NEEDS_REVIEW  # noqa: E741 - columns of a table


def line_of(order, policy, books=NO_BOOKS, line_id="s"):
    return next(line for line in judged(order, policy, books).lines if line.line_id == line_id)


CASES = {
    "never: all of it is the goods": (PLAIN, Wish(), [("a", 1, 120_000), ("b", 2, 80_000)]),
    "all of it": (FULL_RETURN, Wish(), [("a", 1, 120_000), ("b", 2, 80_000), ("s", 1, 30_000)]),
    "every unit by name": (
        FULL_RETURN, units(a=1, b=2), [("a", 1, 120_000), ("b", 2, 80_000), ("s", 1, 30_000)],
    ),
    "every unit and shipping by name": (
        FULL_RETURN, units(a=1, b=2, s=1), [("a", 1, 120_000), ("b", 2, 80_000), ("s", 1, 30_000)],
    ),
    "one unit is kept": (FULL_RETURN, units(a=1, b=1), [("a", 1, 120_000), ("b", 1, 40_000)]),
    "one line is kept": (FULL_RETURN, units(b=2), [("b", 2, 80_000)]),
    "the whole amount": (
        FULL_RETURN, Wish(amount_minor=230_000),
        [("a", 1, 120_000), ("b", 2, 80_000), ("s", 1, 30_000)],
    ),
    "one dong less than the whole amount": (
        FULL_RETURN, Wish(amount_minor=229_999),
        [("a", 0, 120_000), ("b", 0, 80_000), ("s", 0, 29_999)],
    ),
    "the goods' amount": (
        FULL_RETURN, Wish(amount_minor=200_000), [("a", 0, 120_000), ("b", 0, 80_000)],
    ),
    "an amount under the goods'": (
        FULL_RETURN, Wish(amount_minor=100_000), [("a", 0, 60_000), ("b", 0, 40_000)],
    ),
    "the goods' amount, never": (
        PLAIN, Wish(amount_minor=200_000), [("a", 1, 120_000), ("b", 2, 80_000)],
    ),
    "by word beside one line": (PLAIN, BY_WORD, [("a", 1, 120_000), ("s", 1, 30_000)]),
    "by word under the rule, goods are kept": (
        FULL_RETURN, BY_WORD, [("a", 1, 120_000), ("s", 1, 30_000)],
    ),
    "by word beside an amount": (
        PLAIN, Wish(amount_minor=50_000, with_shipping=True),
        [("a", 0, 30_000), ("b", 0, 20_000), ("s", 1, 30_000)],
    ),
    "by word alone": (PLAIN, Wish(units={"s": 1}, with_shipping=True), [("s", 1, 30_000)]),
    "by word where the rule gives it anyway": (
        FULL_RETURN, Wish(with_shipping=True),
        [("a", 1, 120_000), ("b", 2, 80_000), ("s", 1, 30_000)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "wish", "expected"), CASES.values(), ids=CASES)
def test_what_comes_back_with_shipping_or_without(policy, wish, expected):
    assert parts(asked(wish, ORDER, policy)) == expected


REFUSED = {
    "named alone, never": (PLAIN, units(s=1), "SHIPPING_KEPT"),
    "named alone, goods are kept": (FULL_RETURN, units(s=1), "SHIPPING_KEPT"),
    "named beside a part of the goods": (FULL_RETURN, units(a=1, b=1, s=1), "SHIPPING_KEPT"),
    "two of it": (FULL_RETURN, units(a=1, b=2, s=2), "QUANTITY_TOO_HIGH"),
    "none of it": (FULL_RETURN, units(a=1, b=2, s=0), "QUANTITY_INVALID"),
    "an amount above the goods, never": (PLAIN, Wish(amount_minor=200_001), "AMOUNT_TOO_HIGH"),
    "by word beside more than the goods": (
        FULL_RETURN,
        Wish(amount_minor=200_001, with_shipping=True),
        "AMOUNT_TOO_HIGH",
    ),
    "an amount above all": (FULL_RETURN, Wish(amount_minor=230_001), "AMOUNT_TOO_HIGH"),
}


@pytest.mark.parametrize(("policy", "wish", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(policy, wish, code):
    with pytest.raises(RefundRefused, match=code):
        asked(wish, ORDER, policy)


def test_the_last_of_several_returns_brings_it_along_and_none_after_it():
    first = asked(units(b=1), ORDER, FULL_RETURN)
    books = after(ORDER, NO_BOOKS, first.lines)
    second = asked(units(a=1), ORDER, FULL_RETURN, books)
    books = after(ORDER, books, second.lines)
    last = asked(units(b=1), ORDER, FULL_RETURN, books)
    books = after(ORDER, books, last.lines)

    assert parts(first) + parts(second) == [("b", 1, 40_000), ("a", 1, 120_000)]
    assert parts(last) == [("b", 1, 40_000), ("s", 1, 30_000)]
    assert judged(ORDER, FULL_RETURN, books).reasons == (Reason.ALREADY_REFUNDED,)


def test_given_by_word_it_is_not_given_again():
    books = after(ORDER, NO_BOOKS, asked(BY_WORD, ORDER, PLAIN).lines)

    assert parts(asked(Wish(), ORDER, FULL_RETURN, books)) == [("b", 2, 80_000)]
    with pytest.raises(RefundRefused, match="ALREADY_REFUNDED"):
        asked(Wish(units={"b": 1}, with_shipping=True), ORDER, PLAIN, books)


def test_by_word_where_there_is_none_is_refused():
    with pytest.raises(RefundRefused, match="LINE_UNKNOWN"):
        asked(Wish(with_shipping=True), paid(goods("a", 1_000)), FULL_RETURN)


def test_by_word_does_not_pass_a_dispute():
    disputed = replace(ORDER, payments=(replace(ORDER.payments[0], disputed=True),))

    with pytest.raises(RefundRefused, match="DISPUTED"):
        asked(Wish(units={"s": 1}, with_shipping=True), disputed, PLAIN)


KEPT = {
    "a final sale line": goods("k", 50_000, returnable=False),
    "an excluded category": goods("k", 50_000, category="voucher"),
}


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_goods_that_cannot_go_back_are_kept_and_shipping_with_them(kept):
    order = paid(goods("a", 120_000), kept, shipping("s", 30_000))
    found = judged(order, FULL_RETURN)

    assert parts(asked(Wish(), order, FULL_RETURN)) == [("a", 1, 120_000)]
    assert (found.verdict, found.max_refundable_minor) == (P, 120_000)
    assert line_of(order, FULL_RETURN).reasons == (Reason.SHIPPING_KEPT,)


def test_what_is_free_is_no_goods_that_are_kept():
    order = paid(goods("a", 120_000), goods("f", 0, returnable=False), shipping("s", 30_000))

    assert parts(asked(units(a=1), order, FULL_RETURN)) == [("a", 1, 120_000), ("s", 1, 30_000)]


def test_units_that_did_not_come_back_are_kept():
    order = paid(goods("a", 10_000, 3, received_units=2), shipping("s", 30_000))
    back = paid(goods("a", 10_000, 3, received_units=3), shipping("s", 30_000))
    policy = replace(COUNTED, shipping=FULL_RETURN.shipping)

    assert parts(asked(Wish(), order, policy)) == [("a", 2, 20_000)]
    assert parts(asked(Wish(), back, policy)) == [("a", 3, 30_000), ("s", 1, 30_000)]


class TestVerdict:
    @pytest.mark.parametrize("policy", [PLAIN, FULL_RETURN], ids=["never", "full return"])
    def test_shipping_narrows_nothing(self, policy):
        assert judged(ORDER, policy).verdict is E
        assert judged(ORDER, policy).reasons == (Reason.WITHIN_WINDOW,)

    def test_the_most_is_with_shipping_where_the_rule_gives_it(self):
        assert judged(ORDER, PLAIN).max_refundable_minor == 200_000
        assert judged(ORDER, FULL_RETURN).max_refundable_minor == 230_000

    def test_a_person_looks_because_of_the_goods_never_because_of_it(self):
        order = replace(ORDER, delivered_at=None)
        found = judged(order, FULL_RETURN)

        assert (found.verdict, found.reasons) == (N, (Reason.DELIVERED_AT_MISSING,))
        assert found.lines[2].reasons == (Reason.DELIVERED_AT_MISSING,)

    def test_a_free_one_is_nothing_to_ask_for(self):
        order = paid(goods("a", 1_000), shipping("s", 0))

        assert judged(order, FULL_RETURN).verdict is E
        assert parts(asked(Wish(), order, FULL_RETURN)) == [("a", 1, 1_000)]

    def test_undelivered_goods_are_kept(self):
        day = NOW - timedelta(days=3)
        order = paid(
            goods("a", 1_000, delivered_at=day),
            goods("b", 1_000),
            shipping("s", 500),
            status=OrderStatus.PARTIALLY_DELIVERED,
            delivered_at=None,
        )

        assert judged(order, FULL_RETURN).max_refundable_minor == 1_000

    @pytest.mark.parametrize(("days", "verdict", "most"), [(30, P, 30_000), (31, I, 0)])
    def test_it_alone_has_the_goods_window(self, days, verdict, most):
        """The goods went back under a policy without the rule; the rule came later."""
        books = after(ORDER, NO_BOOKS, asked(Wish(), ORDER, PLAIN).lines)
        order = replace(ORDER, delivered_at=NOW - timedelta(days=days))
        found = judged(order, FULL_RETURN, books)

        assert (found.verdict, found.max_refundable_minor) == (verdict, most)

    @pytest.mark.parametrize(("newer", "most"), [(30, 500), (31, 0)])
    def test_the_newest_goods_decide_how_long(self, newer, most):
        order = paid(
            goods("a", 1_000, delivered_at=NOW - timedelta(days=40)),
            goods("b", 1_000, delivered_at=NOW - timedelta(days=newer)),
            shipping("s", 500),
        )
        books = after(order, NO_BOOKS, asked(Wish(), order, NO_WINDOW).lines)

        assert judged(order, FULL_RETURN, books).max_refundable_minor == most

    def test_it_goes_along_while_the_goods_may(self):
        """The order's own date is older than that of the goods."""
        late = NOW - timedelta(days=20)
        order = paid(goods("a", 1_000, delivered_at=late), shipping("s", 500))
        order = replace(order, delivered_at=NOW - timedelta(days=40))

        assert judged(order, FULL_RETURN).max_refundable_minor == 1_500

    def test_alone_and_undated_it_waits_for_a_person(self):
        books = after(ORDER, NO_BOOKS, asked(Wish(), ORDER, PLAIN).lines)
        found = judged(replace(ORDER, delivered_at=None), FULL_RETURN, books)

        assert (found.verdict, found.reasons) == (N, (Reason.DELIVERED_AT_MISSING,))


class TestStillFits:
    FULL = asked(Wish(), ORDER, FULL_RETURN).lines
    WORD = asked(BY_WORD, ORDER, PLAIN).lines

    def test_a_full_return_does_while_it_still_is_one(self):
        assert still_fits(self.FULL, judged(ORDER, FULL_RETURN))

    def test_it_does_not_under_another_rule(self):
        assert not still_fits(self.FULL, judged(ORDER, PLAIN))

    def test_what_would_leave_goods_does_not(self):
        part = (self.FULL[0], self.FULL[2])

        assert not still_fits(part, judged(ORDER, FULL_RETURN))

    def test_what_a_person_gave_does_though_no_rule_gives_it(self):
        assert not still_fits(self.WORD, judged(ORDER, PLAIN))
        assert still_fits(self.WORD, judged(ORDER, PLAIN), shipping_by_word=True)

    def test_more_than_it_cost_never_does(self):
        more = (RefundLine(line_id="s", units=1, amount_minor=30_001),)

        assert not still_fits(more, judged(ORDER, PLAIN), shipping_by_word=True)

    def test_given_already_it_does_not(self):
        books = after(ORDER, NO_BOOKS, self.WORD)

        assert not still_fits(self.WORD[1:], judged(ORDER, PLAIN, books), shipping_by_word=True)

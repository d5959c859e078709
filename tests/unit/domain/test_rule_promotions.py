"""A promotion that is lost: what it gave to what is kept is taken off, once, and never for good."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.allocation import Wish, still_fits
from support_agent.domain.errors import RefundRefused
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine
from tests.rule_cases import (
    CLAWBACK,
    FULL_RETURN,
    NO_BOOKS,
    PLAIN,
    after,
    asked,
    gift,
    goods,
    judged,
    parts,
    promoted,
    shipping,
    units,
)

A, B = goods("a", 60_000, off=6_000), goods("b", 40_000, off=4_000)
# From 100,000 on: 10,000 off. Each item alone is below.
DISCOUNT = promoted(100_000, A, B)
WITH_GIFT = promoted(100_000, A, B, gift("g", 15_000), gifts=("g",))
# The first alone still earns it.
LARGE = promoted(100_000, goods("a", 150_000, off=7_500), goods("b", 50_000, off=2_500))
LOST = (Reason.PROMOTION_LOST,)

# Each: order, policy, wish; the parts, what was taken off them, and why.
CASES = {
    "case 20: no clawback, one item": (DISCOUNT, PLAIN, units(a=1), [("a", 1, 54_000)], 0, ()),
    "one item goes, the other keeps 4,000": (
        DISCOUNT, CLAWBACK, units(a=1), [("a", 1, 50_000)], 4_000, LOST,
    ),
    "the other goes, the first keeps 6,000": (
        DISCOUNT, CLAWBACK, units(b=1), [("b", 1, 30_000)], 6_000, LOST,
    ),
    "both go: nothing is kept, nothing taken off": (
        DISCOUNT, CLAWBACK, Wish(), [("a", 1, 54_000), ("b", 1, 36_000)], 0, (),
    ),
    "both by name": (
        DISCOUNT, CLAWBACK, units(a=1, b=1), [("a", 1, 54_000), ("b", 1, 36_000)], 0, (),
    ),
    "what is kept still earns it": (LARGE, CLAWBACK, units(b=1), [("b", 1, 47_500)], 0, ()),
    "what is kept does not": (LARGE, CLAWBACK, units(a=1), [("a", 1, 140_000)], 2_500, LOST),
    "the gift is kept and charged": (
        WITH_GIFT, CLAWBACK, units(a=1), [("a", 1, 35_000)], 19_000, LOST,
    ),
    "the gift goes back too": (
        WITH_GIFT, CLAWBACK, units(a=1, g=1), [("a", 1, 50_000), ("g", 1, 0)], 4_000, LOST,
    ),
    "all but the gift": (
        WITH_GIFT, CLAWBACK, units(a=1, b=1), [("a", 1, 45_000), ("b", 1, 30_000)], 15_000, LOST,
    ),
    "all of it, gift included": (
        WITH_GIFT, CLAWBACK, Wish(), [("a", 1, 54_000), ("b", 1, 36_000), ("g", 1, 0)], 0, (),
    ),
    "the whole amount is all of it": (
        WITH_GIFT, CLAWBACK, Wish(amount_minor=90_000),
        [("a", 1, 54_000), ("b", 1, 36_000), ("g", 1, 0)], 0, (),
    ),
    "money without goods loses nothing": (
        DISCOUNT, CLAWBACK, Wish(amount_minor=9_000), [("a", 0, 5_400), ("b", 0, 3_600)], 0, (),
    ),
    "gifts mean nothing without clawback": (
        WITH_GIFT, PLAIN, Wish(), [("a", 1, 54_000), ("b", 1, 36_000)], 0, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("order", "policy", "wish", "expected", "off", "reasons"), CASES.values(), ids=CASES
)
def test_what_a_return_comes_to(order, policy, wish, expected, off, reasons):
    found = asked(wish, order, policy)

    assert parts(found) == expected
    assert (found.deduction_minor, found.reasons) == (off, reasons)


@pytest.mark.parametrize(
    ("threshold", "off"),
    [(59_999, 0), (60_000, 0), (60_001, 6_000), (100_000, 6_000), (100_001, 0)],
    ids=["below", "exactly what is kept", "just above", "exactly the order", "never reached"],
)
def test_the_threshold_itself_is_reached(threshold, off):
    """60,000 are kept, at the price before the promotion. Who never reached it, loses nothing."""
    found = asked(units(b=1), promoted(threshold, A, B), CLAWBACK)

    assert (found.deduction_minor, found.amount_minor) == (off, 36_000 - off)


def test_another_discount_lowers_the_value_that_counts():
    """65,000 less 5,000 for another reason are worth 60,000."""
    a = goods("a", 65_000, off=6_000, discount=5_000)

    assert asked(units(b=1), promoted(60_000, a, B), CLAWBACK).deduction_minor == 0
    assert asked(units(b=1), promoted(60_001, a, B), CLAWBACK).deduction_minor == 6_000


def test_a_gift_earns_nothing_and_shipping_neither():
    order = promoted(100_000, A, B, gift("g", 90_000), shipping("s", 70_000), gifts=("g",))

    found = asked(units(b=1, g=1), order, CLAWBACK)

    assert (found.deduction_minor, found.amount_minor) == (6_000, 30_000)


def test_a_kept_gift_does_not_count_towards_the_threshold():
    a, b = goods("a", 90_000), goods("b", 60_000)
    order = promoted(100_000, a, b, gift("g", 20_000), gifts=("g",))

    assert asked(units(b=1), order, CLAWBACK).amount_minor == 40_000


def test_a_gift_is_charged_at_its_price_whatever_gave_the_discount():
    free = replace(gift("g", 15_000), promotion_minor=0)

    assert (
        asked(units(a=1), promoted(100_000, A, B, free, gifts=("g",)), CLAWBACK).amount_minor
        == 35_000
    )


def test_units_keep_their_share():
    """Five at 30,000, 15,000 off together: three kept are worth 90,000 and keep 9,000 of it."""
    order = promoted(100_000, goods("a", 30_000, 5, off=15_000))

    assert asked(units(a=1), order, CLAWBACK).amount_minor == 27_000
    assert asked(units(a=2), order, CLAWBACK).amount_minor == 54_000 - 9_000


class TestSeveralReturns:
    def test_what_was_taken_off_comes_back_with_the_last(self):
        first = asked(units(b=1), DISCOUNT, CLAWBACK)
        books = after(DISCOUNT, NO_BOOKS, first.lines)
        last = asked(units(a=1), DISCOUNT, CLAWBACK, books)

        assert parts(first) == [("b", 1, 30_000)]
        assert parts(last) == [("a", 1, 54_000), ("b", 0, 6_000)]
        assert (last.deduction_minor, last.reasons) == (0, ())
        assert first.amount_minor + last.amount_minor == 90_000

    def test_it_is_taken_off_once(self):
        order = promoted(100_000, A, B, goods("c", 20_000))
        first = asked(units(b=1), order, CLAWBACK)
        books = after(order, NO_BOOKS, first.lines)
        second = asked(units(c=1), order, CLAWBACK, books)

        assert (first.amount_minor, first.deduction_minor) == (30_000, 6_000)
        assert (second.amount_minor, second.deduction_minor) == (20_000, 0)

    def test_a_gift_that_comes_later_is_paid_then(self):
        books = after(WITH_GIFT, NO_BOOKS, asked(units(a=1), WITH_GIFT, CLAWBACK).lines)
        found = asked(units(g=1), WITH_GIFT, CLAWBACK, books)

        assert parts(found) == [("a", 0, 15_000), ("g", 1, 0)]

    def test_what_is_kept_back_cannot_be_asked_for_as_an_amount(self):
        books = after(DISCOUNT, NO_BOOKS, asked(units(b=1), DISCOUNT, CLAWBACK).lines)
        found = judged(DISCOUNT, CLAWBACK, books)

        assert found.max_refundable_minor == 60_000  # all of it: the other goods come back
        assert [line.refundable_minor for line in found.lines] == [54_000, 0]
        assert found.lines[1].reasons == (Reason.ALREADY_REFUNDED,)
        assert parts(asked(Wish(amount_minor=54_000), DISCOUNT, CLAWBACK, books)) == [
            ("a", 0, 54_000)
        ]
        for amount in (54_001, 59_999, 60_001):
            with pytest.raises(RefundRefused, match=r"AMOUNT_TOO_HIGH"):
                asked(Wish(amount_minor=amount), DISCOUNT, CLAWBACK, books)

    def test_what_a_line_may_still_give_is_without_what_it_is_owed(self):
        """Three at 40,000, 30,000 off: one back is 30,000 less the 20,000 that two keep."""
        order = promoted(100_000, goods("a", 40_000, 3, off=30_000))
        books = after(order, NO_BOOKS, asked(units(a=1), order, CLAWBACK).lines)
        (line,) = judged(order, CLAWBACK, books).lines

        assert (line.refundable_minor, line.held_minor) == (60_000, 20_000)
        rest = asked(units(a=2), order, CLAWBACK, books)
        assert parts(rest) == [("a", 2, 80_000)]
        assert still_fits(rest.lines, judged(order, CLAWBACK, books))

    def test_once_nothing_is_kept_in_money_it_is_free(self):
        """The rest of the first line went back without its unit: nothing is left to be charged."""
        books = after(DISCOUNT, NO_BOOKS, asked(units(b=1), DISCOUNT, CLAWBACK).lines)
        money = asked(Wish(amount_minor=54_000), DISCOUNT, CLAWBACK, books)
        books = after(DISCOUNT, books, money.lines)
        found = judged(DISCOUNT, CLAWBACK, books)

        assert (found.verdict, found.max_refundable_minor) == (Verdict.PARTIAL, 6_000)
        assert still_fits(asked(Wish(), DISCOUNT, CLAWBACK, books).lines, found)
        assert parts(asked(Wish(), DISCOUNT, CLAWBACK, books)) == [("b", 0, 6_000)]

    def test_a_policy_without_clawback_pays_what_another_kept_back(self):
        books = after(DISCOUNT, NO_BOOKS, asked(units(b=1), DISCOUNT, CLAWBACK).lines)

        assert parts(asked(Wish(), DISCOUNT, PLAIN, books)) == [("a", 1, 54_000), ("b", 0, 6_000)]


def test_what_was_held_back_does_not_leave_a_disputed_order():
    """The first line went back in money alone, so what the second was owed is free."""
    books = after(DISCOUNT, NO_BOOKS, asked(units(b=1), DISCOUNT, CLAWBACK).lines)
    books = after(
        DISCOUNT, books, asked(Wish(amount_minor=54_000), DISCOUNT, CLAWBACK, books).lines
    )
    disputed = replace(DISCOUNT, payments=(replace(DISCOUNT.payments[0], disputed=True),))

    with pytest.raises(RefundRefused, match="AMOUNT_INVALID"):
        asked(Wish(), disputed, CLAWBACK, books)


class TestNothingIsLeft:
    @pytest.mark.parametrize(("price", "left"), [(49_999, 1), (50_000, None), (50_001, None)])
    def test_a_refund_that_would_be_nothing_or_less_is_refused(self, price, left):
        order = promoted(100_000, A, B, gift("g", price), gifts=("g",))
        if left is None:
            with pytest.raises(RefundRefused, match="PROMOTION_LOST"):
                asked(units(a=1), order, CLAWBACK)
        else:
            assert asked(units(a=1), order, CLAWBACK).amount_minor == left

    def test_it_can_still_go_back_with_the_rest(self):
        order = promoted(100_000, A, B, gift("g", 80_000), gifts=("g",))

        assert asked(Wish(), order, CLAWBACK).amount_minor == 90_000

    def test_the_gift_alone_is_no_refund(self):
        with pytest.raises(RefundRefused, match="AMOUNT_INVALID"):
            asked(units(g=1), WITH_GIFT, CLAWBACK)


class TestKept:
    """The second item cannot go back, so all of it is the first."""

    ORDER = promoted(100_000, A, replace(B, returnable=False))

    def test_all_of_it_is_less_what_the_kept_item_had(self):
        assert judged(self.ORDER, CLAWBACK).max_refundable_minor == 50_000
        assert parts(asked(Wish(), self.ORDER, CLAWBACK)) == [("a", 1, 50_000)]

    def test_no_amount_is_more_than_all_of_it(self):
        assert parts(asked(Wish(amount_minor=50_000), self.ORDER, CLAWBACK)) == [("a", 1, 50_000)]
        with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
            asked(Wish(amount_minor=50_001), self.ORDER, CLAWBACK)


def test_a_kept_gift_keeps_the_shipping():
    order = promoted(100_000, A, B, gift("g", 15_000), shipping("s", 30_000), gifts=("g",))
    policy = replace(FULL_RETURN, clawback=True)

    assert asked(units(a=1, b=1), order, policy).amount_minor == 75_000
    assert asked(units(a=1, b=1, g=1), order, policy).amount_minor == 120_000
    assert judged(order, policy).max_refundable_minor == 120_000


class TestStillFits:
    def test_what_was_allocated_fits(self):
        for wish in (units(a=1), units(b=1), Wish(), Wish(amount_minor=9_000)):
            lines = asked(wish, WITH_GIFT, CLAWBACK).lines
            assert still_fits(lines, judged(WITH_GIFT, CLAWBACK))

    def test_the_price_without_the_deduction_does_not(self):
        whole = asked(units(a=1), DISCOUNT, PLAIN).lines

        assert not still_fits(whole, judged(DISCOUNT, CLAWBACK))
        assert still_fits(whole, judged(DISCOUNT, PLAIN))

    def test_a_dong_more_than_is_due_does_not(self):
        (line,) = asked(units(a=1), DISCOUNT, CLAWBACK).lines
        more = replace(line, amount_minor=line.amount_minor + 1)

        assert not still_fits([more], judged(DISCOUNT, CLAWBACK))

    def test_what_was_kept_back_fits_with_the_rest_and_not_alone(self):
        books = after(DISCOUNT, NO_BOOKS, asked(units(b=1), DISCOUNT, CLAWBACK).lines)
        rest = asked(units(a=1), DISCOUNT, CLAWBACK, books).lines
        now = judged(DISCOUNT, CLAWBACK, books)

        assert still_fits(rest, now)
        assert not still_fits((replace(rest[0], amount_minor=54_001), rest[1]), now)
        assert not still_fits((RefundLine(line_id="b", units=1, amount_minor=6_000),), now)


def promotions():
    """Orders of up to four lines, some of them gifts, with a promotion that they earn."""
    line = st.tuples(st.integers(1, 10**6), st.integers(1, 4), st.integers(0, 100), st.booleans())
    return st.builds(_order, st.lists(line, min_size=1, max_size=4), st.integers(1, 100))


def _order(shape, percent):
    lines, gifts = [], []
    for number, (price, quantity, off, free) in enumerate(shape):
        name = f"l{number}"
        share = price * quantity * (100 if free and number else off) // 100
        lines.append(goods(name, price, quantity, off=share))
        if free and number:
            gifts.append(name)
    earning = [x for x in lines if x.id not in gifts]
    worth = sum(line.unit_price_minor * line.quantity for line in earning)
    return promoted(max(1, worth * percent // 100), *lines, gifts=gifts)


@given(promotions(), st.data())
def test_every_way_to_return_everything_adds_up_to_what_was_paid(order, data):
    """Any units in any order; what is refused meanwhile, as nothing would be left, comes last."""
    kept = {line.id: line.quantity for line in order.lines}
    books, refunded = NO_BOOKS, 0
    while any(kept.values()) and data.draw(st.booleans()):
        line_id = data.draw(st.sampled_from([id_ for id_, left in kept.items() if left]))
        count = data.draw(st.integers(1, kept[line_id]))
        try:
            found = asked(units(**{line_id: count}), order, CLAWBACK, books)
        except RefundRefused:
            continue
        refunded += found.amount_minor
        books = after(order, books, found.lines)
        kept[line_id] -= count
        check_books(order, books)
    if refunded < order.total_minor:
        rest = asked(Wish(), order, CLAWBACK, books)
        refunded += rest.amount_minor
        check_books(order, after(order, books, rest.lines))

    assert refunded == order.total_minor


@given(promotions(), st.data())
def test_what_is_left_to_ask_for_is_never_more_than_is_left(order, data):
    """Amounts and units mixed: lines and payments are never overdrawn, and the rest is exact."""
    books, refunded = NO_BOOKS, 0
    for _ in range(data.draw(st.integers(0, 4))):
        most = judged(order, CLAWBACK, books).max_refundable_minor
        line = data.draw(st.sampled_from(order.lines))
        wish = data.draw(
            st.one_of(
                st.builds(Wish, amount_minor=st.integers(1, max(1, most))),
                st.builds(lambda n, id_=line.id: units(**{id_: n}), st.integers(1, line.quantity)),
            )
        )
        try:
            found = asked(wish, order, CLAWBACK, books)
        except RefundRefused:
            continue
        assert still_fits(found.lines, judged(order, CLAWBACK, books))
        assert wish.amount_minor in {None, found.amount_minor}
        refunded += found.amount_minor
        books = after(order, books, found.lines)
        check_books(order, books)
    most = judged(order, CLAWBACK, books).max_refundable_minor

    assert refunded + most <= order.total_minor


def check_books(order, books):
    totals = {line.id: line for line in order.lines}
    for balance in books.lines:
        assert 0 <= balance.refunded_minor <= totals[balance.line_id].total_minor
        assert 0 <= balance.units_taken <= totals[balance.line_id].quantity

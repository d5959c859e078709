"""Which payments give back: tender order, split tender, and what was captured twice."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.allocation import Wish, still_fits
from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.orders import OVERPAID, OrderStatus, PaymentMethod
from support_agent.domain.policy import LineBalance, OrderBooks, PaymentBalance, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine
from support_agent.domain.tenders import split_over_payments
from support_agent.testing.builders import make_line, make_order, make_payment
from tests.rule_cases import FULL_RETURN, NO_BOOKS, PLAIN, asked, goods, judged, parts, units

CARD, GIFT, WALLET, COD = (
    PaymentMethod.CARD,
    PaymentMethod.GIFT_CARD,
    PaymentMethod.WALLET,
    PaymentMethod.COD,
)


def in_order(*methods: PaymentMethod):
    return replace(PLAIN, tender_order=methods)


def tendered(*tenders: tuple[str, PaymentMethod, int]):
    """An order of one line a payment's amount; each payment is (id, method, captured)."""
    total = sum(captured for _, _, captured in tenders)
    payments = tuple(make_payment(id_, amount, method=how) for id_, how, amount in tenders)
    return make_order((make_line("a", total),), payments)


def line(line_id: str, amount: int, count: int = 0) -> RefundLine:
    return RefundLine(line_id=line_id, units=count, amount_minor=amount)


def split(order, policy, *lines: RefundLine, books: OrderBooks = NO_BOOKS):
    """payment -> [(line, units, amount)] of each part, in order."""
    found = split_over_payments(order, books, lines, policy)
    assert all(part.amount_minor == sum(x.amount_minor for x in part.lines) for part in found)
    return {p.payment.id: [(x.line_id, x.units, x.amount_minor) for x in p.lines] for p in found}


TWO = tendered(("card", CARD, 400), ("gift", GIFT, 200))

# Each: policy, how much of the line and how many units; what each payment gives.
ORDERS = {
    "no order: the first that carries it": (PLAIN, 200, {"card": [("a", 1, 200)]}),
    "no order: exactly what it holds": (PLAIN, 400, {"card": [("a", 1, 400)]}),
    "no order: none carries it, as taken": (
        PLAIN, 401, {"card": [("a", 1, 400)], "gift": [("a", 0, 1)]},
    ),
    "gift card first, within it": (in_order(GIFT, CARD), 200, {"gift": [("a", 1, 200)]}),
    "gift card first, one more": (
        in_order(GIFT, CARD), 201, {"gift": [("a", 1, 200)], "card": [("a", 0, 1)]},
    ),
    "all of it": (
        in_order(GIFT, CARD), 600, {"gift": [("a", 0, 200)], "card": [("a", 1, 400)]},
    ),
    "a first tender beats one that carries it all": (
        in_order(GIFT), 300, {"gift": [("a", 1, 200)], "card": [("a", 0, 100)]},
    ),
    "methods that are not named come last": (in_order(WALLET), 100, {"card": [("a", 1, 100)]}),
    "equal pieces: the one that completes it": (
        in_order(GIFT), 400, {"gift": [("a", 0, 200)], "card": [("a", 1, 200)]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "amount", "expected"), ORDERS.values(), ids=ORDERS)
def test_payments_give_in_the_tender_order(policy, amount, expected):
    found = split(TWO, policy, line("a", amount, 1))

    assert found == expected
    assert list(found) == list(expected)


def test_without_an_order_one_that_carries_all_of_it_is_preferred():
    order = tendered(("p1", CARD, 100), ("p2", WALLET, 400))

    assert split(order, PLAIN, line("a", 400, 1)) == {"p2": [("a", 1, 400)]}
    assert split(order, PLAIN, line("a", 401, 1)) == {"p1": [("a", 0, 100)], "p2": [("a", 1, 301)]}


def test_payments_of_one_method_give_as_they_were_taken():
    order = tendered(("c2", CARD, 100), ("g", GIFT, 50), ("c1", CARD, 100))

    assert list(split(order, in_order(GIFT, CARD), line("a", 250))) == ["g", "c2", "c1"]


def test_lines_are_split_where_a_payment_ends():
    order = tendered(("card", CARD, 500), ("gift", GIFT, 250))
    found = split(order, in_order(GIFT), line("a", 100, 1), line("b", 300, 3), line("c", 50, 1))

    assert found == {
        "gift": [("a", 1, 100), ("b", 0, 150)],
        "card": [("b", 3, 150), ("c", 1, 50)],
    }


def test_a_line_may_take_from_three():
    order = tendered(("g1", GIFT, 10), ("g2", GIFT, 30), ("card", CARD, 100))

    assert split(order, in_order(GIFT), line("a", 60, 2)) == {
        "g1": [("a", 0, 10)],
        "g2": [("a", 2, 30)],
        "card": [("a", 0, 20)],
    }


@pytest.mark.parametrize("at", [0, 1, 2], ids=["first", "between", "last"])
def test_a_gift_that_comes_back_stands_once_and_costs_nothing(at):
    order = tendered(("gift", GIFT, 100), ("card", CARD, 100))
    lines = [line("a", 100, 1), line("b", 50, 1)]
    lines.insert(at, line("g", 0, 1))

    found = split(order, in_order(GIFT), *lines)

    assert [x for part in found.values() for x in part if x[0] == "g"] == [("g", 1, 0)]


def balance(payment_id: str, captured: int, **changes) -> OrderBooks:
    return OrderBooks(
        payments=(PaymentBalance(payment_id=payment_id, captured_minor=captured, **changes),)
    )


@pytest.mark.parametrize(
    "taken",
    [{"reserved_minor": 150}, {"refunded_minor": 150}, {"charged_back_minor": 150}],
    ids=lambda taken: next(iter(taken)),
)
def test_what_is_gone_of_a_payment_is_not_given_again(taken):
    found = split(TWO, in_order(GIFT), line("a", 100), books=balance("gift", 200, **taken))

    assert found == {"gift": [("a", 0, 50)], "card": [("a", 0, 50)]}


@pytest.mark.parametrize("flag", ["disputed", "frozen"])
def test_a_payment_that_is_disputed_or_frozen_gives_nothing(flag):
    books = balance("gift", 200, **{flag: True})

    assert list(split(TWO, in_order(GIFT), line("a", 400), books=books)) == ["card"]
    with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
        split(TWO, in_order(GIFT), line("a", 401), books=books)


@pytest.mark.parametrize("policy", [PLAIN, in_order(GIFT)], ids=["no order", "gift first"])
def test_more_than_all_of_them_hold_is_refused_with_what_they_do(policy):
    with pytest.raises(RefundRefused) as refused:
        split(TWO, policy, line("a", 601))

    assert refused.value.reason is Reason.AMOUNT_TOO_HIGH
    assert refused.value.facts["max"] == "600\u00a0₫"


@given(st.data())
def test_parts_add_up_to_the_lines_and_none_exceeds_its_payment(data):
    methods = list(PaymentMethod)
    tenders = data.draw(
        st.lists(st.tuples(st.sampled_from(methods), st.integers(1, 50)), min_size=1, max_size=4)
    )
    order = tendered(*((f"p{n}", how, amount) for n, (how, amount) in enumerate(tenders)))
    policy = in_order(*data.draw(st.permutations(methods))[: data.draw(st.integers(0, 5))])
    room = sum(amount for _, amount in tenders)
    wanted, lines = data.draw(st.integers(1, room)), []
    for number in range(data.draw(st.integers(1, 4))):
        amount = data.draw(st.integers(0, wanted))
        lines.append(line(f"l{number}", amount, data.draw(st.integers(0 if amount else 1, 3))))
        wanted -= amount
    if not any(x.amount_minor for x in lines):
        return

    found = split_over_payments(order, NO_BOOKS, lines, policy)

    for part in found:
        assert 0 < part.amount_minor <= part.payment.captured_minor
        assert part.amount_minor == sum(x.amount_minor for x in part.lines)
    assert len({part.payment.id for part in found}) == len(found)
    for whole in lines:
        pieces = [x for part in found for x in part.lines if x.line_id == whole.line_id]
        assert sum(x.amount_minor for x in pieces) == whole.amount_minor
        assert [x.units for x in pieces if x.units] == ([whole.units] if whole.units else [])


@pytest.mark.parametrize("wish", [Wish(), units(a=1)])
def test_units_that_cost_more_than_the_payments_still_hold_are_refused(wish):
    """1 was refunded outside: no line of ours knows of it."""
    order = make_order((goods("a", 1_000),), (make_payment("P1", 1_000),))
    books = balance("P1", 1_000, refunded_minor=1)

    with pytest.raises(RefundRefused) as refused:
        asked(wish, order, PLAIN, books)
    assert refused.value.facts["max"] == "999\u00a0₫"
    assert parts(asked(Wish(amount_minor=999), order, PLAIN, books)) == [("a", 0, 999)]


# Captured twice by accident: 310,000 of goods, two payments of 310,000.
TWICE = make_order(
    (goods("a", 310_000),), (make_payment("P1", 310_000), make_payment("P2", 310_000))
)
OVER = Wish(overpaid=True)


def taken(order, *, lines=(), **payments: int) -> OrderBooks:
    """Books after refunds: amounts by payment, and (id, total, refunded, units) of lines."""
    return OrderBooks(
        lines=tuple(
            LineBalance(
                line_id=id_, total_minor=total, quantity=1, refunded_minor=gone, units_taken=count
            )
            for id_, total, gone, count in lines
        ),
        payments=tuple(
            PaymentBalance(
                payment_id=payment.id,
                captured_minor=payment.captured_minor,
                refunded_minor=payments.get(payment.id, 0),
            )
            for payment in order.payments
        ),
    )


class TestCapturedTwice:
    def test_the_second_capture_goes_back_and_the_goods_stay_paid(self):
        """Case 27: nothing of the order is refunded, so it can still be returned later."""
        found = asked(OVER, TWICE, PLAIN)
        assert parts(found) == [(OVERPAID, 0, 310_000)]
        assert found.reasons == (Reason.OVERPAID,)
        assert split(TWICE, PLAIN, *found.lines) == {"P2": [(OVERPAID, 0, 310_000)]}

        books = taken(TWICE, lines=[(OVERPAID, 310_000, 310_000, 0)], P2=310_000)
        again = judged(TWICE, PLAIN, books)
        assert (again.verdict, again.max_refundable_minor) == (Verdict.ELIGIBLE, 310_000)
        assert again.overpaid_minor == 0
        assert parts(asked(units(a=1), TWICE, PLAIN, books)) == [("a", 1, 310_000)]

    def test_it_goes_back_to_the_last_payment_whatever_the_tender_order(self):
        lines = asked(OVER, TWICE, PLAIN).lines

        assert list(split(TWICE, in_order(CARD), *lines)) == ["P2"]

    def test_the_goods_first_leave_it_on_the_other_payment(self):
        books = taken(TWICE, lines=[("a", 310_000, 310_000, 1)], P1=310_000)

        found = asked(OVER, TWICE, PLAIN, books)
        assert found.amount_minor == 310_000
        assert list(split(TWICE, PLAIN, *found.lines, books=books)) == ["P2"]

    @pytest.mark.parametrize("status", [OrderStatus.PAID, OrderStatus.SHIPPING])
    def test_an_order_that_is_not_delivered_is_owed_it_too(self, status):
        order = replace(TWICE, status=status, delivered_at=None)

        assert judged(order, PLAIN).verdict is Verdict.INELIGIBLE
        assert asked(OVER, order, PLAIN).amount_minor == 310_000

    def test_a_customer_who_names_the_order_gets_the_goods_only(self):
        assert judged(TWICE, PLAIN).max_refundable_minor == 310_000
        assert parts(asked(Wish(), TWICE, PLAIN)) == [("a", 1, 310_000)]
        with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
            asked(Wish(amount_minor=310_001), TWICE, PLAIN)

    @pytest.mark.parametrize(
        ("amount", "code"),
        [
            (310_000, None),
            (310_001, "AMOUNT_TOO_HIGH"),
            (0, "AMOUNT_INVALID"),
            (-1, "AMOUNT_INVALID"),
        ],
    )
    def test_a_part_of_it_may_be_named(self, amount, code):
        wish = Wish(overpaid=True, amount_minor=amount)
        if code is None:
            assert asked(wish, TWICE, PLAIN).amount_minor == amount
        else:
            with pytest.raises(RefundRefused, match=code):
                asked(wish, TWICE, PLAIN)

    @pytest.mark.parametrize(
        "wish", [Wish(overpaid=True, units={"a": 1}), Wish(overpaid=True, with_shipping=True)]
    )
    def test_it_is_asked_for_alone(self, wish):
        with pytest.raises(InvalidInput, match="overpaid"):
            asked(wish, TWICE, PLAIN)

    def test_refunded_outside_it_is_not_owed_again(self):
        books = taken(TWICE, lines=[("a", 310_000, 0, 0)], P2=310_000)

        with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
            asked(OVER, TWICE, PLAIN, books)

    def test_no_more_is_owed_than_our_books_hold_for_it(self):
        books = taken(TWICE, lines=[("a", 310_000, 0, 0), (OVERPAID, 100_000, 0, 0)])

        assert asked(OVER, TWICE, PLAIN, books).amount_minor == 100_000

    def test_an_order_paid_once_is_owed_nothing(self):
        with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
            asked(OVER, TWO, PLAIN)

    def test_a_dispute_blocks_it(self):
        first, second = TWICE.payments
        order = replace(TWICE, payments=(first, replace(second, disputed=True)))

        with pytest.raises(RefundRefused, match="DISPUTED"):
            asked(OVER, order, PLAIN)

    def test_beside_money_in_another_currency_a_person_has_to_count(self):
        foreign = make_payment("P3", 310_000, currency="USD")
        order = replace(TWICE, payments=(*TWICE.payments, foreign))

        with pytest.raises(RefundRefused, match="CURRENCY_MISMATCH"):
            asked(OVER, order, PLAIN)

    def test_it_still_fits_while_it_is_there(self):
        lines = asked(OVER, TWICE, FULL_RETURN).lines
        books = taken(TWICE, lines=[(OVERPAID, 310_000, 1, 0)], P2=1)

        assert still_fits(lines, judged(TWICE, PLAIN))
        assert not still_fits(lines, judged(TWICE, PLAIN, books))

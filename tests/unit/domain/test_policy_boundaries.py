"""Every row of the policy's boundaries, as one order, its books and a moment."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.domain.assessment import assess, required_approvals, required_level
from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.orders import Order, OrderLine, OrderStatus, Payment, PaymentMethod
from support_agent.domain.policy import (
    Assessment,
    CurrencyLimits,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Policy,
    Verdict,
)
from support_agent.domain.reasons import Reason, sentence
from support_agent.domain.window import days_since, last_day

VN = timezone(timedelta(hours=7))
NOON = datetime(2026, 10, 13, 12, tzinfo=VN)
DELIVERED = datetime(2026, 10, 1, 10, tzinfo=VN)

VND = CurrencyLimits(
    auto=200_000,
    levels=(2_000_000, 20_000_000),
    four_eyes_from=10_000_000,
    auto_per_customer_day=400_000,
    auto_per_customer_30_days=1_000_000,
    auto_per_installation_day=20_000_000,
    per_approver_day=50_000_000,
)
POLICY = Policy(
    id="test",
    version=3,
    hash="abc",
    valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    time_zone="Asia/Ho_Chi_Minh",
    window_days=30,
    refundable_statuses=frozenset({OrderStatus.DELIVERED, OrderStatus.PARTIALLY_DELIVERED}),
    excluded_categories=frozenset({"underwear"}),
    limits={"VND": VND},
    text={"vi": "", "en": ""},
)


def line(**changes) -> OrderLine:
    plain = OrderLine(
        id="L1",
        name="Áo",
        quantity=1,
        unit_price_minor=150_000,
        discount_minor=0,
        category="clothing",
    )
    return replace(plain, **changes)


def payment(**changes) -> Payment:
    plain = Payment(
        id="P1",
        gateway="ledger",
        account="shop",
        gateway_payment_id="g1",
        method=PaymentMethod.CARD,
        captured_minor=250_000,
        currency="VND",
    )
    return replace(plain, **changes)


def second_line(**changes) -> OrderLine:
    return line(**{"id": "L2", "unit_price_minor": 100_000, **changes})


def order(**changes) -> Order:
    plain = Order(
        id="A100",
        customer_id="C001",
        status=OrderStatus.DELIVERED,
        currency="VND",
        placed_at=datetime(2026, 9, 27, 9, tzinfo=VN),
        delivered_at=DELIVERED,
        lines=(line(), second_line()),
        payments=(payment(),),
    )
    return replace(plain, **changes)


def paid(**changes) -> PaymentBalance:
    return PaymentBalance(**{"payment_id": "P1", "captured_minor": 250_000, **changes})


def row(line_id: str, total: int, **changes) -> LineBalance:
    return LineBalance(line_id=line_id, total_minor=total, quantity=1, **changes)


def books(*payments: PaymentBalance, lines=(), open_ids=(), refunded_ids=()) -> OrderBooks:
    return OrderBooks(
        lines=tuple(lines),
        payments=payments,
        open_request_ids=tuple(open_ids),
        refunded_request_ids=tuple(refunded_ids),
    )


def partly(*lines: OrderLine) -> Order:
    return order(status=OrderStatus.PARTIALLY_DELIVERED, delivered_at=None, lines=lines)


NO_WINDOW = replace(POLICY, window_days=None)
ONLY_FULL_DELIVERY = replace(POLICY, refundable_statuses=frozenset({OrderStatus.DELIVERED}))
NEVER = replace(POLICY, refundable_statuses=frozenset())
EARLIER = datetime(2026, 9, 10, 10, tzinfo=VN)
TWO_PAYMENTS = (payment(captured_minor=150_000), payment(id="P2", captured_minor=100_000))

E, P, I, N = Verdict.ELIGIBLE, Verdict.PARTIAL, Verdict.INELIGIBLE, Verdict.NEEDS_REVIEW  # noqa: E741 - columns of a table
R = Reason

# Each: order, books, policy, and the verdict, reasons and max_refundable_minor they must give.
CASES = {
    "within the window": (order(), books(), POLICY, E, (R.WITHIN_WINDOW,), 250_000),
    "window switched off": (order(delivered_at=EARLIER), books(), NO_WINDOW, E, (), 250_000),
    "expired": (order(delivered_at=EARLIER), books(), POLICY, I, (R.WINDOW_EXPIRED,), 0),
    # dates that cannot be judged
    "delivered without a date": (
        order(delivered_at=None), books(), POLICY, N, (R.DELIVERED_AT_MISSING,), 250_000,
    ),
    "no date, window switched off": (
        order(delivered_at=None), books(), NO_WINDOW, N, (R.DELIVERED_AT_MISSING,), 250_000,
    ),
    "delivered 11 minutes ahead": (
        order(delivered_at=NOON + timedelta(minutes=11)), books(), POLICY, N, (R.CLOCK_OR_DATA,), 250_000,
    ),
    "delivered 10 minutes ahead": (
        order(delivered_at=NOON + timedelta(minutes=10)), books(), POLICY, E, (R.WITHIN_WINDOW,), 250_000,
    ),
    "delivered at the end of time": (
        order(delivered_at=datetime.max.replace(tzinfo=UTC)), books(), POLICY, N, (R.CLOCK_OR_DATA,), 250_000,
    ),
    "day only, tomorrow": (
        order(delivered_at=date(2026, 10, 14)), books(), POLICY, N, (R.CLOCK_OR_DATA,), 250_000,
    ),
    "day only, today": (
        order(delivered_at=date(2026, 10, 13)), books(), POLICY, E, (R.WITHIN_WINDOW,), 250_000,
    ),
    "one line with its own future date": (
        order(lines=(line(delivered_at=NOON + timedelta(days=1)), second_line())),
        books(), POLICY, N, (R.CLOCK_OR_DATA, R.WITHIN_WINDOW), 250_000,
    ),
    "the other line with its own future date": (
        order(lines=(line(), second_line(delivered_at=NOON + timedelta(days=1)))),
        books(), POLICY, N, (R.CLOCK_OR_DATA, R.WITHIN_WINDOW), 250_000,
    ),
    # partial delivery
    "one line delivered, one not": (
        partly(line(delivered_at=DELIVERED), second_line()),
        books(), POLICY, P, (R.WITHIN_WINDOW, R.LINE_NOT_DELIVERED), 150_000,
    ),
    "partly delivered: the order's date is not a line's": (
        replace(partly(line()), delivered_at=DELIVERED), books(), POLICY, I, (R.LINE_NOT_DELIVERED,), 0,
    ),
    "one line within, one expired": (
        partly(line(delivered_at=DELIVERED), second_line(delivered_at=EARLIER)),
        books(), POLICY, P, (R.WITHIN_WINDOW,), 150_000,
    ),
    "partly delivered, under a policy that waits for all": (
        partly(line(delivered_at=DELIVERED)), books(), ONLY_FULL_DELIVERY, I, (R.ORDER_SHIPPING,), 0,
    ),
    "a line's own date wins over the order's": (
        order(lines=(line(delivered_at=DELIVERED),), delivered_at=EARLIER),
        books(), POLICY, E, (R.WITHIN_WINDOW,), 150_000,
    ),
    # what may not come back
    "final sale line": (
        order(lines=(line(returnable=False), second_line())),
        books(), POLICY, P, (R.WITHIN_WINDOW, R.NON_RETURNABLE), 100_000,
    ),
    "excluded category": (
        order(lines=(line(category="underwear"),)), books(), POLICY, I, (R.NON_RETURNABLE,), 0,
    ),
    "excluded and expired": (
        order(lines=(line(returnable=False), second_line()), delivered_at=EARLIER),
        books(), POLICY, I, (R.NON_RETURNABLE, R.WINDOW_EXPIRED), 0,
    ),
    "a free gift does not make the order partial": (
        order(lines=(line(), second_line(unit_price_minor=0))), books(), POLICY, E, (R.WITHIN_WINDOW,), 150_000,
    ),
    "a free gift alone is nothing to refund": (
        order(lines=(line(returnable=False), second_line(unit_price_minor=0))),
        books(), POLICY, I, (R.NON_RETURNABLE,), 0,
    ),
    "nothing on the order cost anything": (
        order(lines=(line(unit_price_minor=0),)), books(), POLICY, I, (R.ORDER_NOT_PAID,), 0,
    ),
    "no lines": (order(lines=()), books(), POLICY, I, (R.ORDER_NOT_PAID,), 0),
    # statuses
    "placed": (order(status=OrderStatus.PLACED), books(), POLICY, I, (R.ORDER_NOT_PAID,), 0),
    "paid": (order(status=OrderStatus.PAID), books(), POLICY, I, (R.ORDER_NOT_SHIPPED,), 0),
    "shipping": (order(status=OrderStatus.SHIPPING), books(), POLICY, I, (R.ORDER_SHIPPING,), 0),
    "cancelled": (order(status=OrderStatus.CANCELLED), books(), POLICY, I, (R.ORDER_CANCELLED,), 0),
    "unknown": (order(status=OrderStatus.UNKNOWN), books(), POLICY, N, (R.STATUS_UNKNOWN,), 250_000),
    "unknown, though long ago": (
        order(status=OrderStatus.UNKNOWN, lines=(line(delivered_at=EARLIER),)),
        books(), POLICY, N, (R.STATUS_UNKNOWN,), 150_000,
    ),
    "shipping, lines not told": (
        order(status=OrderStatus.SHIPPING, lines=()), books(), POLICY, I, (R.ORDER_SHIPPING,), 0,
    ),
    "unknown, one line final sale": (
        order(status=OrderStatus.UNKNOWN, lines=(line(returnable=False), second_line())),
        books(), POLICY, N, (R.STATUS_UNKNOWN, R.NON_RETURNABLE), 100_000,
    ),
    "a status the policy does not name": (order(), books(), NEVER, N, (R.STATUS_UNKNOWN,), 250_000),
    "shipping, though the policy names it": (
        order(status=OrderStatus.SHIPPING), books(),
        replace(POLICY, refundable_statuses=frozenset(OrderStatus)), I, (R.ORDER_SHIPPING,), 0,
    ),
    "unknown, though the policy names it": (
        order(status=OrderStatus.UNKNOWN), books(),
        replace(POLICY, refundable_statuses=frozenset(OrderStatus)), N, (R.STATUS_UNKNOWN,), 250_000,
    ),
    # payments
    "no payment": (order(payments=()), books(), POLICY, I, (R.ORDER_NOT_PAID,), 0),
    "nothing captured": (
        order(payments=(payment(captured_minor=0),)), books(), POLICY, I, (R.ORDER_NOT_PAID,), 0,
    ),
    "paid in another currency": (
        order(payments=(payment(currency="USD"),)), books(), POLICY, I, (R.CURRENCY_MISMATCH,), 0,
    ),
    "a currency without limits": (
        order(currency="USD", payments=(payment(currency="USD"),)),
        books(), POLICY, N, (R.CURRENCY_WITHOUT_LIMITS,), 250_000,
    ),
    "disputed at the shop": (
        order(payments=(payment(disputed=True),)), books(), POLICY, I, (R.DISPUTED,), 0,
    ),
    "disputed in our books": (order(), books(paid(disputed=True)), POLICY, I, (R.DISPUTED,), 0),
    "one of two payments disputed": (
        order(payments=TWO_PAYMENTS),
        books(paid(payment_id="P2", captured_minor=100_000, disputed=True)), POLICY, I, (R.DISPUTED,), 0,
    ),
    "all charged back": (order(), books(paid(charged_back_minor=250_000)), POLICY, I, (R.DISPUTED,), 0),
    "part charged back": (
        order(), books(paid(charged_back_minor=50_000)), POLICY, E, (R.WITHIN_WINDOW,), 200_000,
    ),
    "frozen": (order(), books(paid(frozen=True)), POLICY, N, (R.PAYMENT_FROZEN,), 250_000),
    "cash on delivery": (
        order(payments=(payment(method=PaymentMethod.COD),)),
        books(), POLICY, N, (R.PAYMENT_NEEDS_PERSON,), 250_000,
    ),
    "bank transfer": (
        order(payments=(payment(method=PaymentMethod.BANK_TRANSFER),)),
        books(), POLICY, N, (R.PAYMENT_NEEDS_PERSON,), 250_000,
    ),
    "cash on delivery, expired": (
        order(payments=(payment(method=PaymentMethod.COD),), delivered_at=EARLIER),
        books(), POLICY, I, (R.WINDOW_EXPIRED,), 0,
    ),
    "card and cash, card left": (
        order(payments=(TWO_PAYMENTS[0], replace(TWO_PAYMENTS[1], method=PaymentMethod.COD))),
        books(), POLICY, E, (R.WITHIN_WINDOW,), 250_000,
    ),
    "card and cash, only cash left": (
        order(payments=(TWO_PAYMENTS[0], replace(TWO_PAYMENTS[1], method=PaymentMethod.COD))),
        books(paid(captured_minor=150_000, refunded_minor=150_000)),
        POLICY, N, (R.PAYMENT_NEEDS_PERSON,), 100_000,
    ),
    "several doubts": (
        order(payments=(payment(method=PaymentMethod.COD),), delivered_at=None),
        books(paid(frozen=True)), POLICY,
        N, (R.PAYMENT_FROZEN, R.PAYMENT_NEEDS_PERSON, R.DELIVERED_AT_MISSING), 250_000,
    ),
    # what is gone already
    "all refunded": (
        order(), books(paid(refunded_minor=250_000), refunded_ids=("RF-1", "RF-2")),
        POLICY, I, (R.ALREADY_REFUNDED,), 0,
    ),
    "all refunded outside": (
        order(), books(paid(refunded_minor=250_000)), POLICY, I, (R.ALREADY_REFUNDED,), 0,
    ),
    "all reserved": (
        order(), books(paid(reserved_minor=250_000), open_ids=("RF-3",)), POLICY, I, (R.REQUEST_OPEN,), 0,
    ),
    "part refunded, the rest reserved": (
        order(),
        books(paid(reserved_minor=50_000, refunded_minor=200_000), open_ids=("RF-3",), refunded_ids=("RF-1",)),
        POLICY, I, (R.REQUEST_OPEN,), 0,
    ),
    "captured 250k, pending 200k leaves 50k": (
        order(), books(paid(reserved_minor=200_000), open_ids=("RF-3",)), POLICY, E, (R.WITHIN_WINDOW,), 50_000,
    ),
    "one line refunded": (
        order(),
        books(paid(refunded_minor=150_000), lines=[row("L1", 150_000, refunded_minor=150_000)], refunded_ids=("RF-1",)),
        POLICY, P, (R.WITHIN_WINDOW,), 100_000,
    ),
    "one line refunded, the other expired": (
        order(delivered_at=EARLIER),
        books(paid(refunded_minor=150_000), lines=[row("L1", 150_000, refunded_minor=150_000)], refunded_ids=("RF-1",)),
        POLICY, I, (R.WINDOW_EXPIRED,), 0,
    ),
    "paid twice, goods refunded once": (
        order(payments=(payment(), payment(id="P2"))),
        books(
            paid(refunded_minor=250_000),
            lines=[row("L1", 150_000, refunded_minor=150_000), row("L2", 100_000, refunded_minor=100_000)],
            refunded_ids=("RF-1",),
        ),
        POLICY, I, (R.ALREADY_REFUNDED,), 0,
    ),
    "paid twice, one line refunded and one asked for": (
        order(payments=(payment(), payment(id="P2"))),
        books(
            paid(refunded_minor=150_000, reserved_minor=100_000),
            lines=[row("L1", 150_000, refunded_minor=150_000), row("L2", 100_000, reserved_minor=100_000)],
            open_ids=("RF-3",),
            refunded_ids=("RF-1",),
        ),
        POLICY, I, (R.REQUEST_OPEN,), 0,
    ),
    "the goods are worth less than was captured": (
        order(payments=(payment(captured_minor=900_000),)), books(), POLICY, E, (R.WITHIN_WINDOW,), 250_000,
    ),
    "discounts are not paid back": (
        order(lines=(line(discount_minor=15_000), second_line(discount_minor=10_000))),
        books(), POLICY, E, (R.WITHIN_WINDOW,), 225_000,
    ),
    "refunded already, expired since": (
        order(delivered_at=EARLIER), books(paid(refunded_minor=250_000), refunded_ids=("RF-1",)),
        POLICY, I, (R.ALREADY_REFUNDED,), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_boundary_of_the_policy(name):
    case, ledger, policy, verdict, reasons, most = CASES[name]

    found = assess(case, ledger, policy, NOON)

    assert (found.verdict, found.reasons, found.max_refundable_minor) == (verdict, reasons, most)


@pytest.mark.parametrize("name", CASES)
def test_every_reason_of_order_and_lines_has_its_sentence_in_both_languages(name):
    case, ledger, policy, *_ = CASES[name]
    found = assess(case, ledger, policy, NOON)
    spoken = [(r, found.facts) for r in found.reasons]
    spoken += [(r, part.facts) for part in found.lines for r in part.reasons]

    texts = [sentence(r, lang, **facts) for (r, facts), lang in product(spoken, ("vi", "en"))]

    assert all(text and "{" not in text and "None" not in text for text in texts)


@pytest.mark.parametrize("name", CASES)
def test_only_an_open_verdict_has_money_to_ask_for(name):
    case, ledger, policy, *_ = CASES[name]
    found = assess(case, ledger, policy, NOON)

    assert (found.verdict is Verdict.INELIGIBLE) == (found.max_refundable_minor == 0)
    for part in found.lines:
        assert part.refundable_minor == 0 or part.verdict is not Verdict.INELIGIBLE


# now, delivered, days, last day, eligible
DAYS = {
    "12 days": ("2026-10-13T12:00+07:00", "2026-10-01T10:00+07:00", 12, "2026-10-31", True),
    "day 0": ("2026-10-01T23:59+07:00", "2026-10-01T10:00+07:00", 0, "2026-10-31", True),
    "last second of day 30": ("2026-10-31T23:59:59+07:00", "2026-10-01T10:00+07:00", 30, "2026-10-31", True),
    "first second of day 31": ("2026-11-01T00:00+07:00", "2026-10-01T10:00+07:00", 31, "2026-10-31", False),
    "the same instant in UTC": ("2026-10-31T17:00Z", "2026-10-01T10:00+07:00", 31, "2026-10-31", False),
    "a UTC date would be one day off": ("2026-10-31T12:00+07:00", "2026-09-30T18:30Z", 30, "2026-10-31", True),
    "later in the day than the delivery": ("2026-10-31T16:00+07:00", "2026-10-01T15:00+07:00", 30, "2026-10-31", True),
    "day only": ("2026-10-31T23:59:59+07:00", "2026-10-01", 30, "2026-10-31", True),
    "day only, a day later": ("2026-11-01T00:00+07:00", "2026-10-01", 31, "2026-10-31", False),
    "a little ahead, across midnight": ("2026-10-01T23:55+07:00", "2026-10-02T00:04+07:00", 0, "2026-11-01", True),
}  # fmt: skip


def moment(text: str) -> datetime | date:
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)


@pytest.mark.parametrize("name", DAYS)
def test_days_are_civil_days_in_the_policys_zone(name):
    now, delivered, days, last, eligible = DAYS[name]

    found = assess(order(delivered_at=moment(delivered)), books(), POLICY, moment(now))

    assert (found.days_since_delivery, str(found.last_day)) == (days, last)
    assert found.verdict is (Verdict.ELIGIBLE if eligible else Verdict.INELIGIBLE)
    assert last_day(moment(delivered), POLICY) == found.last_day


def test_another_zone_has_other_days():
    delivered = datetime(2026, 9, 30, 18, 30, tzinfo=UTC)
    utc = replace(POLICY, time_zone="UTC")

    assert last_day(delivered, utc) == date(2026, 10, 30)
    assert last_day(delivered, POLICY) == date(2026, 10, 31)


def test_a_clock_change_does_not_move_the_deadline():
    berlin = replace(POLICY, time_zone="Europe/Berlin")  # back to winter time on 2026-10-25
    delivered = datetime(2026, 9, 30, 23, 30, tzinfo=timezone(timedelta(hours=2)))

    assert last_day(delivered, berlin) == date(2026, 10, 30)
    assert days_since(delivered, berlin, datetime(2026, 10, 30, 22, 59, tzinfo=UTC)) == 30
    assert days_since(delivered, berlin, datetime(2026, 10, 30, 23, 0, tzinfo=UTC)) == 31


def test_days_are_told_with_the_window_switched_off():
    found = assess(order(delivered_at=EARLIER), books(), NO_WINDOW, NOON)

    assert (found.days_since_delivery, found.last_day, found.window_days) == (33, None, None)


def test_a_window_of_no_days_ends_with_the_day_of_delivery():
    same_day = replace(POLICY, window_days=0)

    assert assess(order(delivered_at=NOON), books(), same_day, NOON).verdict is Verdict.ELIGIBLE
    late = assess(order(delivered_at=NOON), books(), same_day, NOON + timedelta(hours=12))
    assert late.verdict is Verdict.INELIGIBLE


def test_the_orders_days_are_those_of_the_open_line_that_ends_first():
    lines = (
        line(delivered_at=DELIVERED + timedelta(days=5)),
        second_line(delivered_at=DELIVERED),
        second_line(id="L3", delivered_at=EARLIER),
    )

    found = assess(partly(*lines), books(), POLICY, NOON)

    assert (found.days_since_delivery, found.last_day) == (12, date(2026, 10, 31))
    expired = found.lines[2]
    assert sentence(expired.reasons[0], "en", **expired.facts) == (
        "Delivered 33 days ago, past the 30 days; the last day was 2026-10-10."
    )


@pytest.mark.parametrize(
    ("ledger", "ids"),
    [
        (books(paid(refunded_minor=250_000), refunded_ids=("RF-1", "RF-2")), "RF-1, RF-2"),
        (books(paid(reserved_minor=250_000), open_ids=("RF-3",), refunded_ids=("RF-1",)), "RF-3"),
        (books(paid(refunded_minor=250_000)), "—"),
    ],
)
def test_what_took_the_money_is_named(ledger, ids):
    found = assess(order(), ledger, POLICY, NOON)

    assert ids in sentence(found.reasons[0], "vi", **found.facts)


def test_an_undelivered_line_has_no_days_of_its_own():
    case = replace(partly(line(delivered_at=DELIVERED), second_line()), delivered_at=DELIVERED)

    arrived, missing = assess(case, books(), POLICY, NOON).lines

    assert (arrived.days_since_delivery, missing.days_since_delivery) == (12, None)
    assert (missing.last_day, missing.refundable_minor) == (None, 0)


def test_a_taken_line_names_its_request_while_the_other_line_stays_open():
    ledger = books(
        paid(reserved_minor=150_000),
        lines=[row("L1", 150_000, reserved_minor=150_000, units_taken=1)],
        open_ids=("RF-3",),
    )

    taken, free = assess(order(), ledger, POLICY, NOON).lines

    assert (taken.reasons, taken.units_left) == ((Reason.REQUEST_OPEN,), 0)
    assert taken.facts["request_ids"] == "RF-3"
    assert (free.verdict, free.refundable_minor, free.units_left) == (E, 100_000, 1)


def test_the_assessment_names_the_policy_it_was_made_under():
    found = assess(order(), books(), POLICY, NOON)

    assert (found.policy_id, found.policy_version, found.policy_hash) == ("test", 3, "abc")


@pytest.mark.parametrize(
    ("case", "now"),
    [
        (order(), datetime(2026, 10, 13)),  # noqa: DTZ001 - the fault under test
        (order(delivered_at=datetime(2026, 10, 1)), NOON),  # noqa: DTZ001 - the fault under test
    ],
)
def test_a_time_without_zone_is_refused_rather_than_read_in_the_machines_zone(case, now):
    with pytest.raises(InvalidInput, match="has no time zone"):
        assess(case, books(), POLICY, now)


@pytest.mark.parametrize(
    ("cumulative", "level"),
    [
        (1, 0), (200_000, 0), (200_001, 1), (250_000, 1), (2_000_000, 1), (2_000_001, 2), (20_000_000, 2),
    ],
)  # fmt: skip
def test_the_level_is_the_lowest_whose_limit_holds_the_cumulative_amount(cumulative, level):
    assert required_level(POLICY, "VND", cumulative) == level


def test_above_the_top_limit_is_refused_with_both_amounts():
    with pytest.raises(RefundRefused) as refused:
        required_level(POLICY, "VND", 20_000_001)

    assert refused.value.reason is Reason.ABOVE_POLICY_LIMIT
    assert "20.000.001\u00a0₫" in refused.value.sentence("vi")
    assert "20.000.000\u00a0₫" in refused.value.sentence("en")


def test_a_currency_without_limits_needs_the_top_level_at_any_amount():
    assert [required_level(POLICY, "USD", amount) for amount in (1, 10**12)] == [2, 2]
    assert required_approvals(POLICY, "USD", 10**12) == 1


@pytest.mark.parametrize(
    ("cumulative", "people"), [(9_999_999, 1), (10_000_000, 2), (20_000_000, 2)]
)
def test_four_eyes_from_the_threshold_on(cumulative, people):
    assert required_approvals(POLICY, "VND", cumulative) == people


def test_without_a_threshold_one_person_is_enough():
    limits = {"VND": replace(VND, four_eyes_from=None)}

    assert required_approvals(replace(POLICY, limits=limits), "VND", 20_000_000) == 1


amounts = st.integers(0, 400_000)
instants = st.datetimes(datetime(2026, 8, 1), datetime(2026, 12, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants naive bounds


@given(delivered=instants | st.none(), first=instants, second=instants)
def test_time_alone_never_makes_an_expired_order_eligible(delivered, first, second):
    earlier, later = sorted((first, second))
    case = order(delivered_at=delivered)
    before = assess(case, books(), POLICY, earlier)
    after = assess(case, books(), POLICY, later)

    if before.verdict is Verdict.INELIGIBLE:
        assert after.verdict is Verdict.INELIGIBLE
    for found in (before, after):
        assert found.days_since_delivery is None or found.days_since_delivery >= 0


balances = st.builds(
    PaymentBalance,
    payment_id=st.sampled_from(["P1", "P2"]),
    captured_minor=amounts,
    reserved_minor=amounts,
    refunded_minor=amounts,
    charged_back_minor=amounts,
    overdrawn_minor=amounts,
    disputed=st.booleans(),
    frozen=st.booleans(),
)
rooms = st.builds(
    LineBalance,
    line_id=st.sampled_from(["L1", "L2"]),
    total_minor=amounts,
    quantity=st.integers(1, 5),
    reserved_minor=amounts,
    refunded_minor=amounts,
    units_taken=st.integers(0, 7),
)
ledgers = st.builds(
    OrderBooks,
    lines=st.lists(rooms, max_size=2, unique_by=lambda r: r.line_id).map(tuple),
    payments=st.lists(balances, max_size=2, unique_by=lambda b: b.payment_id).map(tuple),
    open_request_ids=st.sampled_from([(), ("RF-3",)]),
    refunded_request_ids=st.sampled_from([(), ("RF-1",)]),
)
ordered = st.builds(
    order,
    status=st.sampled_from(OrderStatus),
    currency=st.sampled_from(["VND", "USD"]),
    delivered_at=st.none() | instants | st.dates(date(2026, 8, 1), date(2026, 12, 1)),
    lines=st.lists(
        st.builds(
            line,
            unit_price_minor=amounts,
            returnable=st.booleans(),
            category=st.sampled_from(["clothing", "underwear"]),
            delivered_at=st.none() | instants,
        ),
        max_size=3,
    ).map(lambda lines: tuple(replace(part, id=f"L{i}") for i, part in enumerate(lines, 1))),
    payments=st.lists(
        st.builds(
            payment,
            captured_minor=amounts,
            method=st.sampled_from(PaymentMethod),
            currency=st.sampled_from(["VND", "USD"]),
            disputed=st.booleans(),
        ),
        max_size=2,
    ).map(lambda payments: tuple(replace(part, id=f"P{i}") for i, part in enumerate(payments, 1))),
)


def left_of(case: Order, ledger: OrderBooks) -> int:
    """The balance counted again, by hand."""
    booked = {balance.payment_id: balance for balance in ledger.payments}
    left = 0
    for money in case.payments:
        if (b := booked.get(money.id)) is None:
            left += money.captured_minor
        else:
            left += max(
                0, b.captured_minor - b.reserved_minor - b.refunded_minor - b.charged_back_minor
            )
    return left


def assert_sound(found: Assessment, case: Order, ledger: OrderBooks) -> None:
    assert 0 <= found.max_refundable_minor <= left_of(case, ledger)
    assert found.max_refundable_minor <= sum(part.refundable_minor for part in found.lines)
    assert (found.verdict is Verdict.INELIGIBLE) == (found.max_refundable_minor == 0)
    assert all(part.units_left >= 0 and part.refundable_minor >= 0 for part in found.lines)
    assert len(found.reasons) == len(set(found.reasons)) > 0


@given(case=ordered, ledger=ledgers, now=instants)
def test_whatever_the_books_say_the_answer_stays_within_the_balance(case, ledger, now):
    found = assess(case, ledger, POLICY, now)

    assert_sound(found, case, ledger)
    for lang in ("vi", "en"):
        for part in (found, *found.lines):
            assert all(sentence(r, lang, **part.facts) for r in part.reasons)


@given(case=ordered, ledger=ledgers, now=instants)
def test_eligible_means_nothing_stands_against_it(case, ledger, now):
    found = assess(case, ledger, POLICY, now)

    if found.verdict in {Verdict.ELIGIBLE, Verdict.PARTIAL}:
        assert case.status in POLICY.refundable_statuses
        assert not any(money.disputed for money in case.payments)
        assert not any(balance.disputed for balance in ledger.payments)
        booked = {b.payment_id for b in ledger.payments if b.frozen}
        assert booked.isdisjoint(money.id for money in case.payments)
        assert {case.currency} == {money.currency for money in case.payments} == {"VND"}
        assert found.days_since_delivery <= POLICY.window_days

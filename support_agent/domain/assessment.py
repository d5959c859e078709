"""The verdict of the refund policy on one order: pure functions of what is handed in.

How verdicts combine. A rule that blocks the whole order makes every line INELIGIBLE. Otherwise each
line is judged alone, and the order is INELIGIBLE when no line has anything to ask for, NEEDS_REVIEW
when a person must look at any line that has (the safer choice), PARTIAL when some lines are left
out, ELIGIBLE when none is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from types import MappingProxyType
from zoneinfo import ZoneInfo

from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.money import format_money
from support_agent.domain.orders import PAID_BY_HAND, Moment, Order, OrderLine, OrderStatus
from support_agent.domain.policy import (
    Assessment,
    LineAssessment,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Policy,
    Verdict,
)
from support_agent.domain.reasons import Reason

# Two clocks differ a little; a delivery further ahead than this is wrong data.
CLOCK_TOLERANCE = timedelta(minutes=10)

# The window counts from a delivery: an order of any other status has no day to count from.
DELIVERED_STATUSES = frozenset({OrderStatus.DELIVERED, OrderStatus.PARTIALLY_DELIVERED})

BLOCKING_STATUSES: Mapping[OrderStatus, Reason] = MappingProxyType(
    {
        OrderStatus.PLACED: Reason.ORDER_NOT_PAID,
        OrderStatus.PAID: Reason.ORDER_NOT_SHIPPED,
        OrderStatus.SHIPPING: Reason.ORDER_SHIPPING,
        OrderStatus.CANCELLED: Reason.ORDER_CANCELLED,
    }
)
_TAKEN = frozenset({Reason.REQUEST_OPEN, Reason.ALREADY_REFUNDED})


def assess(order: Order, books: OrderBooks, policy: Policy, now: datetime) -> Assessment:
    """What may be refunded of this order now, and why; `now` is aware.

    A payment or line our books do not hold yet counts with the order's own figures, nothing taken.
    """
    case = _open_case(order, books, policy, _aware("now", now))
    lines = tuple(_assess_line(case, line) for line in order.lines)
    verdict = _order_verdict(lines)
    reasons = _order_reasons(case, lines)
    deciding = _deciding_line(lines)
    days = deciding.days_since_delivery if deciding else None
    last = deciding.last_day if deciding else None
    room = sum(line.refundable_minor for line in lines)
    return Assessment(
        order_id=order.id,
        verdict=verdict,
        reasons=reasons,
        lines=lines,
        currency=order.currency,
        days_since_delivery=days,
        last_day=last,
        window_days=policy.window_days,
        max_refundable_minor=min(case.left_minor, room),
        facts=_facts(case, reasons, days, last),
        policy_id=policy.id,
        policy_version=policy.version,
        policy_hash=policy.hash,
    )


def last_day(delivered: Moment, policy: Policy) -> date | None:
    """The last civil day on which a refund may be asked for; None when the policy has no window."""
    if policy.window_days is None:
        return None
    return _local_date(delivered, policy) + timedelta(days=policy.window_days)


def days_since(delivered: Moment, policy: Policy, now: datetime) -> int | None:
    """Civil days from delivery to now in the policy's zone; None when it lies in the future."""
    today = _local_date(now, policy)
    if isinstance(delivered, datetime):
        ahead = _aware("delivered_at", delivered) > now + CLOCK_TOLERANCE
    else:
        ahead = delivered > today
    return None if ahead else max(0, (today - _local_date(delivered, policy)).days)


def required_level(policy: Policy, currency: str, cumulative_minor: int) -> int:
    """The approver level the order's cumulative amount needs; 0 is automatic.

    A currency without limits needs the top level.

    Raises:
        RefundRefused: the amount is above what any level may let pass.
    """
    limits = policy.limits.get(currency)
    if limits is None:
        return policy.top_level
    for level, limit in enumerate((limits.auto, *limits.levels)):
        if cumulative_minor <= limit:
            return level
    raise RefundRefused(
        Reason.ABOVE_POLICY_LIMIT,
        cumulative=format_money(cumulative_minor, currency),
        limit=format_money(limits.levels[-1], currency),
    )


def required_approvals(policy: Policy, currency: str, cumulative_minor: int) -> int:
    """How many different persons must approve: two from the four-eyes threshold on."""
    limits = policy.limits.get(currency)
    if limits is None or limits.four_eyes_from is None:
        return 1
    return 2 if cumulative_minor >= limits.four_eyes_from else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What is the same for every line of the order."""

    order: Order
    books: OrderBooks
    policy: Policy
    now: datetime
    left_minor: int
    blocked: Reason | None  # nothing of this order may be refunded
    reviews: tuple[Reason, ...]  # whatever may be refunded, a person looks first


def _open_case(order: Order, books: OrderBooks, policy: Policy, now: datetime) -> _Case:
    payments = _payment_balances(order, books)
    return _Case(
        order=order,
        books=books,
        policy=policy,
        now=now,
        left_minor=sum(payment.left_minor for payment in payments.values()),
        blocked=_blocked(order, books, policy, payments.values()),
        reviews=_reviews(order, policy, payments),
    )


def _payment_balances(order: Order, books: OrderBooks) -> dict[str, PaymentBalance]:
    booked = {balance.payment_id: balance for balance in books.payments}
    return {
        payment.id: booked.get(payment.id)
        or PaymentBalance(payment_id=payment.id, captured_minor=payment.captured_minor)
        for payment in order.payments
    }


def _line_balance(books: OrderBooks, line: OrderLine) -> LineBalance:
    booked = {balance.line_id: balance for balance in books.lines}
    return booked.get(line.id) or LineBalance(
        line_id=line.id, total_minor=line.total_minor, quantity=line.quantity
    )


def _blocked(
    order: Order, books: OrderBooks, policy: Policy, payments: Iterable[PaymentBalance]
) -> Reason | None:
    payments = tuple(payments)
    spent = not any(payment.left_minor for payment in payments)
    # One disputed payment blocks the order: the dispute may be about the very same goods.
    disputed = any(p.disputed for p in order.payments) or any(p.disputed for p in books.payments)
    charged_back = any(payment.charged_back_minor for payment in payments)
    reserved = books.open_request_ids or any(payment.reserved_minor for payment in payments)
    rules = (
        (order.status in BLOCKING_STATUSES, BLOCKING_STATUSES.get(order.status)),
        # Goods have come, but not all, under a policy that waits for all of them.
        (_waits_for_delivery(order, policy), Reason.ORDER_SHIPPING),
        (not any(payment.captured_minor for payment in payments), Reason.ORDER_NOT_PAID),
        (any(p.currency != order.currency for p in order.payments), Reason.CURRENCY_MISMATCH),
        (disputed or (charged_back and spent), Reason.DISPUTED),
        (spent and reserved, Reason.REQUEST_OPEN),
        (spent, Reason.ALREADY_REFUNDED),
    )
    return next((reason for holds, reason in rules if holds), None)


def _waits_for_delivery(order: Order, policy: Policy) -> bool:
    partly = OrderStatus.PARTIALLY_DELIVERED
    return order.status is partly and partly not in policy.refundable_statuses


def _reviews(
    order: Order, policy: Policy, payments: Mapping[str, PaymentBalance]
) -> tuple[Reason, ...]:
    with_money = [p for p in order.payments if payments[p.id].left_minor]
    by_hand = all(payment.method in PAID_BY_HAND for payment in with_money)
    refundable = DELIVERED_STATUSES & policy.refundable_statuses
    rules = (
        # Fails closed: what the policy does not name as refundable is never paid unseen.
        (order.status not in refundable, Reason.STATUS_UNKNOWN),
        (any(payment.frozen for payment in payments.values()), Reason.PAYMENT_FROZEN),
        (order.currency not in policy.limits, Reason.CURRENCY_WITHOUT_LIMITS),
        (by_hand, Reason.PAYMENT_NEEDS_PERSON),
    )
    return tuple(reason for holds, reason in rules if holds)


def _assess_line(case: _Case, line: OrderLine) -> LineAssessment:
    balance = _line_balance(case.books, line)
    delivered = _delivered_at(case.order, line)
    days = None if delivered is None else days_since(delivered, case.policy, case.now)
    known = None if days is None else delivered
    last = None if known is None else last_day(known, case.policy)
    verdict, reasons = _judge_line(case, line, balance, days)
    return LineAssessment(
        line_id=line.id,
        verdict=verdict,
        reasons=reasons,
        days_since_delivery=days,
        last_day=last,
        refundable_minor=0 if verdict is Verdict.INELIGIBLE else balance.left_minor,
        units_left=max(0, balance.quantity - balance.units_taken),
        facts=_facts(case, reasons, days, last),
    )


def _delivered_at(order: Order, line: OrderLine) -> Moment | None:
    """The line's own date; the order's only when all of it was delivered. Never the order date."""
    if line.delivered_at is not None or order.status is not OrderStatus.DELIVERED:
        return line.delivered_at
    return order.delivered_at


def _judge_line(
    case: _Case, line: OrderLine, balance: LineBalance, days: int | None
) -> tuple[Verdict, tuple[Reason, ...]]:
    if reason := case.blocked or _left_out(case, line, balance, days):
        return Verdict.INELIGIBLE, (reason,)
    if reviews := (*case.reviews, *_date_doubts(case, line, days)):
        return Verdict.NEEDS_REVIEW, reviews
    return Verdict.ELIGIBLE, () if case.policy.window_days is None else (Reason.WITHIN_WINDOW,)


def _left_out(
    case: _Case, line: OrderLine, balance: LineBalance, days: int | None
) -> Reason | None:
    taken = balance.reserved_minor + balance.refunded_minor > 0
    gone = taken and balance.left_minor == 0
    excluded = not line.returnable or line.category in case.policy.excluded_categories
    partly = case.order.status is OrderStatus.PARTIALLY_DELIVERED
    rules = (
        (excluded, Reason.NON_RETURNABLE),
        (gone and balance.reserved_minor > 0, Reason.REQUEST_OPEN),
        (gone, Reason.ALREADY_REFUNDED),
        (partly and line.delivered_at is None, Reason.LINE_NOT_DELIVERED),
        (_expired(case, days), Reason.WINDOW_EXPIRED),
    )
    return next((reason for holds, reason in rules if holds), None)


def _expired(case: _Case, days: int | None) -> bool:
    window = case.policy.window_days
    # Dates beside a status nobody understands prove nothing: the person who looks judges them.
    if window is None or days is None or case.order.status not in DELIVERED_STATUSES:
        return False
    return days > window


def _date_doubts(case: _Case, line: OrderLine, days: int | None) -> tuple[Reason, ...]:
    if days is not None:
        return ()
    if _delivered_at(case.order, line) is not None:
        return (Reason.CLOCK_OR_DATA,)
    delivered = case.order.status is OrderStatus.DELIVERED
    return (Reason.DELIVERED_AT_MISSING,) if delivered else ()


def _askable(lines: Iterable[LineAssessment]) -> list[LineAssessment]:
    """Lines with money to ask for: a free gift neither opens nor narrows a refund."""
    return [line for line in lines if line.refundable_minor]


def _order_verdict(lines: tuple[LineAssessment, ...]) -> Verdict:
    askable = _askable(lines)
    if not askable:
        return Verdict.INELIGIBLE
    if any(line.verdict is Verdict.NEEDS_REVIEW for line in askable):
        return Verdict.NEEDS_REVIEW
    some_left_out = any(line.verdict is Verdict.INELIGIBLE for line in lines)
    return Verdict.PARTIAL if some_left_out else Verdict.ELIGIBLE


def _order_reasons(case: _Case, lines: tuple[LineAssessment, ...]) -> tuple[Reason, ...]:
    """Reasons that are true of the order with the order's facts; the others stay at their lines.

    "Refunded already" is said of an order only when nothing else is left of it, "expired" only when
    no line is still open, because one set of days stands behind the order's sentences.
    """
    if case.blocked:
        return (case.blocked,)
    askable = sorted(_askable(lines), key=lambda line: line.verdict is not Verdict.NEEDS_REVIEW)
    left_out = _distinct(line for line in lines if line.verdict is Verdict.INELIGIBLE)
    if askable:
        untrue = {*_TAKEN, Reason.WINDOW_EXPIRED}
        lifted = [reason for reason in left_out if reason not in untrue]
        return tuple(dict.fromkeys((*_distinct(askable), *lifted)))
    if others := tuple(reason for reason in left_out if reason not in _TAKEN):
        return others
    if Reason.REQUEST_OPEN in left_out:
        return (Reason.REQUEST_OPEN,)
    return left_out or (Reason.ORDER_NOT_PAID,)  # nothing on it cost anything


def _distinct(lines: Iterable[LineAssessment]) -> tuple[Reason, ...]:
    return tuple(dict.fromkeys(reason for line in lines for reason in line.reasons))


def _deciding_line(lines: tuple[LineAssessment, ...]) -> LineAssessment | None:
    """Of the lines the order's answer speaks about, the one whose time ends first."""
    expired = [line for line in lines if Reason.WINDOW_EXPIRED in line.reasons]
    group = _askable(lines) or expired or lines
    dated = [line for line in group if line.days_since_delivery is not None]
    return max(dated, key=lambda line: line.days_since_delivery or 0, default=None)


def _facts(
    case: _Case, reasons: tuple[Reason, ...], days: int | None, last: date | None
) -> Mapping[str, str]:
    books = case.books
    is_open = Reason.REQUEST_OPEN in reasons
    ids = books.open_request_ids if is_open else books.refunded_request_ids
    facts = {
        "currency": case.order.currency,
        "request_ids": ", ".join(ids) or "—",  # refunded outside, without a request of ours
        "days": days,
        "window": case.policy.window_days,
        "last_day": None if last is None else last.isoformat(),
    }
    return MappingProxyType({k: str(v) for k, v in facts.items() if v is not None})


def _local_date(moment: Moment, policy: Policy) -> date:
    # A datetime is a date too, in Python: the instant has to be asked for first.
    if isinstance(moment, datetime):
        return _aware("moment", moment).astimezone(ZoneInfo(policy.time_zone)).date()
    return moment


def _aware(field: str, moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        # Otherwise it would be read in the zone of whichever machine this runs on.
        raise InvalidInput(field, f"has no time zone: {moment.isoformat()}")
    return moment

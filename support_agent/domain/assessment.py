"""The verdict of the refund policy on one order: pure functions of what is handed in.

How verdicts combine. A rule that blocks the whole order makes every line INELIGIBLE. Otherwise each
line is judged alone, and the order is INELIGIBLE when no line has anything to ask for, NEEDS_REVIEW
when a person must look at any line that has (the safer choice), PARTIAL when some lines are left
out, ELIGIBLE when none is. Shipping follows the goods: it never narrows what is said of the order.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.errors import RefundRefused
from support_agent.domain.line_verdicts import (
    DELIVERED_STATUSES,
    Case,
    assess_lines,
    distinct,
    facts_of,
)
from support_agent.domain.money import format_money
from support_agent.domain.orders import (
    OVERPAID,
    PAID_BY_HAND,
    LineKind,
    Order,
    OrderLine,
    OrderStatus,
)
from support_agent.domain.policy import (
    Assessment,
    LineAssessment,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Policy,
    Verdict,
)
from support_agent.domain.promotions import at_stake, held_back
from support_agent.domain.reasons import Reason
from support_agent.domain.returns import all_of_it
from support_agent.domain.window import aware

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
    case = _open_case(order, books, policy, aware("now", now))
    lines = assess_lines(case)
    reasons = _order_reasons(case, lines)
    deciding = _deciding_line(lines)
    days = deciding.days_since_delivery if deciding else None
    last = deciding.last_day if deciding else None
    return Assessment(
        order_id=order.id,
        verdict=_order_verdict(lines),
        reasons=reasons,
        lines=lines,
        currency=order.currency,
        days_since_delivery=days,
        last_day=last,
        window_days=policy.window_days,
        max_refundable_minor=min(case.left_minor, all_of_it(lines, case.stake)),
        left_minor=case.left_minor,
        overpaid_minor=_overpaid(case),
        promotion=case.stake,
        facts=facts_of(case, reasons, days, last),
        policy_id=policy.id,
        policy_version=policy.version,
        policy_hash=policy.hash,
    )


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


def _open_case(order: Order, books: OrderBooks, policy: Policy, now: datetime) -> Case:
    payments = _payment_balances(order, books)
    balances = {line.id: _line_balance(books, line) for line in order.lines}
    stake = at_stake(order, policy)
    return Case(
        order=order,
        books=books,
        policy=policy,
        now=now,
        left_minor=sum(payment.left_minor for payment in payments.values()),
        blocked=_blocked(order, books, policy, payments.values()),
        reviews=_reviews(order, policy, payments),
        balances=MappingProxyType(balances),
        stake=stake,
        held=MappingProxyType(held_back(stake, balances.values()) if stake else {}),
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
    disputed = _is_disputed(order, books)
    charged_back = any(payment.charged_back_minor for payment in payments)
    reserved = books.open_request_ids or any(payment.reserved_minor for payment in payments)
    rules = (
        (order.status in BLOCKING_STATUSES, BLOCKING_STATUSES.get(order.status)),
        # Goods have come, but not all, under a policy that waits for all of them.
        (_waits_for_delivery(order, policy), Reason.ORDER_SHIPPING),
        (not any(payment.captured_minor for payment in payments), Reason.ORDER_NOT_PAID),
        (_has_foreign_money(order), Reason.CURRENCY_MISMATCH),
        (disputed or (charged_back and spent), Reason.DISPUTED),
        (spent and reserved, Reason.REQUEST_OPEN),
        (spent, Reason.ALREADY_REFUNDED),
    )
    return next((reason for holds, reason in rules if holds), None)


def _is_disputed(order: Order, books: OrderBooks) -> bool:
    return any(p.disputed for p in order.payments) or any(p.disputed for p in books.payments)


def _has_foreign_money(order: Order) -> bool:
    return any(payment.currency != order.currency for payment in order.payments)


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


def _askable(lines: Iterable[LineAssessment]) -> list[LineAssessment]:
    """Lines with money to ask for: a free gift neither opens nor narrows a refund."""
    return [line for line in lines if line.refundable_minor]


def _order_verdict(lines: tuple[LineAssessment, ...]) -> Verdict:
    askable = _askable(lines)
    if not askable:
        return Verdict.INELIGIBLE
    if any(line.verdict is Verdict.NEEDS_REVIEW for line in askable):
        return Verdict.NEEDS_REVIEW
    some_left_out = any(line.verdict is Verdict.INELIGIBLE for line in _speaking(lines))
    return Verdict.PARTIAL if some_left_out else Verdict.ELIGIBLE


def _order_reasons(case: Case, lines: tuple[LineAssessment, ...]) -> tuple[Reason, ...]:
    """Reasons that are true of the order with the order's facts; the others stay at their lines.

    "Refunded already" is said of an order only when nothing else is left of it, "expired" only when
    no line is still open, because one set of days stands behind the order's sentences.
    """
    if case.blocked:
        return (case.blocked,)
    askable = sorted(_askable(lines), key=lambda line: line.verdict is not Verdict.NEEDS_REVIEW)
    left_out = distinct(line for line in _speaking(lines) if line.verdict is Verdict.INELIGIBLE)
    if askable:
        untrue = {*_TAKEN, Reason.WINDOW_EXPIRED}
        lifted = [reason for reason in left_out if reason not in untrue]
        return tuple(dict.fromkeys((*distinct(askable), *lifted)))
    if others := tuple(reason for reason in left_out if reason not in _TAKEN):
        return others
    if Reason.REQUEST_OPEN in left_out:
        return (Reason.REQUEST_OPEN,)
    return left_out or (Reason.ORDER_NOT_PAID,)  # nothing on it cost anything


def _speaking(lines: tuple[LineAssessment, ...]) -> tuple[LineAssessment, ...]:
    """The lines whose verdicts are the order's: shipping only where there is nothing else."""
    return tuple(line for line in lines if line.kind is LineKind.GOODS) or lines


def _deciding_line(lines: tuple[LineAssessment, ...]) -> LineAssessment | None:
    """Of the lines the order's answer speaks about, the one whose time ends first."""
    expired = [line for line in _speaking(lines) if Reason.WINDOW_EXPIRED in line.reasons]
    group = _askable(lines) or expired or lines
    dated = [line for line in group if line.days_since_delivery is not None]
    return max(dated, key=lambda line: line.days_since_delivery or 0, default=None)


def _overpaid(case: Case) -> int:
    """What is left on the payments beyond the lines; whatever the order's status and dates."""
    if _is_disputed(case.order, case.books) or _has_foreign_money(case.order):
        return 0
    booked = next((b for b in case.books.lines if b.line_id == OVERPAID), None)
    room = case.order.overpaid_minor if booked is None else booked.left_minor
    owed = sum(balance.left_minor for balance in case.balances.values())
    return min(room, max(0, case.left_minor - owed))

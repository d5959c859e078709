"""The verdict on each line of an order; shipping is judged by what was found of the goods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType

from support_agent.domain.orders import LineKind, Moment, Order, OrderLine, OrderStatus
from support_agent.domain.policy import (
    LineAssessment,
    LineBalance,
    OrderBooks,
    Policy,
    PromotionAtStake,
    ShippingRule,
    Verdict,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.returns import all_parts, keeps_goods, money_back, units_back
from support_agent.domain.window import days_since, last_day

# The window counts from a delivery: an order of any other status has no day to count from.
DELIVERED_STATUSES = frozenset({OrderStatus.DELIVERED, OrderStatus.PARTIALLY_DELIVERED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is the same for every line of the order."""

    order: Order
    books: OrderBooks
    policy: Policy
    now: datetime
    left_minor: int
    blocked: Reason | None  # nothing of this order may be refunded
    reviews: tuple[Reason, ...]  # whatever may be refunded, a person looks first
    balances: Mapping[str, LineBalance]  # of every line
    stake: PromotionAtStake | None
    held: Mapping[str, int]  # what a lost promotion keeps of units that came back, by line


def assess_lines(case: Case) -> tuple[LineAssessment, ...]:
    """Every line in the order's order; shipping is judged by what was found of the goods."""
    goods = {
        line.id: _assess_goods(case, line)
        for line in case.order.lines
        if line.kind is LineKind.GOODS
    }
    found = tuple(goods.values())
    return tuple(
        goods.get(line.id) or _assess_shipping(case, line, found) for line in case.order.lines
    )


def _assess_goods(case: Case, line: OrderLine) -> LineAssessment:
    balance = case.balances[line.id]
    delivered = _delivered_at(case.order, line)
    days = None if delivered is None else days_since(delivered, case.policy, case.now)
    known = None if days is None else delivered
    last = None if known is None else last_day(known, case.policy)
    verdict, reasons = _judge_goods(case, line, balance, days)
    held = case.held.get(line.id, 0)
    room = max(0, money_back(line, balance, case.policy) - held)
    return LineAssessment(
        line_id=line.id,
        balance=balance,
        kind=line.kind,
        verdict=verdict,
        reasons=reasons,
        days_since_delivery=days,
        last_day=last,
        refundable_minor=0 if verdict is Verdict.INELIGIBLE else room,
        held_minor=held,
        units_left=units_back(line, balance, case.policy),
        facts=facts_of(case, reasons, days, last),
    )


def _assess_shipping(
    case: Case, line: OrderLine, goods: tuple[LineAssessment, ...]
) -> LineAssessment:
    """Refundable where the policy's rule gives it; its days are those of the newest goods."""
    balance = case.balances[line.id]
    dated = [part for part in goods if part.days_since_delivery is not None]
    latest = min(dated, key=lambda part: part.days_since_delivery or 0, default=None)
    days = latest.days_since_delivery if latest else None
    last = latest.last_day if latest else None
    verdict, reasons = _judge_shipping(case, balance, goods, days)
    return LineAssessment(
        line_id=line.id,
        balance=balance,
        kind=line.kind,
        verdict=verdict,
        reasons=reasons,
        days_since_delivery=days,
        last_day=last,
        refundable_minor=0 if verdict is Verdict.INELIGIBLE else balance.left_minor,
        held_minor=0,
        units_left=balance.units_kept,
        facts=facts_of(case, reasons, days, last),
    )


def _delivered_at(order: Order, line: OrderLine) -> Moment | None:
    """The line's own date; the order's only when all of it was delivered. Never the order date."""
    if line.delivered_at is not None or order.status is not OrderStatus.DELIVERED:
        return line.delivered_at
    return order.delivered_at


def _judge_goods(
    case: Case, line: OrderLine, balance: LineBalance, days: int | None
) -> tuple[Verdict, tuple[Reason, ...]]:
    if reason := case.blocked or _left_out(case, line, balance, days):
        return Verdict.INELIGIBLE, (reason,)
    if reviews := (*case.reviews, *_doubts(case, line, days)):
        return Verdict.NEEDS_REVIEW, reviews
    return Verdict.ELIGIBLE, _within(case)


def _judge_shipping(
    case: Case, balance: LineBalance, goods: tuple[LineAssessment, ...], days: int | None
) -> tuple[Verdict, tuple[Reason, ...]]:
    rules = (
        (case.blocked is not None, case.blocked),
        (_is_gone(balance), _gone_as(balance)),
        (not _shipping_goes_back(case, goods), Reason.SHIPPING_KEPT),
        (_expired(case, days), Reason.WINDOW_EXPIRED),
    )
    if reason := next((reason for holds, reason in rules if holds), None):
        return Verdict.INELIGIBLE, (reason,)
    # A doubt about goods that are asked for is one about what goes back with them.
    doubts = distinct(part for part in goods if part.verdict is Verdict.NEEDS_REVIEW)
    undated = () if days is not None else (Reason.DELIVERED_AT_MISSING,)
    reviews = tuple(dict.fromkeys((*case.reviews, *(doubts or undated))))
    return (Verdict.NEEDS_REVIEW, reviews) if reviews else (Verdict.ELIGIBLE, _within(case))


def _shipping_goes_back(case: Case, goods: tuple[LineAssessment, ...]) -> bool:
    by_rule = case.policy.shipping is ShippingRule.FULL_RETURN
    return by_rule and not keeps_goods(goods, all_parts(goods), case.stake)


def _within(case: Case) -> tuple[Reason, ...]:
    return () if case.policy.window_days is None else (Reason.WITHIN_WINDOW,)


def _left_out(case: Case, line: OrderLine, balance: LineBalance, days: int | None) -> Reason | None:
    excluded = not line.returnable or line.category in case.policy.excluded_categories
    partly = case.order.status is OrderStatus.PARTIALLY_DELIVERED
    rules = (
        (excluded, Reason.NON_RETURNABLE),
        (_is_gone(balance, held=case.held.get(line.id, 0)), _gone_as(balance)),
        (partly and line.delivered_at is None, Reason.LINE_NOT_DELIVERED),
        (_expired(case, days), Reason.WINDOW_EXPIRED),
        (_is_not_back(case, line, balance), Reason.RETURN_NOT_RECEIVED),
    )
    return next((reason for holds, reason in rules if holds), None)


def _is_gone(balance: LineBalance, held: int = 0) -> bool:
    return balance.taken_minor > 0 and balance.left_minor - held <= 0


def _gone_as(balance: LineBalance) -> Reason:
    return Reason.REQUEST_OPEN if balance.reserved_minor > 0 else Reason.ALREADY_REFUNDED


def _is_not_back(case: Case, line: OrderLine, balance: LineBalance) -> bool:
    """Units are kept, and nothing is owed for those that came back to a shop that counts them.

    What came back may be paid in part: of two payments one failed, or an approver lowered it.
    """
    counted = case.policy.return_required and line.received_units is not None
    return (
        counted
        and balance.units_kept > 0
        and not units_back(line, balance, case.policy)
        and not money_back(line, balance, case.policy)
    )


def _expired(case: Case, days: int | None) -> bool:
    window = case.policy.window_days
    # Dates beside a status nobody understands prove nothing: the person who looks judges them.
    if window is None or days is None or case.order.status not in DELIVERED_STATUSES:
        return False
    return days > window


def _doubts(case: Case, line: OrderLine, days: int | None) -> tuple[Reason, ...]:
    """What is not known of the line; a person finds it out."""
    moment = _delivered_at(case.order, line)
    rules = (
        (days is None and moment is not None, Reason.CLOCK_OR_DATA),
        (
            moment is None and case.order.status is OrderStatus.DELIVERED,
            Reason.DELIVERED_AT_MISSING,
        ),
        (
            case.policy.return_required and line.received_units is None,
            Reason.RETURN_NOT_COUNTED,
        ),
    )
    return tuple(reason for holds, reason in rules if holds)


def distinct(lines: Iterable[LineAssessment]) -> tuple[Reason, ...]:
    """The lines' reasons, each once, in the order in which they come."""
    return tuple(dict.fromkeys(reason for line in lines for reason in line.reasons))


def facts_of(
    case: Case, reasons: tuple[Reason, ...], days: int | None, last: date | None
) -> Mapping[str, str]:
    """What fills the sentences of these reasons."""
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

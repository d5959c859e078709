"""What the tests of the refund rules share: orders, policies, and books that remember refunds."""

from collections.abc import Sequence
from dataclasses import replace

from support_agent.domain.allocation import Allocation, Wish, allocate
from support_agent.domain.assessment import assess
from support_agent.domain.orders import LineKind, Order, OrderLine, Promotion
from support_agent.domain.policy import (
    Assessment,
    LineBalance,
    OrderBooks,
    PaymentBalance,
    Policy,
    ShippingRule,
)
from support_agent.domain.refunds import RefundLine
from support_agent.testing.builders import NOW, make_line, make_order, make_payment
from tests.heart import sample_shop

NO_BOOKS = OrderBooks()
STANDARD = sample_shop().policy
# One rule at a time: each test switches on what it is about.
PLAIN = replace(
    STANDARD, tender_order=(), shipping=ShippingRule.NEVER, clawback=False, return_required=False
)
FULL_RETURN = replace(PLAIN, shipping=ShippingRule.FULL_RETURN)
CLAWBACK = replace(PLAIN, clawback=True)
COUNTED = replace(PLAIN, return_required=True)


def goods(
    line_id: str, unit_price: int, quantity: int = 1, *, off: int = 0, **changes
) -> OrderLine:
    """A goods line; `off` is what the order's promotion takes off it."""
    line = make_line(line_id, unit_price * quantity, quantity)
    discount = off + changes.pop("discount", 0)
    return replace(line, discount_minor=discount, promotion_minor=off, **changes)


def gift(line_id: str, price: int) -> OrderLine:
    return goods(line_id, price, off=price)


def shipping(line_id: str, price: int) -> OrderLine:
    return replace(make_line(line_id, price), kind=LineKind.SHIPPING, category="shipping")


def paid(*lines: OrderLine, **changes) -> Order:
    """An order of these lines, paid once and in full."""
    total = sum(line.total_minor for line in lines)
    return make_order(lines, (make_payment("P1", total),), **changes)


def promoted(threshold: int, *lines: OrderLine, gifts: Sequence[str] = ()) -> Order:
    promotion = Promotion(id="PROMO", threshold_minor=threshold, gift_line_ids=tuple(gifts))
    return paid(*lines, promotion=promotion)


def judged(order: Order, policy: Policy, books: OrderBooks = NO_BOOKS) -> Assessment:
    return assess(order, books, policy, NOW)


def asked(wish: Wish, order: Order, policy: Policy, books: OrderBooks = NO_BOOKS) -> Allocation:
    return allocate(wish, judged(order, policy, books))


def units(**lines: int) -> Wish:
    """So many units of line a, b, …"""
    return Wish(units=lines)


def parts(found: Allocation) -> list[tuple[str, int, int]]:
    """(line, units, amount) of each part."""
    return [(line.line_id, line.units, line.amount_minor) for line in found.lines]


def after(order: Order, books: OrderBooks, lines: Sequence[RefundLine]) -> OrderBooks:
    """The books once the lines were refunded, from the order's first payment on."""
    balances = {balance.line_id: balance for balance in books.lines}
    for line in order.lines:
        fresh = LineBalance(line_id=line.id, total_minor=line.total_minor, quantity=line.quantity)
        balances.setdefault(line.id, fresh)
    for part in lines:
        old = balances[part.line_id]
        balances[part.line_id] = replace(
            old,
            refunded_minor=old.refunded_minor + part.amount_minor,
            units_taken=old.units_taken + part.units,
        )
    left = sum(balance.refunded_minor for balance in balances.values())
    payments = []
    for payment in order.payments:
        gone = min(left, payment.captured_minor)
        left -= gone
        payments.append(
            PaymentBalance(
                payment_id=payment.id, captured_minor=payment.captured_minor, refunded_minor=gone
            )
        )
    return OrderBooks(lines=tuple(balances.values()), payments=tuple(payments))

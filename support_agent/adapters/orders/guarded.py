"""A shop's own orders class, held to what the port promises."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from typing import Any, TypeVar

import structlog

from support_agent.adapters.foreign import fault_of, is_ours_to_raise
from support_agent.domain.errors import OrdersUnavailable, SupportAgentError
from support_agent.domain.money import EXPONENTS, MAX_MINOR
from support_agent.domain.orders import (
    OVERPAID,
    Customer,
    LineKind,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
    Promotion,
)
from support_agent.ports.orders import OrderRepository

T = TypeVar("T")
log = structlog.get_logger(__name__)


class GuardedOrders:
    """`OrderRepository` over a foreign one.

    What it raises, what takes too long and what is no order is OrdersUnavailable, so that a fault
    in it fails closed as a database that is away does.
    """

    def __init__(self, orders: OrderRepository, *, timeout_s: float) -> None:
        self._orders = orders
        self._timeout_s = timeout_s

    async def get(self, order_id: str) -> Order | None:
        found = await self._answered(lambda: self._orders.get(order_id))
        if found is None:
            return None
        order = _order(found)
        return order if order.id == order_id else None

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        if limit < 1:
            return ()
        found = await self._answered(
            lambda: self._orders.list_for_customer(customer_id, limit=limit)
        )
        _must(isinstance(found, tuple | list), "list_for_customer answered no tuple of orders")
        orders = [_order(one) for one in found]
        return tuple(order for order in orders if order.customer_id == customer_id)[:limit]

    async def find_customer(self, customer_id: str) -> Customer | None:
        found = await self._answered(lambda: self._orders.find_customer(customer_id))
        if found is None:
            return None
        _must(isinstance(found, Customer), "find_customer answered no Customer")
        return found if found.id == customer_id else None

    async def _answered(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await ask()
        except SupportAgentError:
            raise
        except TimeoutError as error:
            raise OrdersUnavailable(
                f"the shop's orders class did not answer within {self._timeout_s:g} s"
            ) from error
        except BaseException as error:
            if is_ours_to_raise(error):
                raise
            log.error("orders.class_failed", problem=fault_of(error))  # noqa: TRY400 - see there
            raise OrdersUnavailable(
                f"the shop's orders class failed ({type(error).__name__})"
            ) from error


def _must(holds: object, problem: str) -> None:
    if not holds:
        raise OrdersUnavailable(f"the shop's orders class cannot be used: {problem}")


def _order(found: object) -> Order:
    """What was found, when each part is of its type: an order is no place for a float."""
    if not isinstance(found, Order):
        raise OrdersUnavailable("the shop's orders class answered something else than an Order")
    _must(_are_ids(found.id, found.customer_id), "an order's id or customer_id is no text")
    _must(isinstance(found.status, OrderStatus), "status is no OrderStatus")
    _must(found.currency in EXPONENTS, "currency is not known here")
    _must(_is_instant(found.placed_at), "placed_at is no aware datetime")
    _must(_is_moment(found.delivered_at), "delivered_at is neither an aware datetime nor a date")
    _must(isinstance(found.lines, tuple), "lines is no tuple")
    _must(isinstance(found.payments, tuple), "payments is no tuple")
    for line in found.lines:
        _check_line(line)
    for payment in found.payments:
        _check_payment(payment)
    _must(found.total_minor <= MAX_MINOR, "an order costs more than any can")
    _must(_is_promotion(found.promotion), "promotion is no Promotion, or its threshold no amount")
    kinds = [line.kind for line in found.lines]
    _must(kinds.count(LineKind.SHIPPING) <= 1, "it has more than one line of shipping")
    ids = {line.id for line in found.lines}
    _must(len(ids) == len(found.lines) and OVERPAID not in ids, "two lines have one id, or ours")
    names = {(p.gateway, p.account, p.gateway_payment_id) for p in found.payments}
    one_each = min(len(names), len({payment.id for payment in found.payments}))
    _must(one_each == len(found.payments), "one payment is there twice")
    return found


def _check_line(line: Any) -> None:  # noqa: ANN401 - of a class that is not ours
    _must(isinstance(line, OrderLine), "a line is no OrderLine")
    _must(_are_ids(line.id), "a line's id is no text")
    _must(isinstance(line.kind, LineKind), "a line's kind is no LineKind")
    _must(isinstance(line.returnable, bool), "returnable is neither True nor False")
    _must(_are_texts(line.name, line.category), "a line's name or category is no text")
    _must(type(line.quantity) is int and line.quantity >= 0, "a quantity is no number of units")
    amounts = (line.unit_price_minor, line.discount_minor, line.promotion_minor)
    _must(all(map(_is_amount, amounts)), "a line's amount is no whole number of minor units")
    _must(line.total_minor >= 0, "a line costs less than nothing")
    _must(line.promotion_minor <= line.discount_minor, "promotion_minor is no part of the discount")
    _must(_is_moment(line.delivered_at), "a line's delivered_at is no aware datetime and no date")
    received = line.received_units
    _must(received is None or (type(received) is int and received >= 0), "received_units is wrong")


def _check_payment(payment: Any) -> None:  # noqa: ANN401 - of a class that is not ours
    _must(isinstance(payment, Payment), "a payment is no Payment")
    ids = (payment.id, payment.gateway, payment.account, payment.gateway_payment_id)
    _must(_are_ids(*ids), "an id of a payment is no text")
    _must(isinstance(payment.method, PaymentMethod), "a payment's method is no PaymentMethod")
    _must(_is_amount(payment.captured_minor), "captured_minor is no whole number of minor units")
    _must(payment.currency in EXPONENTS, "a payment's currency is not known here")
    _must(isinstance(payment.disputed, bool), "disputed is neither True nor False")


def _are_ids(*ids: object) -> bool:
    return all(isinstance(value, str) and value for value in ids)


def _are_texts(*texts: object) -> bool:
    return all(isinstance(text, str) for text in texts)


def _is_promotion(value: object) -> bool:
    return value is None or (
        isinstance(value, Promotion)
        and _are_ids(value.id, *value.gift_line_ids)
        and _is_amount(value.threshold_minor)
    )


def _is_amount(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_MINOR


def _is_instant(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None


def _is_moment(value: object) -> bool:
    if isinstance(value, datetime):
        return _is_instant(value)
    return value is None or isinstance(value, date)

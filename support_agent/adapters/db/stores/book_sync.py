"""Creating and raising our balances from what the shop says of an order."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.stores.book_read import lines_of, payments_of
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.books import LineBalance, OrderBalance, PaymentBalance
from support_agent.domain.orders import OVERPAID, Order, Payment

ORDERS = table_of(OrderBalance)
LINES = table_of(LineBalance)
PAYMENTS = table_of(PaymentBalance)

_ORDER: sa.BindParameter[str] = sa.bindparam("order_id")
_CAPTURED = Prepared(sa.select(ORDERS.c.captured_minor).where(ORDERS.c.order_id == _ORDER))

_Stored = dict[str, Named]


class _Line(NamedTuple):
    id: str
    total_minor: int
    quantity: int


def sync_order(connection: sa.Connection, seen: Seen, order: Order) -> None:
    """Insert what is new and raise what grew; a figure that fell leaves ours as it is.

    Two may do this at once: rows are taken order -> lines -> payments, each kind by id, and a
    conflict means that the other one was first. A payment that our books know under another
    order stays there, so that nothing can be reserved on it twice.
    """
    payments = {row["payment_id"]: row for row in payments_of(connection, seen, order.id)}
    lines = {row["line_id"]: row for row in lines_of(connection, seen, order.id)}
    _sync_total(connection, seen, order, payments)
    _sync_lines(connection, order, lines)
    _sync_payments(connection, order, payments)


def _sync_total(connection: sa.Connection, seen: Seen, order: Order, payments: _Stored) -> None:
    captured = _captured(order, payments)
    here = {"order_id": order.id}
    stored: int | None = seen.once(("captured", order.id), _CAPTURED.value, connection, here)
    if stored is None:
        row = {
            "order_id": order.id,
            "customer_id": order.customer_id,
            "currency": order.currency,
            "captured_minor": captured,
        }
        insert_new(connection, ORDERS, row)
    elif captured > stored:
        connection.execute(
            sa.update(ORDERS)
            .where(ORDERS.c.order_id == order.id, ORDERS.c.captured_minor < captured)
            .values(captured_minor=captured)
        )


def _captured(order: Order, payments: _Stored) -> int:
    """The order's captured amount: over all its payments in its currency, gone ones included."""
    amounts = {
        row["payment_id"]: row["captured_minor"]
        for row in payments.values()
        if row["currency"] == order.currency
    }
    for payment in order.payments:
        if payment.currency == order.currency:
            amounts[payment.id] = max(payment.captured_minor, amounts.get(payment.id, 0))
    return sum(amounts.values())


def _sync_lines(connection: sa.Connection, order: Order, stored: _Stored) -> None:
    lines = sorted(_lines(order), key=lambda line: line.id)
    new = [_new_line(order.id, line) for line in lines if line.id not in stored]
    if new:
        insert_new(connection, LINES, *new)
    for line in lines:
        if line.id in stored:
            _raise_line(connection, line, stored[line.id])


def _lines(order: Order) -> Iterator[_Line]:
    for line in order.lines:
        # A line may be a discount: nothing to give back.
        yield _Line(line.id, max(0, line.total_minor), max(0, line.quantity))
    if order.overpaid_minor:  # no line of the order costs it, so it has one of our own
        yield _Line(OVERPAID, order.overpaid_minor, 0)


def _new_line(order_id: str, line: _Line) -> dict[str, Any]:
    return {
        "order_id": order_id,
        "line_id": line.id,
        "total_minor": line.total_minor,
        "quantity": line.quantity,
        "reserved_units": 0,
        "refunded_units": 0,
    }


def _raise_line(connection: sa.Connection, line: _Line, row: Named) -> None:
    total = max(row["total_minor"], line.total_minor)
    quantity = max(row["quantity"], line.quantity)
    if (total, quantity) == (row["total_minor"], row["quantity"]):
        return
    columns = LINES.c
    connection.execute(
        sa.update(LINES)
        .where(columns.order_id == row["order_id"], columns.line_id == line.id)
        .values(
            total_minor=_raised(columns.total_minor, total),
            quantity=_raised(columns.quantity, quantity),
        )
    )


def _sync_payments(connection: sa.Connection, order: Order, stored: _Stored) -> None:
    payments = sorted(order.payments, key=lambda payment: payment.id)
    new = [_new_payment(order.id, payment) for payment in payments if payment.id not in stored]
    if new:
        insert_new(connection, PAYMENTS, *new)
    for payment in payments:
        if payment.id in stored:
            _raise_payment(connection, payment, stored[payment.id])


def _new_payment(order_id: str, payment: Payment) -> dict[str, Any]:
    return {
        "order_id": order_id,
        "payment_id": payment.id,
        "gateway": payment.gateway,
        "account": payment.account,
        "gateway_payment_id": payment.gateway_payment_id,
        "method": payment.method,
        "currency": payment.currency,
        "captured_minor": max(0, payment.captured_minor),
        "disputed": payment.disputed,
        "frozen": False,
    }


def _raise_payment(connection: sa.Connection, payment: Payment, row: Named) -> None:
    captured = max(row["captured_minor"], payment.captured_minor)
    if (captured, payment.disputed) == (row["captured_minor"], row["disputed"]):
        return
    columns = PAYMENTS.c
    connection.execute(
        sa.update(PAYMENTS)
        .where(columns.order_id == row["order_id"], columns.payment_id == payment.id)
        .values(captured_minor=_raised(columns.captured_minor, captured), disputed=payment.disputed)
    )


def _raised(column: sa.Column[int], value: int) -> sa.ColumnElement[int]:
    """The larger of the two as the row is now: somebody may have raised it since we looked."""
    return sa.case((column < value, value), else_=column)

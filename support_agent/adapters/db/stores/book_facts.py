"""Booking what a gateway did on its own: never refused; what does not fit is `overdrawn`."""

from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.stores.ledger import ENTRIES
from support_agent.adapters.db.tables.books import AccountKind, OrderBalance, PaymentBalance
from support_agent.domain.errors import InvalidInput
from support_agent.ports.payments import PaymentRef
from support_agent.ports.storage.books import FactBooked, FactKind, GatewayFact

ORDERS = table_of(OrderBalance)
PAYMENTS = table_of(PaymentBalance)
_REFUNDS = frozenset({FactKind.EXTERNAL, FactKind.EXTERNAL_FAILED})
_TAKES_BACK = {
    FactKind.EXTERNAL_FAILED: FactKind.EXTERNAL,
    FactKind.CHARGEBACK_REVERSED: FactKind.CHARGEBACK,
}


def book_fact(connection: sa.Connection, fact: GatewayFact) -> FactBooked | None:
    """Book the fact once a reference, order before payment; see the port."""
    if fact.amount_minor <= 0:
        raise InvalidInput("amount", f"must be above zero, not {fact.amount_minor}")
    payment = _payment(connection, fact.payment, fact.currency)
    if payment is None:
        return None
    order_id, payment_id = payment["order_id"], payment["payment_id"]
    of_order = ORDERS.c.order_id == order_id
    of_payment = sa.and_(PAYMENTS.c.order_id == order_id, PAYMENTS.c.payment_id == payment_id)
    # The order's row is the lock of all that happens to it: who waits here sees the entry after.
    order = _locked(connection, ORDERS, of_order)
    change = _change(connection, fact)
    if change is None or is_booked(connection, fact):
        return None
    # An order's counters are in its own currency, like what was captured of it.
    if fact.kind in _REFUNDS and order["currency"] == fact.currency:
        _move(connection, ORDERS, of_order, order, "refunded_minor", change)
        _enter(connection, fact, change, AccountKind.ORDER, order_id, "")
    column = "refunded_minor" if fact.kind in _REFUNDS else "charged_back_minor"
    row = _locked(connection, PAYMENTS, of_payment)
    over = _move(connection, PAYMENTS, of_payment, row, column, change)
    if over or fact.freezes:
        connection.execute(sa.update(PAYMENTS).where(of_payment).values(frozen=True))
    _enter(connection, fact, change, AccountKind.PAYMENT, order_id, payment_id)
    return FactBooked(order_id=order_id, payment_id=payment_id, overdrawn_minor=over)


def is_booked(connection: sa.Connection, fact: GatewayFact) -> bool:
    """Whether a fact of this kind and reference has its entries."""
    return _booked_minor(connection, fact, fact.kind) is not None


def knows_payment(connection: sa.Connection, ref: PaymentRef, currency: str) -> bool:
    """Whether we keep books of it."""
    return _payment(connection, ref, currency) is not None


def unfreeze(connection: sa.Connection, order_id: str, payment_id: str) -> bool:
    """Let a payment be refunded again; see the port."""
    freed = connection.execute(
        sa.update(PAYMENTS)
        .where(
            PAYMENTS.c.order_id == order_id,
            PAYMENTS.c.payment_id == payment_id,
            PAYMENTS.c.frozen,
        )
        .values(frozen=False)
    )
    return freed.rowcount == 1


def set_disputed(connection: sa.Connection, ref: PaymentRef, *, disputed: bool) -> str | None:
    """Note it on our payment; see the port."""
    found: str | None = connection.scalar(
        sa.update(PAYMENTS)
        .where(*_named(ref))
        .values(disputed_at_gateway=disputed)
        .returning(PAYMENTS.c.order_id)
    )
    return found


def _payment(connection: sa.Connection, ref: PaymentRef, currency: str) -> sa.RowMapping | None:
    found = sa.select(PAYMENTS).where(*_named(ref), PAYMENTS.c.currency == currency)
    return connection.execute(found).mappings().first()


def _named(ref: PaymentRef) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        PAYMENTS.c.gateway == ref.gateway,
        PAYMENTS.c.account == ref.account,
        PAYMENTS.c.gateway_payment_id == ref.gateway_payment_id,
    )


def _locked(
    connection: sa.Connection, table: sa.Table, where: sa.ColumnElement[bool]
) -> sa.RowMapping:
    """The row as it is now; until the transaction ends nobody else moves it."""
    return connection.execute(sa.select(table).where(where).with_for_update()).mappings().one()


def _change(connection: sa.Connection, fact: GatewayFact) -> int | None:
    """What moves the counter; None when what is to be taken back is not booked."""
    taken_back = _TAKES_BACK.get(fact.kind)
    if taken_back is None:
        return fact.amount_minor
    booked = _booked_minor(connection, fact, taken_back)
    return None if booked is None else -booked


def _booked_minor(connection: sa.Connection, fact: GatewayFact, kind: FactKind) -> int | None:
    amount: int | None = connection.scalar(
        sa.select(ENTRIES.c.amount_minor).where(
            ENTRIES.c.request_id == _reference(fact),
            ENTRIES.c.kind == kind,
            ENTRIES.c.account_kind == AccountKind.PAYMENT,
        )
    )
    return amount


def _reference(fact: GatewayFact) -> str:
    """In the place of a request's id, which never looks like this."""
    return f"gateway:{fact.payment.gateway}:{fact.reference}"


def _move(
    connection: sa.Connection,
    table: sa.Table,
    where: sa.ColumnElement[bool],
    row: sa.RowMapping,
    column: str,
    change: int,
) -> int:
    """Move the counter, with as much `overdrawn` as it takes; what of the change did not fit."""
    counters = ("reserved_minor", "refunded_minor", "charged_back_minor")
    room: int = row["captured_minor"] - sum(row[name] for name in counters if name in row)
    over = max(0, change - room)
    values: dict[str, Any] = {column: row[column] + change, "overdrawn_minor": over}
    connection.execute(sa.update(table).where(where).values(values))
    return max(0, over - max(0, -room))


def _enter(
    connection: sa.Connection,
    fact: GatewayFact,
    change: int,
    kind: AccountKind,
    order_id: str,
    sub_id: str,
) -> None:
    entry = {
        "kind": fact.kind,
        "account_kind": kind,
        "account_id": order_id,
        "sub_id": sub_id,
        "request_id": _reference(fact),
        "round": 1,
        "amount_minor": abs(change),
        "units": 0,
        "currency": fact.currency,
        "at": fact.at,
    }
    connection.execute(sa.insert(ENTRIES).inline(), entry)

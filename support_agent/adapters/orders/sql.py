"""Orders in the sample shop's tables: a foreign system that happens to live in our database."""

from collections import defaultdict
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from support_agent.adapters.db.connections import Connections
from support_agent.adapters.db.dialect import insert
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.tables.shop import (
    ShopCustomer,
    ShopOrder,
    ShopOrderLine,
    ShopPayment,
)
from support_agent.adapters.orders.shop_rows import line_rows, order_row, payment_rows, to_order
from support_agent.domain.errors import DatabaseUnavailable, OrdersUnavailable
from support_agent.domain.orders import Customer, Order

T = TypeVar("T")

CUSTOMERS = table_of(ShopCustomer)
ORDERS = table_of(ShopOrder)
LINES = table_of(ShopOrderLine)
PAYMENTS = table_of(ShopPayment)

_BATCH = 500  # ids in one statement
_CUSTOMER = Prepared(sa.select(CUSTOMERS).where(CUSTOMERS.c.id == sa.bindparam("of")))
_ORDER = Prepared(sa.select(ORDERS).where(ORDERS.c.id == sa.bindparam("of")))
_LINES, _PAYMENTS = (
    Prepared(
        sa.select(table)
        .where(table.c.order_id == sa.bindparam("of"))
        .order_by(table.c.order_id, table.c.position)
    )
    for table in (LINES, PAYMENTS)
)


class SqlOrders:
    """`OrderRepository` and `ShopWriter` over the shop's tables, in transactions of its own."""

    def __init__(self, database: Connections) -> None:
        self._database = database

    async def get(self, order_id: str) -> Order | None:
        if not storable(order_id):
            return None
        return await _answered(self._database.run_read(lambda c: _one(c, order_id), brief=True))

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        if not storable(customer_id) or limit < 1:
            return ()
        newest = (
            sa.select(ORDERS)
            .where(ORDERS.c.customer_id == customer_id)
            .order_by(ORDERS.c.placed_at.desc(), ORDERS.c.id.desc())
            .limit(limit)
        )
        return await _answered(self._database.run_read(lambda c: _load(c, newest)))

    async def find_customer(self, customer_id: str) -> Customer | None:
        if not storable(customer_id):
            return None
        here = {"of": customer_id}
        row = await _answered(
            self._database.run_read(lambda c: _CUSTOMER.first_named(c, here), brief=True)
        )
        return None if row is None else Customer(**row)

    async def put_customers(self, customers: tuple[Customer, ...]) -> int:
        return await _answered(
            self._database.run_write(
                lambda c: sum(_put_customers(c, b) for b in _batches(customers))
            )
        )

    async def put_orders(self, orders: tuple[Order, ...]) -> int:
        return await _answered(
            self._database.run_write(lambda c: sum(_put_orders(c, b) for b in _batches(orders)))
        )


async def _answered(work: Awaitable[T]) -> T:
    try:
        return await work
    except DatabaseUnavailable as error:
        raise OrdersUnavailable(f"the shop's orders cannot be read: {error}") from error


def _one(connection: sa.Connection, order_id: str) -> Order | None:
    here = {"of": order_id}
    row = _ORDER.first_named(connection, here)
    if row is None:
        return None
    return to_order(row, _LINES.all_named(connection, here), _PAYMENTS.all_named(connection, here))


def _load(connection: sa.Connection, orders: sa.Select[Any]) -> tuple[Order, ...]:
    """The selected orders with their parts: three statements, however many orders."""
    rows = connection.execute(orders).mappings().all()
    ids = [row["id"] for row in rows]
    lines = _parts(connection, LINES, ids)
    payments = _parts(connection, PAYMENTS, ids)
    return tuple(to_order(row, lines[row["id"]], payments[row["id"]]) for row in rows)


def _parts(
    connection: sa.Connection, table: sa.Table, order_ids: Sequence[str]
) -> defaultdict[str, list[sa.RowMapping]]:
    parts: defaultdict[str, list[sa.RowMapping]] = defaultdict(list)
    if order_ids:
        found = connection.execute(
            sa.select(table)
            .where(table.c.order_id.in_(order_ids))
            .order_by(table.c.order_id, table.c.position)
        )
        for row in found.mappings():
            parts[row["order_id"]].append(row)
    return parts


def _customers(connection: sa.Connection, ids: Sequence[str]) -> dict[str, Customer]:
    found = connection.execute(sa.select(CUSTOMERS).where(CUSTOMERS.c.id.in_(ids))).mappings()
    return {row["id"]: Customer(**row) for row in found}


def _put_customers(connection: sa.Connection, customers: Sequence[Customer]) -> int:
    known = _customers(connection, [customer.id for customer in customers])
    changed = [customer for customer in customers if known.get(customer.id) != customer]
    rows = [{"id": c.id, "name": c.name, "language": c.language} for c in changed]
    _put(connection, CUSTOMERS, rows)
    return len(changed)


def _put_orders(connection: sa.Connection, orders: Sequence[Order]) -> int:
    ids = [order.id for order in orders]
    known = {
        order.id: order
        for order in _load(connection, sa.select(ORDERS).where(ORDERS.c.id.in_(ids)))
    }
    changed = [order for order in orders if known.get(order.id) != order]
    _put(connection, ORDERS, [order_row(order) for order in changed])
    for table, to_rows in ((LINES, line_rows), (PAYMENTS, payment_rows)):
        connection.execute(
            sa.delete(table).where(table.c.order_id.in_([order.id for order in changed]))
        )
        rows = [row for order in changed for row in to_rows(order)]
        if rows:
            connection.execute(sa.insert(table).inline(), rows)
    return len(changed)


def _put(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    statement = insert(connection, table)
    values = {name: statement.excluded[name] for name in rows[0] if name != "id"}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["id"], set_=values).inline(), rows
    )


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _BATCH] for start in range(0, len(items), _BATCH))

"""Every orders backend keeps the contract; a new one is one more entry in BACKENDS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.domain.errors import OrdersUnavailable
from support_agent.domain.orders import Customer, LineKind, Order, OrderStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.orders import OrderRepository
from support_agent.testing.contract_check import ContractBroken
from support_agent.testing.orders_contract import (
    CHECKS,
    CUSTOMERS,
    FULL,
    ORDERS,
    Check,
    ids_are_exact,
    list_is_newest_first,
    order_comes_back_whole,
    rules_find_what_they_judge_by,
)

KEYS = KeyRing(keys=(("k1", b"a secret of thirty-two characters"),))


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqlDatabase]:
    url = f"sqlite:///{folder / 'shop.db'}"
    upgrade(url, live=False)
    database = SqlDatabase(url, KEYS, busy_timeout_s=0.05)
    try:
        yield database
    finally:
        await database.aclose()


@asynccontextmanager
async def sql(folder: Path) -> AsyncIterator[SqlOrders]:
    async with opened(folder) as database:
        shop = SqlOrders(database)
        await shop.put_customers(CUSTOMERS)
        await shop.put_orders(ORDERS)
        yield shop


# Each opens a backend that holds CUSTOMERS and ORDERS.
BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[OrderRepository]]] = {"sql": sql}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
async def test_the_contract_is_kept(backend, check, tmp_path):
    async with BACKENDS[backend](tmp_path) as orders:
        await check(orders)


class Careless:
    """A backend with one fault, to show that the contract finds it."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._orders = {order.id: order for order in ORDERS}

    async def get(self, order_id: str) -> Order | None:
        if self._fault == "trims":
            order_id = order_id.strip()
        found = self._orders.get(order_id)
        if found is None:
            return None
        match self._fault:
            case "drops the owner":
                return replace(found, customer_id=found.customer_id.lower())
            case "counts none as unknown":
                lines = (replace(x, received_units=x.received_units or None) for x in found.lines)
                return replace(found, lines=tuple(lines))
            case "sells shipping":
                lines = (replace(line, kind=LineKind.GOODS) for line in found.lines)
                return replace(found, lines=tuple(lines))
            case "forgets promotions":
                return replace(found, promotion=None)
        return found

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        theirs = [order for order in ORDERS if order.customer_id == customer_id]
        theirs.sort(key=lambda order: order.placed_at, reverse=self._fault != "oldest first")
        return tuple(theirs if self._fault == "unlimited" else theirs[:limit])

    async def find_customer(self, customer_id: str) -> Customer | None:
        return next((c for c in CUSTOMERS if c.id == customer_id), None)


@pytest.mark.parametrize(
    ("fault", "finds_it"),
    [
        ("trims", ids_are_exact),
        ("drops the owner", order_comes_back_whole),
        ("counts none as unknown", rules_find_what_they_judge_by),
        ("sells shipping", rules_find_what_they_judge_by),
        ("forgets promotions", rules_find_what_they_judge_by),
        ("oldest first", list_is_newest_first),
        ("unlimited", list_is_newest_first),
    ],
)
async def test_the_contract_finds_a_careless_backend(fault: str, finds_it: Check):
    with pytest.raises(ContractBroken):
        await finds_it(Careless(fault))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_contract_asks_for_nothing_else(check):
    await check(Careless("none"))


class TestSqlOrders:
    @pytest.fixture
    async def database(self, tmp_path):
        async with opened(tmp_path) as database:
            yield database

    @pytest.fixture
    async def shop(self, database):
        shop = SqlOrders(database)
        await shop.put_customers(CUSTOMERS)
        await shop.put_orders(ORDERS)
        return shop

    async def test_filling_it_again_changes_nothing(self, shop):
        assert await shop.put_customers(CUSTOMERS) == 0
        assert await shop.put_orders(ORDERS) == 0

    async def test_only_what_changed_is_replaced_with_all_its_parts(self, shop):
        shorter = replace(FULL, lines=FULL.lines[:1], payments=(), note=None)

        assert await shop.put_orders((*ORDERS[1:], shorter)) == 1
        assert await shop.put_customers((Customer(id="C-list", name="New Name"),)) == 1
        assert await shop.get(FULL.id) == shorter
        assert (await shop.find_customer("C-list")).name == "New Name"

    async def test_many_orders_are_put_at_once(self, shop):
        many = tuple(replace(FULL, id=f"M{n}", payments=()) for n in range(1201))

        assert await shop.put_orders(many) == 1201
        assert await shop.put_orders(many) == 0
        assert await shop.put_orders(()) == 0

    async def test_a_status_it_does_not_know_is_unknown(self, database, shop):
        word = sa.text("UPDATE shop_orders SET status = 'ON_THE_MOON' WHERE id = 'A100'")
        await database.run_write(lambda c: c.execute(word))

        assert (await shop.get("A100")).status is OrderStatus.UNKNOWN

    async def test_a_list_takes_three_statements_however_long(self, database):
        class Counting:
            statements = 0

            async def run_read(self, fn):
                def counted(connection):
                    def note(*_):
                        self.statements += 1

                    sa.event.listen(connection, "before_cursor_execute", note)
                    return fn(connection)

                return await database.run_read(counted)

        await SqlOrders(database).put_orders(ORDERS)
        counting = Counting()

        listed = await SqlOrders(counting).list_for_customer("C-list", limit=10)

        assert (len(listed), counting.statements) == (4, 3)

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_a_list_of_none_is_empty(self, shop, limit):
        assert await shop.list_for_customer("C-list", limit=limit) == ()

    async def test_a_locked_shop_is_unavailable_and_unchanged(self, tmp_path, shop):
        holder = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
        with holder.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            with pytest.raises(OrdersUnavailable):
                await shop.put_customers((Customer(id="C9", name="Late"),))
        holder.dispose()

        assert await shop.find_customer("C9") is None

"""Every orders backend keeps the contract; a new one is one more entry in BACKENDS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.orders.cached import CachedOrders
from support_agent.adapters.orders.guarded import GuardedOrders
from support_agent.adapters.orders.http import HttpOrders
from support_agent.adapters.orders.http_map import load_http_map
from support_agent.adapters.orders.mapped.orders import MappedOrders
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.domain.errors import OrdersUnavailable
from support_agent.domain.orders import Customer, LineKind, Order, OrderLine, OrderStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.orders import OrderRepository
from support_agent.testing.contract_check import ContractBroken
from support_agent.testing.orders_contract import (
    CHECKS,
    CUSTOMERS,
    FULL,
    ORDERS,
    Check,
    amounts_are_whole_numbers,
    check_orders,
    ids_are_exact,
    list_is_newest_first,
    none_are_none,
    order_comes_back_whole,
    rules_find_what_they_judge_by,
)
from tests.foreign_shop import fill_shop, make_shop, open_map
from tests.shop_api import MAP, SECRET, shop_api, write_map

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


@asynccontextmanager
async def http(folder: Path, *, more: str = "") -> AsyncIterator[HttpOrders]:
    with shop_api(ORDERS, CUSTOMERS) as api:
        told = load_http_map(write_map(folder / "orders.toml", api, text=f"{MAP}{more}"))
        orders = HttpOrders(told=told, auth=SECRET, timeout_s=5.0)
        try:
            yield orders
        finally:
            await orders.aclose()


def http_with_a_list_of_ids(folder: Path) -> AbstractAsyncContextManager[HttpOrders]:
    return http(folder, more='id = "/number"\n')


@asynccontextmanager
async def cached(folder: Path) -> AsyncIterator[CachedOrders]:
    async with sql(folder) as shop:
        yield CachedOrders(shop, keep_s=60)


@asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[GuardedOrders]:
    async with sql(folder) as shop:
        yield GuardedOrders(shop, timeout_s=5.0)


@asynccontextmanager
async def mapped(folder: Path) -> AsyncIterator[MappedOrders]:
    """On SQLite; tests/integration/test_mapped_orders.py has it on PostgreSQL."""
    url = f"sqlite:///{folder / 'foreign.db'}"
    make_shop(url)
    fill_shop(url, CUSTOMERS, ORDERS)
    orders = open_map(url, folder / "orders.toml")
    try:
        yield orders
    finally:
        await orders.aclose()


# Each opens a backend that holds CUSTOMERS and ORDERS.
BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[OrderRepository]]] = {
    "sql": sql,
    "mapped": mapped,
    "http": http,
    "http, list of ids": http_with_a_list_of_ids,
    "cached": cached,
    "guarded": guarded,
}


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
        lines = tuple(self._line(line) for line in found.lines)
        match self._fault:
            case "drops the owner":
                return replace(found, customer_id=found.customer_id.lower())
            case "forgets promotions":
                return replace(found, promotion=None)
        return replace(found, lines=lines)

    def _line(self, line: OrderLine) -> OrderLine:
        match self._fault:
            case "counts none as unknown":
                return replace(line, received_units=line.received_units or None)
            case "sells shipping":
                return replace(line, kind=LineKind.GOODS)
            case "shares in floats":
                return replace(line, promotion_minor=float(line.promotion_minor))
            case "flags in numbers":
                return replace(line, returnable=int(line.returnable))
            case "counts in floats":
                return replace(line, unit_price_minor=float(line.unit_price_minor))
        return line

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        theirs = [order for order in ORDERS if order.customer_id == customer_id]
        limit = max(limit, 0)
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
        ("unlimited", none_are_none),
        ("counts in floats", amounts_are_whole_numbers),
        ("shares in floats", amounts_are_whole_numbers),
        ("flags in numbers", amounts_are_whole_numbers),
    ],
)
async def test_the_contract_finds_a_careless_backend(fault: str, finds_it: Check):
    with pytest.raises(ContractBroken):
        await finds_it(Careless(fault))


async def test_all_of_it_at_once_names_the_check_that_fails():
    await check_orders(Careless("none"))
    with pytest.raises(ContractBroken, match="ids_are_exact: ' A100' is not A100"):
        await check_orders(Careless("trims"))


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

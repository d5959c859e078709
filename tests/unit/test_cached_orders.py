"""Orders kept for talk: briefly, few, asked for once at a time, and never a fault."""

import asyncio
from dataclasses import replace

import pytest

from support_agent.adapters.orders.cached import CachedOrders
from support_agent.domain.errors import OrdersUnavailable
from support_agent.domain.orders import Customer
from support_agent.testing import CUSTOMERS, ORDERS


class Shop:
    """Counts what it is asked; waits while `gate` is closed, fails while `fails` is set."""

    def __init__(self):
        self.orders = {order.id: order for order in ORDERS}
        self.asked = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def _ask(self, *what):
        self.asked.append(what)
        await self.gate.wait()
        if self.fails:
            raise OrdersUnavailable("away")

    async def get(self, order_id):
        await self._ask("order", order_id)
        return self.orders.get(order_id)

    async def list_for_customer(self, customer_id, *, limit):
        await self._ask("list", customer_id, limit)
        theirs = (order for order in self.orders.values() if order.customer_id == customer_id)
        return tuple(theirs)[:limit]

    async def find_customer(self, customer_id):
        await self._ask("customer", customer_id)
        return next((c for c in CUSTOMERS if c.id == customer_id), None)


class Watch:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def cached(shop, watch):
    return CachedOrders(shop, keep_s=30, most=3, now=watch)


async def test_what_was_read_is_told_again_until_its_time_is_over(shop, watch, cached):
    before = await cached.get("A100")
    shop.orders["A100"] = replace(before, note="changed")
    watch.now = 29.9
    assert await cached.get("A100") == before
    watch.now = 30.0
    assert (await cached.get("A100")).note == "changed"
    assert len(shop.asked) == 2


async def test_an_answer_is_as_old_as_its_question(shop, watch, cached):
    shop.gate.clear()
    slow = asyncio.ensure_future(cached.get("A100"))
    await asyncio.sleep(0)
    watch.now = 31
    shop.gate.set()
    await slow

    await cached.get("A100")

    assert len(shop.asked) == 2


async def test_ids_are_kept_apart_byte_for_byte(shop, cached):
    assert (await cached.get("A100")).id == "A100"
    assert (await cached.get("a100")).id == "a100"
    assert (await cached.list_for_customer("C-list", limit=1)) != (
        await cached.list_for_customer("c-list", limit=1)
    )
    assert len(await cached.list_for_customer("C-list", limit=2)) == 2
    assert await cached.find_customer("c-list") == Customer(id="c-list", name="Somebody Else")


@pytest.mark.parametrize(
    "ask",
    [
        lambda orders: orders.get("NO-SUCH"),
        lambda orders: orders.find_customer("NO-SUCH"),
        lambda orders: orders.list_for_customer("NO-SUCH", limit=5),
    ],
)
async def test_what_was_not_there_is_asked_for_again(shop, cached, ask):
    assert not await ask(cached)
    assert not await ask(cached)
    assert len(shop.asked) == 2


async def test_a_fault_is_not_kept(shop, cached):
    shop.fails = True
    with pytest.raises(OrdersUnavailable):
        await cached.get("A100")
    shop.fails = False

    assert (await cached.get("A100")).id == "A100"


async def test_few_are_kept_the_longest_unused_goes_first(shop, cached):
    for order_id in ("A100", "A101", "A102", "A100", "A103", "A100", "A101"):
        await cached.get(order_id)

    assert [order_id for _, order_id in shop.asked] == ["A100", "A101", "A102", "A103", "A101"]


async def test_the_same_is_asked_once_at_a_time(shop, cached):
    shop.gate.clear()
    waiting = [asyncio.ensure_future(cached.get("A100")) for _ in range(20)]
    await asyncio.sleep(0)
    shop.gate.set()

    assert {order.id for order in await asyncio.gather(*waiting)} == {"A100"}
    assert len(shop.asked) == 1


async def test_who_stops_waiting_takes_the_answer_from_nobody_else(shop, cached):
    shop.gate.clear()
    first, second = (asyncio.ensure_future(cached.get("A100")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    shop.gate.set()

    assert (await second).id == "A100"
    assert first.cancelled()


async def test_all_who_wait_are_told_of_a_fault_and_nobody_has_to(shop, cached, recwarn):
    shop.fails = True
    shop.gate.clear()
    waiting = [asyncio.ensure_future(cached.get("A100")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting.pop().cancel()
    shop.gate.set()
    told = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(error) for error in told] == [OrdersUnavailable] * 2
    assert not recwarn.list

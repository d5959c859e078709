"""Orders read a moment ago, for talk: nothing that quotes, files, decides or pays reads these."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from support_agent.domain.orders import Customer, Order
from support_agent.ports.orders import OrderRepository

T = TypeVar("T")

MOST_KEPT = 1_000  # answers of each question, in this process


class CachedOrders:
    """`OrderRepository` over another one, at most `keep_s` behind it.

    What was not there, and what could not be read, is asked for again. Who asks while the same is
    being asked waits for that answer.
    """

    def __init__(
        self,
        orders: OrderRepository,
        *,
        keep_s: float,
        most: int = MOST_KEPT,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = orders
        self._orders: _Kept[Order | None] = _Kept(keep_s, most, now)
        self._lists: _Kept[tuple[Order, ...]] = _Kept(keep_s, most, now)
        self._customers: _Kept[Customer | None] = _Kept(keep_s, most, now)

    async def get(self, order_id: str) -> Order | None:
        return await self._orders.get(order_id, lambda: self._inner.get(order_id))

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        return await self._lists.get(
            f"{limit} {customer_id}",
            lambda: self._inner.list_for_customer(customer_id, limit=limit),
        )

    async def find_customer(self, customer_id: str) -> Customer | None:
        return await self._customers.get(
            customer_id, lambda: self._inner.find_customer(customer_id)
        )


class _Kept(Generic[T]):
    """Answers to one question by what was asked, the longest unused dropped first."""

    def __init__(self, keep_s: float, most: int, now: Callable[[], float]) -> None:
        self._keep_s = keep_s
        self._most = most
        self._now = now
        self._answers: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._asked: dict[str, asyncio.Task[T]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        kept = self._answers.get(key)
        if kept is not None and self._now() < kept[0]:
            self._answers.move_to_end(key)
            return kept[1]
        asked = self._asked.get(key)
        if asked is None:
            asked = asyncio.ensure_future(self._fetch(key, ask, since=self._now()))
            self._asked[key] = asked
            asked.add_done_callback(lambda task: self._ended(key, task))
        # One who stops waiting takes the answer from nobody else.
        return await asyncio.shield(asked)

    async def _fetch(self, key: str, ask: Callable[[], Awaitable[T]], *, since: float) -> T:
        """Ask, and keep what came; it is as old as its question."""
        answer = await ask()
        if answer:
            self._answers[key] = (since + self._keep_s, answer)
            self._answers.move_to_end(key)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer

    def _ended(self, key: str, task: asyncio.Task[T]) -> None:
        del self._asked[key]
        if not task.cancelled():
            task.exception()  # told to who waits, if anybody still does

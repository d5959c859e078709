"""Owners of conversations within one process that a test holds back, kills or cuts off.

Everything an owner stores goes through its own database object, so that is where it is stopped: at
the k-th transaction. A dead one stores nothing any more, whatever its `finally` would like to.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.keys import load_keys
from tests.crashes import PAUSE, Fuse, let_leases_end
from tests.heart import assert_sound, open_shop_with
from tests.killed_turns import WANTS_SMALL, YES, SensibleModel, message, ticks, work_off
from tests.kit import TODAY, Shop, settings_for
from tests.places import Places
from tests.stored import everything


class Died(BaseException):
    """The process is gone; nothing in it may notice, so it is no Exception."""


class StoppedDatabase(SqlDatabase):
    """Counts transactions; `before` is awaited before each, with its number from 0."""

    begun = 0
    dead = False
    before: Callable[[int], Awaitable[None]] | None = None

    def transact(self, fn: Callable[[Any], Any], *, durable: bool = True) -> Awaitable[Any]:
        async def stopped() -> Any:
            number, self.begun = self.begun, self.begun + 1
            if self.before is not None:
                await self.before(number)
            if self.dead:
                raise Died
            return await super(StoppedDatabase, self).transact(fn, durable=durable)

        return stopped()

    def read(self, fn: Callable[[Any], Any], *, brief: bool = False) -> Awaitable[Any]:
        if self.dead:
            raise Died
        return super().read(fn, brief=brief)


class Owner:
    """A process of its own, as far as the database can tell."""

    def __init__(self, shop: Shop, database: StoppedDatabase) -> None:
        self.shop = shop
        self.agent = shop.container.agent()
        self.database = database
        self._go_on = asyncio.Event()
        self._held = asyncio.Event()
        self.task: asyncio.Task[Any] | None = None

    def has_no_patience(self) -> None:
        """With a database that is away: it gives up at once."""
        self.agent._patience = replace(self.agent._patience, database_s=0)

    def dies_at(self, number: int) -> None:
        """Before its transaction of that number; 0 is the next one."""
        first = self.database.begun

        async def die(begun: int) -> None:
            self.database.dead = self.database.dead or begun - first >= number

        self.database.before = die

    def stops_at(self, number: int) -> None:
        """As if it slept, before its transaction of that number, until it is let go on."""
        first = self.database.begun
        self._go_on.clear()
        self._held.clear()

        async def hold(begun: int) -> None:
            if begun - first == number:
                self._held.set()
                await self._go_on.wait()

        self.database.before = hold

    def is_cancelled_at(self, number: int) -> None:
        """Its task is, when its transaction of that number has just been handed over."""
        first = self.database.begun

        async def cancel(begun: int) -> None:
            if begun - first == number and self.task is not None:
                self.task.cancel()

        self.database.before = cancel

    async def starts(self, work: Awaitable[Any]) -> bool:
        """Whether it is held back somewhere in this; else it is done."""
        self.task = asyncio.ensure_future(work)
        held = asyncio.ensure_future(self._held.wait())
        await asyncio.wait({self.task, held}, return_when=asyncio.FIRST_COMPLETED)
        held.cancel()
        return not self.task.done()

    async def goes_on(self) -> Any:
        """What it comes to, after it was held back."""
        assert self.task is not None
        self._go_on.set()
        return await self.task


@asynccontextmanager
async def owner_of(
    url: str,
    notes: Path,
    *,
    later: timedelta = timedelta(),
    clock: Callable[[], datetime] | None = None,
    parts: Mapping[str, Any] | None = None,
    busy_s: float = 10,
    **more: Any,
) -> AsyncIterator[Owner]:
    """Another program on the same database, with the sensible model. Business time stands still.

    `later`: how far the other clocks are ahead; `clock`: what they show instead. `busy_s`: how long
    it waits for a lock.
    """
    async with AsyncExitStack() as stack:
        # What a dead process would log it does not, and what it takes to render it is seconds.
        stack.enter_context(capture_logs())
        settings = settings_for(url, **more)
        keys = load_keys(configured=settings.security.keys, database_url=url)
        database = StoppedDatabase(
            url,
            keys,
            busy_timeout_s=busy_s,
            now=lambda connection: clock() if clock else database_now(connection) + later,
        )
        stack.push_async_callback(database.aclose)
        overrides = {
            "database": database,
            "model": SensibleModel(notes, Fuse()),
            "wall_clock": clock or (lambda: datetime.now(UTC) + later),
            **(parts or {}),
        }
        shop = await stack.enter_async_context(
            open_shop_with(url, now=TODAY, overrides=overrides, **more)
        )
        yield Owner(shop, database)


async def end_everything(url: str, notes: Path, conversation: str) -> dict[str, list[str]]:
    """What whoever is left does later, and everything that is stored in the end."""
    async with owner_of(url, notes, later=PAUSE) as last:
        await let_leases_end(last.shop)
        await work_off(last.shop, conversation)
        await ticks(last.shop, conversation)
        await assert_sound(last.shop)
        assert await last.shop.read(lambda tx: tx.conversations.due(limit=10)) == ()
        return await last.shop.container.database().run_read(everything)


def agreed(places: Places) -> tuple[str, str]:
    """A shop with a conversation in which a quote was answered; nobody has read the answer yet."""
    url = places.shop()

    async def begin() -> str:
        async with owner_of(url, places.folder / "agreed.notes") as owner:
            posted = await owner.agent.post(message(WANTS_SMALL, None, "m1"))
            await work_off(owner.shop, posted.conversation_id)
            await owner.agent.post(message(YES, posted.conversation_id, "m2"))
            return posted.conversation_id

    return url, asyncio.run(begin())

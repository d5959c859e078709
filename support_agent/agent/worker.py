"""The worker of a shop without a queue: answers what is unread, and does the chores in between."""

import asyncio
import math
import time
from collections.abc import Sequence

from support_agent.ports.storage import Database
from support_agent.services.chores import Chore, Counts, counted
from support_agent.services.workers import Answering, Stop, let_end, repeated, tell, until

PAGE = 200
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # after a failure, twice as long each time
LONGEST_S = 240.0  # of one `tick` on what is unread; other things have to happen, too
SOONEST_S = 0.2  # that a conversation is looked at again; nobody spins on one


class Rounds:
    """Conversations that are being answered: so many at once, each by one task."""

    def __init__(
        self, *, agent: Answering, database: Database, concurrency: int, once: bool = False
    ) -> None:
        """`once`: no conversation is looked at a second time."""
        self._agent = agent
        self._database = database
        self._concurrency = concurrency
        self._once = once
        self._running: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}  # by the monotonic clock
        self._failures: dict[str, int] = {}
        self._last: str | None = None  # that was started: the others come before it comes again
        self.slot_free = asyncio.Event()
        self.answered = 0

    @property
    def running(self) -> Sequence[asyncio.Task[None]]:
        return tuple(self._running.values())

    async def start_due(self) -> None:
        """Start what is due and not put off, as far as there are slots, each in its turn.

        Raises:
            DatabaseUnavailable: what runs goes on.
        """
        now = time.monotonic()
        self._not_before = {key: at for key, at in self._not_before.items() if at > now}
        for after in dict.fromkeys((self._last, None)):
            await self._start_after(after)

    async def _start_after(self, last: str | None) -> None:
        while len(self._running) < self._concurrency:
            due = await self._page(last)
            for conversation_id in due:
                self._start(conversation_id)
            if len(due) < PAGE:
                return
            last = due[-1]

    def soonest_s(self) -> float:
        """In how many seconds something that was put off is to be looked at; inf: nothing is."""
        soonest: float = min(self._not_before.values(), default=math.inf)
        return soonest - time.monotonic()

    async def _page(self, last: str | None) -> tuple[str, ...]:
        return await self._database.read(lambda tx: tx.conversations.due(limit=PAGE, after=last))

    def _start(self, conversation_id: str) -> None:
        is_full = len(self._running) >= self._concurrency
        if is_full or conversation_id in self._running or conversation_id in self._not_before:
            return
        task = asyncio.create_task(self._answer(conversation_id))
        self._running[conversation_id] = task
        self._last = conversation_id

        def ended(_: object) -> None:
            del self._running[conversation_id]
            self.slot_free.set()

        task.add_done_callback(ended)

    async def _answer(self, conversation_id: str) -> None:
        try:
            # One who writes on and on keeps nobody waiting, but for `tick`, which looks only once.
            later_s = await self._agent.work(conversation_id, once=not self._once)
        except Exception as error:  # noqa: BLE001 - the others are answered all the same
            later_s = self._failed(conversation_id, error)
        else:
            self._failures.pop(conversation_id, None)
            self.answered += later_s is None
        pause_s = math.inf if self._once else max(later_s or 0.0, SOONEST_S)
        self._not_before[conversation_id] = time.monotonic() + pause_s

    def _failed(self, conversation_id: str, error: Exception) -> float:
        tried = self._failures.get(conversation_id, 0)
        self._failures[conversation_id] = tried + 1
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(tried, 10), LONGEST_PAUSE_S)
        tell(error, "worker.turn_failed", conversation_id=conversation_id, again_in_s=pause_s)
        return pause_s


class InlineWorker:
    """Looks for what is unread every few moments. Several of them share the work by leases."""

    def __init__(
        self,
        *,
        agent: Answering,
        database: Database,
        chores: Sequence[Chore],
        concurrency: int,
        poll_s: float,
        shutdown_s: float,
    ) -> None:
        self._agent = agent
        self._database = database
        self._chores = chores
        self._concurrency = concurrency
        self._poll_s = poll_s
        self._shutdown_s = shutdown_s

    async def run(self, stop: Stop) -> None:
        rounds = Rounds(agent=self._agent, database=self._database, concurrency=self._concurrency)
        chores = [asyncio.create_task(repeated(chore, stop)) for chore in self._chores]
        try:
            while not stop.asked.is_set():
                rounds.slot_free.clear()
                await self._look(rounds)
                pause_s = max(0.0, min(self._poll_s, rounds.soonest_s()))
                await until(stop.asked, rounds.slot_free, within_s=pause_s)
        finally:
            stop.asked.set()
            running = (*rounds.running, *chores)
            await let_end(running, within_s=self._shutdown_s, at_once=stop.at_once)

    async def _look(self, rounds: Rounds) -> None:
        try:
            await rounds.start_due()
        except Exception as error:  # noqa: BLE001 - the next look may succeed
            tell(error, "worker.look_failed")


class AnswerUnread:
    """Once over all that is unread, for `tick`: answers what can be answered now."""

    def __init__(self, *, agent: Answering, database: Database, concurrency: int) -> None:
        self._agent = agent
        self._database = database
        self._concurrency = concurrency

    async def run(self) -> Counts:
        """What is busy, not quiet yet or fails is left to the next run, and so is too much of it.

        Raises:
            DatabaseUnavailable: what was answered before is.
        """
        rounds = Rounds(
            agent=self._agent, database=self._database, concurrency=self._concurrency, once=True
        )
        over = time.monotonic() + LONGEST_S
        try:
            await rounds.start_due()
            while rounds.running:
                await rounds.slot_free.wait()
                rounds.slot_free.clear()
                if time.monotonic() < over:
                    await rounds.start_due()
        finally:
            await let_end(rounds.running, within_s=0, at_once=asyncio.Event())
        return counted(rounds.answered, "CONVERSATIONS")

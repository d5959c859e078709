"""The worker without a queue: how many at once, what a failure costs, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support_agent.agent import worker
from support_agent.agent.worker import AnswerUnread, InlineWorker
from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from support_agent.services.chores import Chore
from support_agent.services.workers import Stop
from support_agent.settings import Settings
from tests.kit import Shop, settings_for
from tests.queue_kit import (
    INLINE,
    PATIENCE_S,
    Gate,
    answered,
    authors,
    eventually,
    open_with,
    post,
    working,
)


@pytest.fixture
async def gate() -> Gate:
    return Gate(is_open=False)


@pytest.fixture
async def gated(shop_url: str, gate: Gate) -> AsyncIterator[Shop]:
    async with open_with(shop_url, gate, queue=INLINE | {"concurrency": 3}) as shop:
        yield shop


async def test_so_many_conversations_are_answered_at_once_and_no_more(gated, gate):
    posted = [await post(gated) for _ in range(7)]

    async with working(gated.container):
        await eventually(lambda: gate.waiting == 3)
        gate.open.set()
        for each in posted:
            await eventually(lambda each=each: answered(gated, each.conversation_id))

    assert gate.most == 3
    assert len(gate.asked) == 7


async def test_who_writes_on_and_on_keeps_nobody_waiting(shop_url, gate):
    async with open_with(shop_url, gate, queue=INLINE | {"concurrency": 1}) as shop:
        keen, calm = await post(shop), await post(shop, customer="C002")
        async with working(shop.container):
            await eventually(lambda: gate.waiting == 1)
            await post(shop, conversation=keen.conversation_id)
            gate.open.set()
            await eventually(lambda: len(gate.asked) == 3)

    in_turn = [request.conversation_id for request in gate.asked]
    assert in_turn == [keen.conversation_id, calm.conversation_id, keen.conversation_id]


async def test_told_to_stop_it_takes_nothing_new_and_lets_turns_end(gated, gate):
    first = await post(gated)
    async with working(gated.container) as stop:
        await eventually(lambda: gate.waiting == 1)
        stop.ask()
        late = await post(gated)
        gate.open.set()

    assert await authors(gated, first.conversation_id) == ["customer", "agent"]
    assert await authors(gated, late.conversation_id) == ["customer"]


async def test_told_twice_it_lets_go_and_the_next_worker_goes_on_at_once(gated, gate):
    posted = await post(gated)
    async with working(gated.container) as stop:
        await eventually(lambda: gate.waiting == 1)
        stop.ask()
        stop.ask()
    assert await gated.read(lambda tx: tx.conversations.due(limit=9)) == (posted.conversation_id,)

    gate.open.set()
    async with working(gated.container):
        await eventually(lambda: answered(gated, posted.conversation_id))

    assert await authors(gated, posted.conversation_id) == ["customer", "agent"]


async def test_turns_that_take_longer_than_a_stop_may_are_let_go(shop_url, gate):
    async with open_with(shop_url, gate, queue=INLINE | {"shutdown_seconds": 0.05}) as shop:
        posted = await post(shop)
        async with working(shop.container) as stop:
            await eventually(lambda: gate.waiting == 1)
            stop.ask()

        due = await shop.read(lambda tx: tx.conversations.due(limit=9))
        assert due == (posted.conversation_id,)
        assert await authors(shop, posted.conversation_id) == ["customer"]


class Failing:
    """Answers like the agent behind it, but fails where it is told to, so many times."""

    def __init__(self, agent: Any, broken: set[str], *, times: int) -> None:
        self._agent = agent
        self._broken = broken
        self.left = times

    async def work(self, conversation_id: str, *, once: bool = False) -> float | None:
        if conversation_id in self._broken and self.left:
            self.left -= 1
            raise RuntimeError("broken")
        return await self._agent.work(conversation_id, once=once)


async def test_one_conversation_that_fails_keeps_no_other_and_is_tried_again(shop_url):
    async with open_with(shop_url, queue=INLINE) as shop:
        bad, good = await post(shop), await post(shop, customer="C002")
        agent = Failing(shop.container.agent(), {bad.conversation_id}, times=1)
        async with working_with(shop, agent=agent):
            await eventually(lambda: answered(shop, good.conversation_id))
            await eventually(lambda: answered(shop, bad.conversation_id))

        assert agent.left == 0
        assert await authors(shop, bad.conversation_id) == ["customer", "agent"]


class Away:
    """The database, but its answers fail for so many looks."""

    def __init__(self, database: Any, *, looks: int) -> None:
        self._database = database
        self.left = looks

    async def read(self, fn: Any, *, brief: bool = False) -> Any:
        if self.left:
            self.left -= 1
            raise DatabaseUnavailable("away")
        return await self._database.read(fn, brief=brief)


async def test_a_database_that_is_away_for_a_while_does_not_end_the_worker(shop_url):
    async with open_with(shop_url, queue=INLINE) as shop:
        posted = await post(shop)
        away = Away(shop.container.database(), looks=3)
        async with working_with(shop, database=away):
            await eventually(lambda: answered(shop, posted.conversation_id))

        assert away.left == 0


async def test_a_chore_that_fails_is_done_again_at_its_next_time(shop_url):
    done: list[int] = []

    async def count() -> dict[str, int]:
        done.append(1)
        if len(done) < 3:
            raise RuntimeError("broken")
        return {"THINGS": 1}

    async with open_with(shop_url, queue=INLINE) as shop:
        chores = (Chore(name="counted", every_s=0.01, run=count),)
        async with working(shop.container, chores=chores):
            await eventually(lambda: len(done) >= 4)


async def test_a_chore_in_the_middle_ends_before_the_worker_does(shop_url):
    begun, release, ended = asyncio.Event(), asyncio.Event(), []

    async def pay() -> dict[str, int]:
        begun.set()
        await release.wait()
        ended.append(1)
        return {}

    async with open_with(shop_url, queue=INLINE) as shop:
        chores = (Chore(name="paid", every_s=60, run=pay),)
        async with working(shop.container, chores=chores) as stop:
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            stop.ask()
            asyncio.get_running_loop().call_later(0.05, release.set)

    assert ended == [1]


async def test_two_workers_share_the_conversations_and_none_is_answered_twice(shop_url):
    async with (
        open_with(shop_url, queue=INLINE) as one,
        open_with(shop_url, queue=INLINE) as other,
    ):
        posted = [await post(one) for _ in range(12)]
        async with working(one.container), working(other.container):
            for each in posted:
                await eventually(lambda each=each: answered(one, each.conversation_id))

        for each in posted:
            assert await authors(one, each.conversation_id) == ["customer", "agent"]


async def test_tick_answers_once_what_it_can_and_leaves_the_rest(shop_url):
    async with open_with(shop_url) as shop:
        posted = [await post(shop) for _ in range(5)]
        broken = posted[2].conversation_id
        agent = Failing(shop.container.agent(), {broken}, times=9)
        sweep = AnswerUnread(agent=agent, database=shop.container.database(), concurrency=2)

        assert await sweep.run() == {"CONVERSATIONS": 4}
        assert agent.left == 8
        assert await shop.read(lambda tx: tx.conversations.due(limit=9)) == (broken,)


async def test_what_one_tick_has_no_time_for_is_left_to_the_next(shop_url, monkeypatch):
    async with open_with(shop_url) as shop:
        for _ in range(5):
            await post(shop)
        monkeypatch.setattr(worker, "LONGEST_S", 0.0)
        parts = {"agent": shop.container.agent(), "database": shop.container.database()}

        assert await AnswerUnread(**parts, concurrency=2).run() == {"CONVERSATIONS": 2}
        assert len(await shop.read(lambda tx: tx.conversations.due(limit=9))) == 3


async def test_a_model_that_cannot_be_built_fails_when_there_is_something_to_answer(shop_url):
    async with open_with(shop_url) as shop, open_container(unusable(shop_url)) as container:
        sweep = container.sweep()
        assert await sweep.run() == {}

        await post(shop)
        with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
            await sweep.run()


def unusable(url: str) -> Settings:
    """Settings whose model has no key."""
    return settings_for(url, model={"kind": "anthropic", "name": "shop-model"})


def working_with(shop: Shop, **parts: Any) -> Any:
    """A worker with some parts of the test's own."""
    given = {"agent": shop.container.agent(), "database": shop.container.database()} | parts
    inline = InlineWorker(**given, chores=(), concurrency=5, poll_s=0.02, shutdown_s=5)

    class Held:
        async def __aenter__(self) -> Stop:
            self._stop = Stop()
            self._task = asyncio.create_task(inline.run(self._stop))
            return self._stop

        async def __aexit__(self, *_: object) -> None:
            self._stop.ask()
            await asyncio.wait_for(self._task, PATIENCE_S)

    return Held()

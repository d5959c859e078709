"""The worker on procrastinate: lost connections, dead workers, chores, and how it ends."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from support_agent.adapters.queue.procrastinate_worker import CHORES_AT_ONCE, cron_of
from support_agent.services.chores import Chore
from support_agent.services.workers import Stop
from tests.kit import Shop
from tests.queue_kit import (
    PATIENCE_S,
    PROCRASTINATE,
    Gate,
    answered,
    authors,
    chores_of,
    eventually,
    jobs,
    open_with,
    post,
    working,
)

DOING = "UPDATE procrastinate_jobs SET status = 'doing', worker_id = NULL"


@pytest.fixture
async def gate() -> Gate:
    return Gate(is_open=False)


@pytest.fixture
async def gated(queue_url: str, gate: Gate) -> AsyncIterator[Shop]:
    async with open_with(queue_url, gate, queue=PROCRASTINATE | {"concurrency": 3}) as shop:
        yield shop


@pytest.fixture
async def shop(queue_url: str) -> AsyncIterator[Shop]:
    async with open_with(queue_url, queue=PROCRASTINATE) as opened:
        yield opened


def run(url: str, statement: str, *arguments: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, arguments or None)


async def test_so_many_conversations_are_answered_at_once_and_no_more(gated, gate):
    posted = [await post(gated) for _ in range(7)]

    async with working(gated.container):
        await eventually(lambda: gate.waiting == 3)
        gate.open.set()
        for each in posted:
            await eventually(lambda each=each: answered(gated, each.conversation_id))
        await eventually(lambda: not jobs(gated.url))

    assert gate.most == 3
    assert len(gate.asked) == 7


async def test_told_to_stop_it_takes_nothing_new_and_lets_turns_end(gated, gate):
    first = await post(gated)
    async with working(gated.container) as stop:
        await eventually(lambda: gate.waiting == 1)
        stop.ask()
        late = await post(gated)
        gate.open.set()

    assert await authors(gated, first.conversation_id) == ["customer", "agent"]
    assert await authors(gated, late.conversation_id) == ["customer"]
    assert jobs(gated.url) == [("work", {"conversation_id": late.conversation_id}, "todo")]


async def test_told_twice_it_lets_go_and_the_next_worker_goes_on_at_once(gated, gate):
    posted = await post(gated)
    async with working(gated.container) as stop:
        await eventually(lambda: gate.waiting == 1)
        stop.ask()
        stop.ask()
    assert {status for *_, status in jobs(gated.url)} == {"todo"}

    gate.open.set()
    async with working(gated.container):
        await eventually(lambda: answered(gated, posted.conversation_id))

    assert await authors(gated, posted.conversation_id) == ["customer", "agent"]


async def test_turns_that_take_longer_than_a_stop_may_are_let_go(queue_url, gate):
    impatient = PROCRASTINATE | {"shutdown_seconds": 0.05}
    async with open_with(queue_url, gate, queue=impatient) as shop:
        posted = await post(shop)
        async with working(shop.container) as stop:
            await eventually(lambda: gate.waiting == 1)
            stop.ask()

        due = await shop.read(lambda tx: tx.conversations.due(limit=9))
        assert due == (posted.conversation_id,)
        assert {status for *_, status in jobs(shop.url)} == {"todo"}


@contextmanager
def closed(url: str) -> Any:
    """The database takes no connection, and has none, for the time of the block."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    server = url.replace(f"/{name}", "/postgres")
    hang_up = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = %s AND pid <> pg_backend_pid()"
    )
    run(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    run(server, hang_up, name)
    try:
        yield
    finally:
        run(server, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def is_noticed(logged: list[Any]) -> bool:
    """That the database is away, by the one who listens to it."""
    return any("listener failed" in entry.get("text", "") for entry in logged)


async def test_a_database_that_goes_away_and_comes_back_does_not_end_the_worker(shop):
    with capture_logs() as logged:
        async with working(shop.container):
            first = await post(shop)
            await eventually(lambda: answered(shop, first.conversation_id))
            with closed(shop.url):
                await eventually(lambda: is_noticed(logged))

            second = await post(shop)
            await eventually(lambda: answered(shop, second.conversation_id))

    assert await authors(shop, second.conversation_id) == ["customer", "agent"]


async def test_told_to_stop_while_the_database_is_away_it_ends(queue_url):
    impatient = PROCRASTINATE | {"shutdown_seconds": 0.1}
    async with open_with(queue_url, queue=impatient) as shop:
        stop = Stop()
        worker = asyncio.create_task(shop.container.worker(chores=()).run(stop))
        first = await post(shop)
        await eventually(lambda: answered(shop, first.conversation_id))
        with capture_logs() as logged, closed(shop.url):
            await eventually(lambda: is_noticed(logged))
            stop.ask()
            await asyncio.wait_for(worker, PATIENCE_S)


async def test_what_a_dead_worker_had_is_woken_again(shop):
    posted = await post(shop)
    run(shop.url, DOING)  # by a worker that nobody knows any more

    async with working(shop.container):
        await eventually(lambda: answered(shop, posted.conversation_id))


async def test_what_nobody_was_woken_for_is_found_by_the_sweep(shop):
    lost, waiting = await post(shop), await post(shop)
    of_lost = "DELETE FROM procrastinate_jobs WHERE args->>'conversation_id' = %s"
    run(shop.url, of_lost, lost.conversation_id)

    assert await shop.container.sweep().run() == {"CONVERSATIONS": 1}
    assert await shop.container.sweep().run() == {}

    woken = [arguments["conversation_id"] for _, arguments, _ in jobs(shop.url)]
    assert woken == [waiting.conversation_id, lost.conversation_id]


async def test_chores_are_periodic_jobs_and_one_that_fails_comes_again(shop):
    done: list[int] = []

    async def count() -> dict[str, int]:
        done.append(1)
        if len(done) < 2:
            raise RuntimeError("broken")
        return {}

    chores = (Chore(name="counted", every_s=1, run=count),)
    async with working(shop.container, chores=chores):
        await eventually(lambda: len(done) >= 2)


async def test_a_chore_that_hangs_keeps_no_other_from_being_done(queue_url):
    begun: list[int] = []
    done: list[int] = []

    async def hang() -> dict[str, int]:
        begun.append(1)
        await asyncio.Event().wait()
        return {}

    async def count() -> dict[str, int]:
        done.append(1)
        return {}

    chores = (Chore(name="hangs", every_s=1, run=hang), Chore(name="counted", every_s=1, run=count))
    impatient = PROCRASTINATE | {"shutdown_seconds": 0.1}
    async with (
        open_with(queue_url, queue=impatient) as shop,
        working(shop.container, chores=chores),
    ):
        # More moments than there are slots, had each begun it once more.
        await eventually(lambda: len(done) >= CHORES_AT_ONCE + 2)

    assert len(begun) == 1


async def test_chores_go_on_when_the_clock_was_set_back(shop, monkeypatch):
    done: list[int] = []

    async def count() -> dict[str, int]:
        done.append(1)
        return {}

    real, back_s = time.time, 0
    monkeypatch.setattr(time, "time", lambda: real() - back_s)
    async with working(shop.container, chores=(Chore(name="counted", every_s=1, run=count),)):
        await eventually(lambda: done)
        back_s = 3_600
        done.clear()
        await eventually(lambda: len(done) >= 3)


async def test_who_has_no_key_does_not_serve_payouts(shop):
    queue = shop.container.queue()
    await shop.write(queue.wake_payouts)
    posted = await post(shop)
    paid: list[int] = []

    async def pay() -> dict[str, int]:
        paid.append(1)
        return {}

    async with working(shop.container):
        await eventually(lambda: answered(shop, posted.conversation_id))
        await eventually(lambda: [task for task, *_ in jobs(shop.url)] == ["pay"])
    chores: Sequence[Chore] = (Chore(name="paid", every_s=3600, run=pay, needs_gateway=True),)
    async with working(shop.container, chores=chores):
        await eventually(lambda: paid)
        await eventually(lambda: not jobs(shop.url))


async def test_a_job_that_finds_nobody_to_answer_ends(shop):
    queue = shop.container.queue()
    await shop.write(lambda tx: queue.wake(tx, "con_nobody"))

    async with working(shop.container, chores=chores_of(shop.container)):
        await eventually(lambda: "work" not in [task for task, *_ in jobs(shop.url)])


async def test_a_conversation_that_is_not_quiet_yet_is_looked_at_again(queue_url):
    patient = PROCRASTINATE | {"debounce_seconds": 0.4}
    async with open_with(queue_url, queue=patient) as shop:
        first = await post(shop)
        await post(shop, "và đơn A101", conversation=first.conversation_id)
        await shop.write(lambda tx: shop.container.queue().wake(tx, first.conversation_id))
        async with working(shop.container):
            await eventually(lambda: answered(shop, first.conversation_id))

        wrote = await authors(shop, first.conversation_id)
        assert wrote == ["customer", "customer", "agent"]


@pytest.mark.parametrize(
    ("every_s", "cron"),
    [
        (0.2, "* * * * * */1"),
        (3, "* * * * * */3"),
        (15, "* * * * * */15"),
        (60, "*/1 * * * *"),
        (300, "*/5 * * * *"),
        (3600, "7 */1 * * *"),
        (86_400, "7 3 * * *"),
    ],
)
def test_the_rhythm_of_a_chore_in_words_of_cron(every_s: float, cron: str):
    assert cron_of(every_s) == cron

"""The port of waking, of each queue on each database: a wake-up is part of its transaction."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from support_agent.adapters.db.connections import on_driver
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from support_agent.ports.queue import TurnQueue
from tests.kit import Shop, settings_for
from tests.queue_kit import (
    INLINE,
    PROCRASTINATE,
    answered,
    authors,
    eventually,
    jobs,
    open_with,
    post,
    working,
)


@dataclass
class Case:
    shop: Shop
    queue: TurnQueue
    has_jobs: bool


@pytest.fixture(params=["inline-sqlite", "inline-postgresql", "procrastinate"])
def kind_and_url(request: pytest.FixtureRequest) -> tuple[str, str]:
    name = "shop_url" if request.param == "inline-sqlite" else "queue_url"
    return request.param, request.getfixturevalue(name)


@pytest.fixture
async def case(kind_and_url: tuple[str, str]) -> AsyncIterator[Case]:
    kind, url = kind_and_url
    has_jobs = kind == "procrastinate"
    async with open_with(url, queue=PROCRASTINATE if has_jobs else INLINE) as shop:
        yield Case(shop=shop, queue=shop.container.queue(), has_jobs=has_jobs)


class Undone(Exception):
    """Ends a transaction without a commit."""


async def test_what_is_rolled_back_leaves_neither_message_nor_wake_up(case):
    posted = await post(case.shop)
    before = jobs(case.shop.url) if case.has_jobs else None

    def write(tx: Any) -> None:
        conversation = tx.conversations.get(posted.conversation_id)
        assert conversation is not None
        tx.conversations.set_language(posted.conversation_id, "en")
        case.queue.wake(tx, posted.conversation_id)
        case.queue.wake_payouts(tx)
        raise Undone

    with pytest.raises(Undone):
        await case.shop.write(write)

    if case.has_jobs:
        assert jobs(case.shop.url) == before
    kept = await case.shop.read(lambda tx: tx.conversations.get(posted.conversation_id))
    assert kept.language == "vi"


async def test_a_worker_that_starts_later_is_woken_by_what_was_committed(case):
    posted = await post(case.shop)

    async with working(case.shop.container):
        await eventually(lambda: answered(case.shop, posted.conversation_id))

    assert await authors(case.shop, posted.conversation_id) == ["customer", "agent"]


async def test_a_worker_that_waits_is_woken(case):
    async with working(case.shop.container):
        first = await post(case.shop)
        await eventually(lambda: answered(case.shop, first.conversation_id))
        await post(case.shop, "Còn đơn A101?", conversation=first.conversation_id)
        await eventually(lambda: answered(case.shop, first.conversation_id, times=2))

    wrote = await authors(case.shop, first.conversation_id)
    assert wrote == ["customer", "agent", "customer", "agent"]


async def test_woken_for_nothing_and_twice_it_answers_once(case):
    posted = await post(case.shop)
    for _ in range(3):
        await case.shop.write(lambda tx: case.queue.wake(tx, posted.conversation_id))
    await case.shop.write(lambda tx: case.queue.wake(tx, "con_nobody"))

    async with working(case.shop.container):
        await eventually(lambda: answered(case.shop, posted.conversation_id))
        if case.has_jobs:
            await eventually(lambda: not jobs(case.shop.url))

    assert await authors(case.shop, posted.conversation_id) == ["customer", "agent"]


async def test_asleep_is_whom_no_wake_up_waits_for(case):
    posted = await post(case.shop)
    ids = ("con_nobody", posted.conversation_id)

    asleep = await case.shop.read(lambda tx: case.queue.asleep(tx, ids))

    assert asleep == (("con_nobody",) if case.has_jobs else ids)


@pytest.fixture
async def queued(queue_url: str) -> AsyncIterator[Shop]:
    async with open_with(queue_url, queue=PROCRASTINATE) as shop:
        yield shop


async def test_a_wake_up_for_later_is_not_for_now(queued):
    queue = queued.container.queue()
    await queued.write(lambda tx: queue.wake(tx, "con_1", delay_s=60))

    with psycopg.connect(queued.url) as connection:
        [(later_s,)] = connection.execute(
            "SELECT extract(epoch FROM scheduled_at - now()) FROM procrastinate_jobs"
        )
    assert 50 < later_s <= 60


async def test_a_job_names_the_conversation_and_nothing_that_was_said(queued):
    posted = await post(queued, "Số thẻ của tôi là 4111 1111 1111 1111")

    assert jobs(queued.url) == [
        ("work", {"conversation_id": posted.conversation_id}, "todo"),
    ]


async def test_a_connection_that_breaks_while_waking_is_a_database_that_is_away(queued):
    queue = queued.container.queue()

    def write(tx: Any) -> None:
        on_driver(tx, lambda connection: _hang_up(queued.url, connection))
        queue.wake(tx, "con_1")

    with pytest.raises(DatabaseUnavailable):
        await queued.write(write)
    await queued.write(lambda tx: queue.wake(tx, "con_2"))  # and there again

    assert [arguments for _, arguments, _ in jobs(queued.url)] == [{"conversation_id": "con_2"}]


def _hang_up(url: str, connection: Any) -> None:
    number = connection.info.backend_pid
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (number,))


def test_only_a_transaction_of_the_sql_database_has_a_driver():
    with pytest.raises(TypeError, match="'object'"):
        on_driver(object(), lambda connection: connection)  # type: ignore[arg-type]


async def test_procrastinate_on_sqlite_is_refused_and_says_why(shop_url):
    with pytest.raises(ConfigurationError, match=r"QUEUE__KIND.*needs PostgreSQL"):
        async with open_with(shop_url, queue=PROCRASTINATE):
            pass


async def test_procrastinate_without_its_extra_is_refused_and_says_what_to_install(
    queue_url, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"support-agent\[scale\]"):
        async with open_with(queue_url, queue=PROCRASTINATE):
            pass


def test_a_wrong_kind_of_queue_is_refused(shop_url):
    with pytest.raises(ValueError, match="queue"):
        settings_for(shop_url, queue={"kind": "redis"})

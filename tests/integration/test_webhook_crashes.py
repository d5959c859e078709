"""A worker killed between sending and noting it, and what a turn pays when nobody listens."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.kit import KEYS, TODAY, open_shop
from tests.webhook_kit import (
    DELIVERIES,
    LOCAL,
    TAKEN,
    deliveries,
    endpoint,
    fan_out,
    later,
    receiving,
    send,
)

TICK = (sys.executable, "-c", "from support_agent.cli import main; main()", "tick")


async def test_a_worker_that_is_killed_before_it_could_note_it_leaves_it_to_the_next(
    each_shop_url: str, tmp_path: Path
):
    answers = [None, TAKEN]
    async with (
        open_shop(each_shop_url, webhooks=LOCAL) as shop,
        receiving(lambda _: answers.pop(0)) as receiver,
    ):
        _, secret = await endpoint(shop, receiver)
        await shop.say("Xin chào")
        environment = {
            "PATH": os.environ["PATH"],
            "SUPPORT_AGENT_DATABASE__URL": each_shop_url,
            "SUPPORT_AGENT_SECURITY__KEYS": KEYS,
            "SUPPORT_AGENT_WEBHOOKS__PRIVATE_TARGETS": "127.0.0.1",
        }
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own command
            TICK, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(30):
                await receiver.news.wait()
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

        (row,) = await deliveries(shop)
        assert (row.state, row.attempts, row.claims) == ("pending", 0, 1)
        assert await send(shop) == 0  # the dead worker's, until its lease is over
        await later(shop)
        assert await send(shop) == 1

    first, second = receiver.came
    assert first.id == second.id
    assert first.verified(secret) == second.verified(secret)


@contextmanager
def counted() -> Iterator[list[str]]:
    """Every statement of the block, of all databases."""
    asked: list[str] = []

    def note(_connection, _cursor, statement, parameters, _context, _many):
        asked.append(statement)
        return statement, parameters

    sa.event.listen(sa.Engine, "before_cursor_execute", note, retval=True)
    try:
        yield asked
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


@pytest.mark.parametrize("listened", [False, True])
async def test_a_turn_pays_for_webhooks_only_when_somebody_listens(
    each_shop_url: str, *, listened: bool
):
    async with open_shop(each_shop_url, webhooks=LOCAL) as shop, receiving() as receiver:
        if listened:
            await endpoint(shop, receiver)
        await shop.say("Xin chào")  # what is compiled and looked up once
        with counted() as asked:
            await shop.say("Xin chào")

    about = [statement for statement in asked if "outbox" in statement or "webhook" in statement]
    release, *inserts = about
    assert release.startswith("UPDATE conversations")
    assert len(inserts) == (1 if listened else 0)


async def test_looking_for_something_to_send_is_a_read(each_shop_url: str):
    async with open_shop(each_shop_url, webhooks=LOCAL) as shop, receiving() as receiver:
        await endpoint(shop, receiver)
        await fan_out(shop)
        with counted() as asked:
            await fan_out(shop)
            await send(shop)

    words = [statement.split()[0] for statement in asked]
    assert [word for word in words if word != "BEGIN"] == ["SELECT", "SELECT"]


async def test_a_long_queue_of_one_is_not_read_for_the_others(each_shop_url: str):
    """Each look takes the first of each endpoint from the index, also once statistics are there."""
    async with open_shop(each_shop_url, webhooks=LOCAL) as shop, receiving() as receiver:
        long, _ = await endpoint(shop, receiver)
        for _ in range(9):
            await endpoint(shop, receiver)
        fill = sa.insert(DELIVERIES).values(
            {
                "id": sa.bindparam("number"),
                "event_id": sa.bindparam("number"),
                "endpoint_id": long.id,
                "type": "run.completed",
                "body": {},
                "state": "pending",
                "attempts": 0,
                "retry_at": 1.0,
                "created_at": TODAY,
            }
        )
        many = [{"number": f"{number:05}"} for number in range(5_000)]
        database = shop.container.database()
        await database.run_write(lambda connection: connection.execute(fill, many))
        await database.run_write(lambda connection: connection.execute(sa.text("ANALYZE")))
        with counted() as asked:
            assert await shop.read(lambda tx: tx.webhooks.due()) == (long.id,)
        plan = await database.run_read(lambda c: how(c, asked[-1]))

    assert "ix_webhook_deliveries_pending" in plan
    assert "endpoint_id=?" in plan or "Index Cond: (endpoint_id = webhook_endpoints.id)" in plan


def how(connection: sa.Connection, statement: str) -> str:
    """How the database would go about it."""
    if connection.dialect.name == "sqlite":
        values = ("enabled", *[1] * (statement.count("?") - 1))
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        return "\n".join(row.detail for row in rows)
    names = re.findall(r"%\((\w+)\)s", statement)
    told = {name: "enabled" if "state" in name else 1 for name in names}
    return "\n".join(connection.exec_driver_sql(f"EXPLAIN {statement}", told).scalars())

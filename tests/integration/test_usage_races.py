"""Processes and turns side by side against one budget, on SQLite and on PostgreSQL."""

import asyncio
import threading
from collections import Counter

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.errors import ConversationBusy
from support_agent.domain.runs import Usage
from support_agent.ports.model import ModelRequest
from support_agent.ports.storage import Transaction
from tests.agent_kit import FunctionModel, open_agent, take
from tests.kit import seed
from tests.places import Places
from tests.workers import run_together

USED = sa.text("SELECT requests, input_tokens FROM usage_counters WHERE scope = :scope")


def test_four_processes_hold_exactly_as_many_calls_as_there_may_be(places: Places):
    url = places.shop()
    jobs = [
        {"do": "hold", "url": url, "limit": 33, "tries": 20, "name": f"{number % 2}"}
        for number in range(4)
    ]

    answers = run_together(jobs)

    assert sum(int(answer.removesuffix(" held")) for answer in answers) == 33
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        for scope in ("customer", "channel", "installation"):
            assert connection.execute(USED, {"scope": scope}).all() == [(33, 3300)]
        by_conversation = connection.execute(USED, {"scope": "conversation"}).all()
    engine.dispose()
    assert sum(requests for requests, _ in by_conversation) == 33


async def test_of_twelve_turns_at_once_as_many_are_answered_as_the_shop_may(database_url: str):
    """Each takes its rows in the same order, so that none waits for another in a circle."""
    await seed(database_url)
    model = FunctionModel(
        lambda request: "Vâng." if len(request.turns) > 1 else [("list_orders", "{}")],
        Usage(requests=1, input_tokens=900, output_tokens=20),
    )
    budgets = {"installation_day_requests": 16}
    async with open_agent(database_url, model=model, budgets=budgets) as shop:
        results = await asyncio.gather(
            *(take(shop, "Đơn nào?", customer=f"C00{number % 3 + 1}") for number in range(12))
        )
        reasons = Counter(result.stop_reason for result in results)
        used = [result.usage.requests for result in results]

    assert set(reasons) == {"answered", "token_budget"}
    assert sum(used) == len(model.requests) == 16
    assert reasons["answered"] >= 4


async def test_a_hand_over_and_who_takes_over_do_not_wait_for_each_other(database_url: str):
    """An owner that is late hands over while another takes the conversation's lease."""
    await seed(database_url)
    holds, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def take_over(tx: Transaction) -> str | None:
        conversation = model.requests[0].conversation_id
        claim = tx.conversations.claim(conversation, lease_s=60)
        assert claim is not None
        loop.call_soon_threadsafe(holds.set)
        goes_on.wait(0.5)  # the other one is at the conversation's row by then
        taken = tx.runs.take_over(conversation, epoch=claim.epoch)
        return taken.id if taken else None

    async def decide(request: ModelRequest) -> list[tuple[str, str]]:
        nonlocal taking_over
        engine = sa.create_engine(database_url)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE conversations SET lease_until = NULL"))
        engine.dispose()
        taking_over = asyncio.ensure_future(other.transact(take_over))
        if database_url.startswith("sqlite"):  # one writer: it is over before the other begins
            await taking_over
        await holds.wait()
        return [("lookup_order", '{"order_id": "Z1"}')]

    taking_over: asyncio.Future[str | None] | None = None
    model = FunctionModel(decide)
    sections = {"limits": {"unknown_orders": 1}, "queue": {"wait_seconds": 0.01}}
    async with open_agent(database_url, model=model, **sections) as shop:
        other = SqlDatabase(database_url, shop.container.keys())
        with pytest.raises(ConversationBusy):  # whoever has it now never answers
            await take(shop, "Đơn Z1 đâu?")
        assert taking_over is not None
        assert await taking_over == model.requests[0].run_id
        await other.aclose()

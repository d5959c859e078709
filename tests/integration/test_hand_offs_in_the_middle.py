"""A person takes a conversation, or gives it back, between two commits of a turn in it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.agent.turns import Incoming
from support_agent.domain.errors import Conflict
from tests.agent_kit import call, forever, resume, rows, take
from tests.heart import operator
from tests.kit import Shop, binding_of

THU = operator("thu")
Hooks = dict[str, Callable[[], Awaitable[object]]]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Hooks:
    """What somebody else does once, just before the transaction of this name."""
    hooks: Hooks = {}
    transact = SqlDatabase.transact

    async def later(self: SqlDatabase, fn: Any, *, durable: bool) -> Any:
        for name in [name for name in hooks if name in fn.__qualname__]:
            await hooks.pop(name)()
        return await transact(self, fn, durable=durable)

    monkeypatch.setattr(
        SqlDatabase, "transact", lambda self, fn, *, durable=True: later(self, fn, durable=durable)
    )
    return hooks


async def post(shop: Shop, text: str, conversation: str | None = None) -> str:
    incoming = Incoming(text=text, binding=binding_of("C001"), conversation_id=conversation)
    return (await shop.container.agent().post(incoming)).conversation_id


async def stopped_before_its_end(shop: Shop, conversation: str, before: Hooks) -> None:
    """A worker has decided how its turn ends when its process stops."""
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await forever()

    before["_driven"] = hang
    working = asyncio.create_task(shop.container.agent().work(conversation))
    await reached.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert rows(shop.url, "SELECT status FROM runs") == [("running",)]


async def test_what_a_turn_was_silent_about_while_it_was_given_back_is_answered(
    shop: Shop, before: Hooks
):
    first = await shop.say("cho tôi gặp nhân viên", call("hand_off", reason="khách muốn gặp"))
    here = first.conversation_id
    shop.model.play({"answer": "Đã giao."})
    await post(shop, "Đơn A100 giao chưa?", here)
    desk = shop.container.hand_off_desk()
    before["_driven"] = lambda: desk.give_back(here, by=THU)

    assert await shop.container.agent().work(here) is None

    last = rows(shop.url, "SELECT author, text FROM messages ORDER BY seq DESC LIMIT 1")
    assert last == [("agent", "Đã giao.")]
    assert await shop.read(lambda tx: tx.conversations.due(limit=5)) == ()
    assert rows(shop.url, "SELECT kind FROM tasks WHERE done_at IS NULL") == []


async def test_the_next_owner_does_not_talk_over_a_person_who_took_it(shop: Shop, before: Hooks):
    """The turn has decided its answer when its process stops, and so has a person."""
    shop.model.play({"answer": "Lời của máy."})
    here = await post(shop, "Đơn A100?")

    await stopped_before_its_end(shop, here, before)
    await shop.container.hand_off_desk().take(here, by=THU)

    assert await shop.container.agent().work(here) is None

    assert rows(shop.url, "SELECT author FROM messages") == [("customer",)]
    assert rows(shop.url, "SELECT status FROM runs") == [("handed_off",)]


async def test_what_the_turn_says_that_called_a_person_is_said_by_the_next_owner(
    shop: Shop, before: Hooks
):
    shop.model.play(call("hand_off", reason="khách muốn gặp"))
    here = await post(shop, "Cho tôi gặp nhân viên")

    await stopped_before_its_end(shop, here, before)

    assert await shop.container.agent().work(here) is None

    assert rows(shop.url, "SELECT author FROM messages") == [("customer",), ("agent",)]


async def test_no_run_is_resumed_while_a_person_has_the_conversation(shop: Shop):
    shop.model.play(call("list_orders"), {"error": "503"})
    stopped = await take(shop, "Đơn của tôi?")
    await shop.container.hand_off_desk().take(stopped.conversation_id, by=THU)

    with pytest.raises(Conflict, match="give it back first"):
        await resume(shop, stopped.run_id)

    assert rows(shop.url, "SELECT count(*) FROM messages") == [(2,)]


async def test_a_turn_that_calls_a_person_who_is_there_already_is_silent(shop: Shop, before: Hooks):
    shop.model.play(call("hand_off", reason="khách muốn gặp"))
    here = await post(shop, "Cho tôi gặp nhân viên")
    before["_write"] = lambda: shop.container.hand_off_desk().take(here, by=THU)

    assert await shop.container.agent().work(here) is None

    assert rows(shop.url, "SELECT author FROM messages") == [("customer",)]

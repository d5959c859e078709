"""Who had to wait for a conversation's row sees what was written into it meanwhile."""

import asyncio
import threading

import pytest

from support_agent.adapters.db.stores.talk import SqlConversations
from support_agent.agent.turns import Incoming
from support_agent.domain.errors import Conflict
from support_agent.services.inbox import Inbox
from tests.kit import Shop, binding_of, open_shop, seed


async def test_a_message_that_is_just_being_committed_is_answered_first(
    shop_on_each: Shop, monkeypatch: pytest.MonkeyPatch
):
    """On PostgreSQL the second one waits for the row, with a snapshot from before."""
    shop, agent = shop_on_each, shop_on_each.container.agent()
    first = await shop.say("Xin chào")
    here = first.conversation_id
    written, go_on, post = threading.Event(), threading.Event(), Inbox.post

    def slowly(*arguments):
        posted = post(*arguments)
        written.set()
        go_on.wait(10)
        return posted

    monkeypatch.setattr(Inbox, "post", slowly)
    one = Incoming(text="Một", binding=binding_of("C001"), conversation_id=here)
    posting = asyncio.create_task(agent.post(one))
    await asyncio.to_thread(written.wait, 10)
    monkeypatch.setattr(Inbox, "post", post)
    taking = asyncio.create_task(shop.say("Hai", conversation=here))
    await asyncio.sleep(0.3)  # until it waits for the row; too short, and the test passes anyway
    go_on.set()
    posted, taken = await asyncio.gather(posting, taking)

    read = {m.seq: m.run_id for m in await shop.read(lambda tx: tx.conversations.messages(here))}
    assert read[posted.seq] == taken.run_id
    assert await shop.read(lambda tx: tx.conversations.due(limit=5)) == ()


async def test_a_run_that_is_just_being_overtaken_is_not_resumed(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """SQLite has one writer: there a resumption sees all of it, or none."""
    await seed(postgres_url)
    async with open_shop(postgres_url) as shop:
        stopped = await shop.say("Xin chào", {"error": "503"})
        loop, claim = asyncio.get_running_loop(), SqlConversations.claim

        def later(*arguments, **more):
            monkeypatch.setattr(SqlConversations, "claim", claim)
            newer = shop.say("Còn đó không?", conversation=stopped.conversation_id)
            asyncio.run_coroutine_threadsafe(newer, loop).result(10)
            return claim(*arguments, **more)

        monkeypatch.setattr(SqlConversations, "claim", later)

        with pytest.raises(Conflict, match="overtaken"):
            await shop.container.agent().resume(stopped.run_id, operator="lan", via="test")

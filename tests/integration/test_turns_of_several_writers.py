"""A conversation in which several people write: each hears the answer to their own, none is left."""

import asyncio

import pytest

from support_agent.agent.turns import Incoming
from support_agent.domain.errors import Conflict
from tests.agent_kit import FunctionModel, forever, open_agent, rows
from tests.kit import binding_of


def incoming(text: str, conversation: str | None = None, operator: str | None = None) -> Incoming:
    binding = binding_of("C001")
    return Incoming(text=text, binding=binding, conversation_id=conversation, operator=operator)


async def test_who_waits_is_told_the_answer_to_their_own_message(shop_url: str):
    model = FunctionModel(lambda request: f"Về: {request.turns[-1].text}")
    async with open_agent(shop_url, model=model) as shop:
        agent = shop.container.agent()
        first = await agent.post(incoming("Một", operator="lan"))
        result = await agent.take(incoming("Hai", first.conversation_id, operator="minh"))

    assert result.answer == "Về: Hai"
    # For the answer to the other one nobody waits: it is sent.
    assert rows(shop_url, "SELECT key FROM outbox") == [(f"{first.conversation_id}:3",)]
    assert rows(shop_url, "SELECT count(*) FROM messages WHERE author = 'agent'") == [(2,)]


async def test_who_stops_waiting_leaves_what_others_wrote_to_be_answered(shop_url: str):
    asked = asyncio.Event()

    async def decide(request):
        if len(model.requests) == 1:
            asked.set()
            return await forever()
        return f"Về: {request.turns[-1].text}"

    model = FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        agent = shop.container.agent()
        first = await agent.post(incoming("Một"))
        waiting = asyncio.create_task(agent.take(incoming("Hai", first.conversation_id)))
        await asked.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert rows(shop_url, "SELECT status FROM runs") == [("running",)]
        assert await agent.work(first.conversation_id) is None

    assert rows(shop_url, "SELECT status, attempts FROM runs") == [("done", 1)]
    sent = rows(shop_url, "SELECT text FROM messages WHERE author = 'agent'")
    assert sent == [("Về: Hai",)]
    assert rows(shop_url, "SELECT count(*) FROM outbox") == [(1,)]


async def test_a_run_that_anothers_message_overtook_is_not_resumed(shop_url: str):
    """Both were there when the first one's run began."""

    def decide(_):
        if len(model.requests) == 1:
            raise RuntimeError
        return "Vâng."

    model = FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        agent = shop.container.agent()
        first = await agent.post(incoming("Một", operator="lan"))
        await agent.post(incoming("Hai", first.conversation_id, operator="minh"))
        with pytest.raises(RuntimeError):
            await agent.work(first.conversation_id)
        await agent.work(first.conversation_id)
        stopped, done = rows(shop_url, "SELECT id, status FROM runs ORDER BY id")
        assert (stopped[1], done[1]) == ("stopped", "done")

        with pytest.raises(Conflict, match="overtaken"):
            await agent.resume(stopped[0], operator="lan", via="test")

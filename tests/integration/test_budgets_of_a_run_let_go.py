"""A worker that stops in good order leaves nothing counted that was not used."""

import asyncio

from support_agent.agent.turns import Incoming
from support_agent.domain.runs import Usage
from tests.agent_kit import FunctionModel, Reading, forever, open_agent, rows
from tests.kit import binding_of


async def test_what_it_held_for_its_next_call_is_given_back(shop_url: str):
    async def decide(request):
        return [("probe", "{}")] if len(model.requests) == 1 else "Xong."

    async def hang():
        reached.set()
        return await forever()

    reached, probe = asyncio.Event(), Reading(hang)
    model = FunctionModel(decide, Usage(requests=1, input_tokens=10, output_tokens=10))
    async with open_agent(shop_url, model=model, tools=[probe]) as shop:
        agent = shop.container.agent()
        posted = await agent.post(Incoming(text="Xin chào", binding=binding_of("C001")))
        working = asyncio.create_task(agent.work(posted.conversation_id))
        await reached.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        assert used(shop_url) == [(1, 10, 10)]

        probe._do = lambda: {"done": True}
        await agent.work(posted.conversation_id)

    assert used(shop_url) == [(2, 20, 20)]


def used(url: str) -> list[tuple[int, ...]]:
    columns = "requests, input_tokens, output_tokens"
    return rows(url, f"SELECT {columns} FROM usage_counters WHERE scope = 'conversation'")  # noqa: S608 - our own words

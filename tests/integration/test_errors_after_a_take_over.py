"""An owner that takes a run over counts errors in a row as the one before it did."""

import asyncio

from support_agent.agent.turns import Incoming
from tests.agent_kit import FunctionModel, Reading, forever, open_agent, rows
from tests.kit import binding_of


async def test_calls_too_many_at_once_are_no_errors(shop_url: str):
    async def decide(request):
        if len(model.requests) == 1:
            return [("probe", "{}")] * 5
        if len(model.requests) == 2:
            asked.set()
            return await forever()
        if len(model.requests) == 3:
            return [("no_such_tool", "{}")]
        return "Xong."

    asked, model = asyncio.Event(), FunctionModel(decide)
    limits = {"max_calls_per_step": 1, "max_identical_calls": 50}
    async with open_agent(shop_url, model=model, tools=[Reading()], limits=limits) as shop:
        agent = shop.container.agent()
        posted = await agent.post(Incoming(text="Đơn A100?", binding=binding_of("C001")))
        working = asyncio.create_task(agent.work(posted.conversation_id))
        await asked.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

        await agent.work(posted.conversation_id)

    assert rows(shop_url, "SELECT stop_reason FROM runs") == [("answered",)]

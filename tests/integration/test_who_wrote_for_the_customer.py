"""Separation of duty: whoever wrote for the customer approves nothing, whichever run filed it."""

import asyncio
import json

import pytest

from support_agent.agent.turns import Incoming
from support_agent.domain.errors import SelfApproval
from support_agent.domain.runs import RunStatus
from tests.agent_kit import FunctionModel, call, open_agent, rows, take
from tests.kit import Shop, binding_of


def incoming(text: str, conversation: str, operator: str) -> Incoming:
    binding = binding_of("C001")
    return Incoming(text=text, binding=binding, conversation_id=conversation, operator=operator)


async def refused(shop: Shop, request_id: str, name: str) -> None:
    with pytest.raises(SelfApproval):
        await shop.container.approvals().approve(request_id, by=await shop.approver(name))


async def test_not_when_another_resumed_the_run_that_files_it(shop: Shop):
    quoted = await shop.quote("A100")
    shop.model.play({"error": "503"})
    agent = shop.container.agent()
    stopped = await agent.take(incoming("đồng ý", quoted.conversation_id, "lan"))
    assert stopped.status is RunStatus.STOPPED
    shop.model.play(call("request_refund", quote_id=quoted.quotes[0].id), {"answer": "Xong."})

    result = await agent.resume(stopped.run_id, operator="minh", via="test")

    (request,) = result.requests
    await refused(shop, request.id, "lan")
    await refused(shop, request.id, "minh")


async def test_not_when_the_yes_came_while_anothers_turn_was_filing(shop_url: str):
    async def decide(request):
        if len(model.requests) == 1:
            return [("quote_refund", '{"order_id": "A100"}')]
        if len(model.requests) == 3:
            asked.set()
            await go_on.wait()
            quote = rows(shop_url, "SELECT id FROM quotes")[0][0]
            return [("request_refund", json.dumps({"quote_id": quote}))]
        return "Vâng."

    asked, go_on, model = asyncio.Event(), asyncio.Event(), FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        quoted = await take(shop, "Hoàn tiền đơn A100")
        here = quoted.conversation_id
        filing = asyncio.create_task(take(shop, "Bao giờ có tiền?", conversation=here))
        await asked.wait()
        await shop.container.agent().post(incoming("đồng ý", here, "lan"))
        go_on.set()
        (request,) = (await filing).requests
        assert request.operator is None

        await refused(shop, request.id, "lan")

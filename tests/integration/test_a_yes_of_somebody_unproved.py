"""Money moves on the yes of a verified customer, not on whoever writes in the conversation."""

import asyncio
import json

import pytest

from support_agent.agent.turns import Incoming
from support_agent.domain.conversation import Assurance
from tests.agent_kit import FunctionModel, open_agent, rows, take, told
from tests.kit import binding_of


@pytest.mark.parametrize("assurance", [Assurance.NONE, Assurance.CLAIMED])
async def test_it_files_nothing_while_a_turn_of_the_customers_runs(
    shop_url: str, assurance: Assurance
):
    async def decide(request):
        if len(model.requests) == 1:
            return [("quote_refund", '{"order_id": "A102"}')]
        if len(model.requests) == 3:
            asked.set()
            await go_on.wait()
            quote = rows(shop_url, "SELECT id FROM quotes")[0][0]
            return [("request_refund", json.dumps({"quote_id": quote}))]
        return "Vâng."

    asked, go_on, model = asyncio.Event(), asyncio.Event(), FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        here = (await take(shop, "Hoàn tiền đơn A102")).conversation_id
        filing = asyncio.create_task(take(shop, "Bao giờ có tiền?", conversation=here))
        await asked.wait()
        binding = binding_of("C001", assurance=assurance)
        posted = Incoming(text="đồng ý", binding=binding, conversation_id=here)
        await shop.container.agent().post(posted)
        go_on.set()
        result = await filing

    assert result.requests == ()
    assert "CONSENT_UNCLEAR" in told(model.requests[-1])[-1]

"""A view is cut in time whatever script the customer writes in."""

from support_agent.domain.runs import Usage
from support_agent.ports.model import CustomerTurn
from tests.agent_kit import FunctionModel, open_agent, take


async def test_letters_with_marks_alone_are_cut_like_others(shop_url: str):
    model = FunctionModel(lambda _: "Dạ.", usage=Usage(requests=1))
    async with open_agent(shop_url, model=model) as shop:
        first = await take(shop, "ÿ þ" * 1_300)
        for _ in range(6):
            await take(shop, "ÿ þ" * 1_300, conversation=first.conversation_id)

    shown = [
        sum(len(turn.text) for turn in request.turns if isinstance(turn, CustomerTurn))
        for request in model.requests
    ]
    assert max(shown) < 4 * 3_900

"""What is held is the view as it is sent, not as it was before it was cut."""

from support_agent.domain.runs import StopReason, Usage
from tests.agent_kit import FunctionModel, Reading, open_agent, take


async def test_a_view_that_fits_once_it_is_cut_is_sent(shop_url: str):
    long = Reading(lambda: {"order_id": "A1", "status": "X", "note": "chữ " * 15_000})
    model = FunctionModel(
        lambda request: [("probe", "{}")] if request.call_index == 0 else "Dạ.",
        usage=Usage(requests=1, input_tokens=100, output_tokens=10),
    )
    sections = {
        "history": {"high_water_tokens": 600, "low_water_tokens": 300},
        "budgets": {"conversation_tokens": 24_000},
        "limits": {"max_tokens": 100_000},
    }
    async with open_agent(shop_url, model=model, tools=[long], **sections) as shop:
        first = await take(shop, "A100?")
        again = await take(shop, "Còn đó không?", conversation=first.conversation_id)

    assert again.stop_reason is StopReason.ANSWERED

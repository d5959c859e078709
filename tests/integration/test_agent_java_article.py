"""The three tests of the article this product grew from, in our form."""

from support_agent.domain.runs import RunStatus, StopReason
from tests.agent_kit import FunctionModel, call, observations, open_agent, take, told
from tests.kit import Shop


async def test_should_call_a_tool_then_return_the_final_answer(shop: Shop):
    result = await shop.say(
        "Đơn A100 thế nào?",
        {**call("lookup_order", order_id="A100"), "thought": "cần biết trạng thái đơn"},
        {"answer": "Đơn A100 đã được giao"},
    )

    first, second = shop.model.requests
    assert result.answer == "Đơn A100 đã được giao"
    assert told(first) == []
    assert '"status":"DELIVERED"' in told(second)[0]


async def test_should_stop_when_the_step_limit_is_reached(shop_url: str):
    looping_model = FunctionModel(lambda _: [("lookup_order", '{"order_id":"A100"}')])
    limits = {"max_steps": 3, "max_identical_calls": 100}

    async with open_agent(shop_url, model=looping_model, limits=limits) as shop:
        result = await take(shop, "Đơn A100 thế nào?")

    assert result.stop_reason is StopReason.MAX_STEPS
    assert result.status is RunStatus.STOPPED
    assert len(looping_model.requests) == len(result.steps) == 3


async def test_should_report_an_unknown_tool_as_an_observation(shop: Shop):
    result = await shop.say(
        "Hủy đơn A100",
        {**call("cancel_order", order_id="A100"), "thought": "thử hủy"},
        {"answer": "Không thể hủy"},
    )

    (observation,) = observations(result)
    assert observation.content.startswith("ERROR")
    assert "không có tool" in observation.content
    assert told(shop.model.requests[-1]) == [observation.content]
    assert result.answer == "Không thể hủy"

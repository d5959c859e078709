"""A recap that is longer than the high-water mark is not made anew with every message."""

from tests.agent_kit import FunctionModel, Reading, open_agent, rows, take


async def test_facts_longer_than_the_mark_do_not_cut_at_each_message(shop_url: str):
    orders = [
        {"order_id": f"A{number}", "status": "DELIVERED", "total": 250_000}
        for number in range(700, 730)
    ]
    model = FunctionModel(
        lambda request: [("probe", "{}")] if request.call_index == 0 else "Dạ, mình nghe đây ạ."
    )
    tool = Reading(lambda: {"orders": orders})
    history = {"high_water_tokens": 500, "low_water_tokens": 250}
    async with open_agent(shop_url, model=model, tools=[tool], history=history) as shop:
        first = await take(shop, "Các đơn của mình đâu?")
        for _ in range(20):
            await take(shop, "Ừ", conversation=first.conversation_id)

    assert 0 < rows(shop_url, "SELECT count(*) FROM compactions")[0][0] <= 5

"""A cut that brings nothing is not made."""

from support_agent.adapters.models.offline import OfflineModel
from tests.agent_kit import open_agent, rows, take

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}


async def test_no_two_cuts_are_at_one_place(shop_url: str):
    async with open_agent(shop_url, model=OfflineModel(), history=SMALL) as shop:
        first = await take(shop, "Đơn A100 của tôi sao rồi?")
        await take(shop, "Liệt kê các đơn hàng của tôi", conversation=first.conversation_id)
        for number in range(6):
            await take(
                shop,
                f"{number}. Chính sách hoàn tiền của shop thế nào vậy?",
                conversation=first.conversation_id,
            )

    places = rows(shop_url, "SELECT through_seq, digested_run_id, digested_step FROM compactions")
    assert len(places) == len(set(places)) > 0

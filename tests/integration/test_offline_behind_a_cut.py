"""The offline model still knows of a request that it filed before the cut."""

from support_agent.adapters.models.offline import OfflineModel
from support_agent.domain.refunds import RequestStatus
from tests.agent_kit import open_agent, rows, take

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}


async def test_what_was_filed_before_a_cut_can_be_taken_back(shop_url: str):
    async with open_agent(shop_url, model=OfflineModel(), history=SMALL) as shop:
        quoted = await take(shop, "hoàn tiền đơn A100")
        conversation = quoted.conversation_id
        filed = await take(shop, "đồng ý", conversation=conversation)
        for number in range(6):
            text = f"{number}. Chính sách hoàn tiền của shop thế nào vậy?"
            await take(shop, text, conversation=conversation)
        assert rows(shop_url, "SELECT max(through_seq) FROM compactions")[0][0] > 4
        asked = await take(shop, "thôi huỷ đi", conversation=conversation)
        request_id = filed.requests[0].id
        result = await take(shop, f"huỷ {request_id}", conversation=conversation)

    # It may have been told of only: one that is not in sight is asked about first.
    assert request_id in asked.answer
    assert [request.status for request in result.requests] == [RequestStatus.CANCELLED]

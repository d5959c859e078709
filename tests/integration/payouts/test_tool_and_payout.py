"""A refund tool that was cut off, repeated or resumed: what it paid is read, never paid again."""

import asyncio

import pytest

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from support_agent.testing.gateway import Act
from tests.agent_kit import call, observations, resume
from tests.heart import approved, assert_sound, balance, pay
from tests.kit import Shop

S = RequestStatus
SORRY = {"error": "503"}


async def stopped_after_filing(shop: Shop):
    """The refund tool ran, then the model fell silent."""
    quoted = await shop.quote("A102")
    filing = call("request_refund", quote_id=quoted.quotes[0].id)
    stopped = await shop.say("đồng ý", filing, SORRY, conversation=quoted.conversation_id)
    return filing, stopped


async def test_one_run_resumed_twice_at_once_pays_once(shop: Shop, gateway):
    """M1, row 29: two workers take up the same pause."""
    filing, stopped = await stopped_after_filing(shop)
    shop.model.play(filing, {"answer": "Xong."})

    answers = await asyncio.gather(
        *(resume(shop, stopped.run_id) for _ in range(2)), return_exceptions=True
    )

    assert all(not isinstance(a, Exception) or isinstance(a, SupportAgentError) for a in answers)
    assert len(gateway.sent) == 1
    assert await balance(shop, "A102") == (0, 120_000)
    await assert_sound(shop)


@pytest.mark.parametrize("again", [True, False], ids=["asks again", "asks how it stands"])
async def test_a_resumed_run_reads_what_was_paid(shop: Shop, gateway, again):
    """M2, row 34: the model failed after the payment, and the run is tried once more."""
    filing, stopped = await stopped_after_filing(shop)
    asking = call("refund_status", request_id=stopped.requests[0].id)
    shop.model.play(filing if again else asking, {"answer": "Xong."})

    resumed = await resume(shop, stopped.run_id)

    assert S.REFUNDED in observations(resumed)[-1].content
    assert resumed.requests[0].status is S.REFUNDED
    assert len(gateway.sent) == 1


async def test_an_approved_refund_is_read_by_the_next_turn(shop: Shop, gateway):
    """Row 34, with a person in between."""
    request = await approved(shop)
    await pay(shop, request)
    asking = call("refund_status", request_id=request.id)

    await shop.say("xong chưa?", SORRY, conversation=request.conversation_id)
    told = await shop.say(
        "xong chưa?", asking, {"answer": "Rồi."}, conversation=request.conversation_id
    )

    assert S.REFUNDED in observations(told)[-1].content
    assert len(gateway.sent) == 1


@pytest.mark.parametrize("act", [Act.LOSE_ANSWER, Act.LOSE_REQUEST, Act.HANG_AFTER])
async def test_a_tool_that_times_out_is_not_tried_again_by_the_loop(shop: Shop, gateway, act):
    """M16: the model that calls it again hears that the outcome is not known."""
    quoted = await shop.quote("A102")
    filing = call("request_refund", quote_id=quoted.quotes[0].id)
    gateway.will(act)

    result = await shop.say(
        "đồng ý", filing, filing, {"answer": "Đã hoàn rồi!"}, conversation=quoted.conversation_id
    )

    assert result.requests[0].status is S.IN_DOUBT
    assert len(gateway.sent) == 1
    assert "chưa xác định" in result.answer
    await shop.container.payouts().reconcile()
    assert (await shop.request(result.requests[0].id)).status is S.REFUNDED
    assert len(gateway.refunds) == 1
    await assert_sound(shop)

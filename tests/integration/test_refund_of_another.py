"""One refund of the gateway's pays one request."""

from dataclasses import replace

from support_agent.domain.refunds import RequestStatus
from tests.heart import assert_sound, balance, change_order
from tests.integration.test_refund_endpoint_story import opened, told
from tests.refund_kit import ACCOUNT

S = RequestStatus


async def test_a_refund_that_paid_another_request_is_no_proof(shop_url):
    """An endpoint that takes the second for the first, and puts the new key on it."""
    async with opened(shop_url) as story:
        order = await story.shop.container.orders().get("A100")
        payment_id = story.endpoint.endpoint.sell(250_000, "VND")
        (paid,) = order.payments
        there = replace(paid, gateway="http", account=ACCOUNT, gateway_payment_id=payment_id)
        await change_order(story.shop, "A100", payments=(there,))
        first = await story.shop.filed("A100", amount=100_000)
        assert first.status is S.REFUNDED
        (made,) = story.endpoint.endpoint.refunds

        story.endpoint.after = lambda reply: told(reply, "refund", id=made["id"])
        second = await story.shop.filed("A100", amount=100_000)

        assert second.status is S.MANUAL_REVIEW
        assert await balance(story.shop) == (100_000, 100_000)
        await assert_sound(story.shop)

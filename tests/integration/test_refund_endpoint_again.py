"""What a refund endpoint says to bytes that were sent before proves little of the first time."""

from datetime import timedelta

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.testing.fault_proxy import HttpReply, HttpRequest
from support_agent.testing.refund_endpoint import RefundEndpoint
from tests.heart import assert_sound, attempts, balance, pay
from tests.integration.test_refund_endpoint_story import Story, opened, says
from tests.refund_kit import ACCOUNT, SECRET

S = RequestStatus


@pytest.fixture
async def story(shop_url):
    async with opened(shop_url) as story:
        yield story


async def paid_and_lost(story: Story):
    """A request that the endpoint has paid, of which nothing was heard."""
    request = await story.approved()
    story.endpoint.after = lambda reply: says(502, "-")
    assert (await pay(story.shop, request)).status is S.IN_DOUBT
    assert story.made == [250_000]
    return request


@pytest.mark.parametrize("account", [ACCOUNT, "another"])
async def test_another_system_at_the_address_proves_nothing(story, account, monkeypatch):
    """The address, or the account with it, was changed meanwhile."""
    request = await paid_and_lost(story)
    real = story.endpoint.endpoint
    story.endpoint.endpoint = RefundEndpoint(secrets=(SECRET,), account=account, now=real.now)
    gateway = story.shop.container.gateway()
    monkeypatch.setattr(gateway, "_account", account)

    story.time.advance(timedelta(minutes=10))
    await story.reconcile()

    assert await story.status(request) is S.IN_DOUBT
    assert await balance(story.shop) == (250_000, 0)

    story.endpoint.endpoint = real
    monkeypatch.undo()
    await story.reconcile()
    assert await story.status(request) is S.REFUNDED
    await assert_sound(story.shop)


async def test_an_endpoint_that_forgot_the_key_proves_nothing(story):
    """The first sending is what took the amount; `find` looks at the same forgetful place."""
    request = await paid_and_lost(story)
    story.endpoint.endpoint.refunds[0]["key"] = None

    story.time.advance(timedelta(minutes=10))
    await story.reconcile()

    assert await story.status(request) is not S.FAILED
    assert story.made == [250_000]


async def test_one_that_never_tells_is_for_a_person_in_the_end(story):
    request = await paid_and_lost(story)

    async def dead(asked: HttpRequest) -> HttpReply:
        return says(404, "-")

    story.endpoint.endpoint = dead
    for _ in range(2):
        story.time.advance(timedelta(days=1))
        await story.reconcile()
    assert await story.status(request) is S.IN_DOUBT

    story.time.advance(timedelta(days=1))
    await story.reconcile()
    assert await story.status(request) is S.MANUAL_REVIEW
    assert (await attempts(story.shop, request))[0].error_code == "NEVER_TOLD"
    assert await balance(story.shop) == (250_000, 0)
    await assert_sound(story.shop)

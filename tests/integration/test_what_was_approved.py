"""What a person approved is what is paid, whatever the model asks for afterwards."""

from collections.abc import AsyncIterator

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.testing.gateway import GatewaySimulator
from tests.heart import (
    approved,
    assert_sound,
    balance,
    error_of,
    open_shop_with,
    pay,
    requests_of,
    simulator,
)
from tests.kit import Shop


@pytest.fixture
def gateway() -> GatewaySimulator:
    return simulator()


@pytest.fixture
async def shop(shop_url: str, gateway: GatewaySimulator) -> AsyncIterator[Shop]:
    async with open_shop_with(shop_url, overrides={"gateway": gateway}) as opened:
        yield opened


async def test_other_arguments_after_the_approval_are_another_request(shop, gateway):
    """Cases row 28."""
    request = await approved(shop, amount=210_000)
    talk = request.conversation_id

    whole = await shop.quote("A100", conversation=talk, amount=250_000)
    rest = await shop.quote("A100", conversation=talk, amount=40_000)
    await shop.answer(rest)
    paid = await pay(shop, request)

    assert error_of(whole) == "AMOUNT_TOO_HIGH"
    assert (paid.status, paid.amount_minor) == (RequestStatus.REFUNDED, 210_000)
    assert gateway.sent[-1].amount_minor == 210_000
    other = next(one for one in await requests_of(shop) if one.id != request.id)
    assert (other.status, other.amount_minor) == (RequestStatus.PENDING_APPROVAL, 40_000)
    assert await balance(shop) == (40_000, 210_000)
    await assert_sound(shop)

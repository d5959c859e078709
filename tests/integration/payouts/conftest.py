"""The sample shop with a gateway that can be told what to do."""

from collections.abc import AsyncIterator

import pytest

from support_agent.testing.gateway import GatewaySimulator
from tests.heart import open_shop_with, simulator
from tests.kit import Shop


@pytest.fixture
def gateway() -> GatewaySimulator:
    return simulator()


@pytest.fixture
async def shop(shop_url: str, gateway: GatewaySimulator) -> AsyncIterator[Shop]:
    """The sample shop with the scriptable gateway."""
    payments = {"timeout_seconds": 0.05}
    parts = {"gateway": gateway}
    async with open_shop_with(shop_url, overrides=parts, payments=payments) as opened:
        yield opened

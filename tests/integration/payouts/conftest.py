"""The sample shop with a gateway that can be told what to do, and with clocks that can be moved."""

from collections.abc import AsyncIterator

import pytest

from support_agent.testing.gateway import GatewaySimulator
from tests.heart import sample_shop
from tests.kit import Shop
from tests.moved_time import MovedTime, open_shop_in


@pytest.fixture
def time() -> MovedTime:
    """The database's clock and the machine's."""
    return MovedTime()


@pytest.fixture
def gateway(time: MovedTime) -> GatewaySimulator:
    return GatewaySimulator(sample_shop().orders, now=time.of_machine)


@pytest.fixture
async def shop(shop_url: str, gateway: GatewaySimulator, time: MovedTime) -> AsyncIterator[Shop]:
    """The sample shop with the scriptable gateway."""
    # Short for the gateways that hang, and long enough for one that answers on a busy machine.
    payments = {"timeout_seconds": 0.25}
    parts = {"gateway": gateway}
    async with open_shop_in(time, shop_url, overrides=parts, payments=payments) as opened:
        yield opened

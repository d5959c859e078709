"""A server that takes the connection and never says hello: it is left, and its socket closed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from support_agent.adapters.orders.http_transport import ShopHttp
from support_agent.adapters.payments.http_exchange import Exchange
from support_agent.adapters.payments.http_signing import Signing
from support_agent.domain.errors import OrdersUnavailable, PaymentOutcomeUnknown

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="  # noqa: S105 - signs nothing that anybody believes
WITHIN_S = 0.5


@asynccontextmanager
async def silent():
    """A port, and what says that a client has left."""
    left = asyncio.Event()

    async def listen(reader, writer):
        while await reader.read(1_024):
            pass
        left.set()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], left
    finally:
        server.close()


async def orders(port):
    asking = ShopHttp(headers={}, timeout_s=WITHIN_S)
    with pytest.raises(OrdersUnavailable):
        await asking.get(f"https://127.0.0.1:{port}/orders/A100")
    return asking


async def payments(port):
    url = f"https://127.0.0.1:{port}/refunds"
    asking = Exchange(url=url, signing=Signing([SECRET]), timeout_s=WITHIN_S)
    with pytest.raises(PaymentOutcomeUnknown):
        await asking.ask({"operation": "find"})
    return asking


@pytest.mark.parametrize("ask", [orders, payments])
async def test_a_greeting_that_never_ends_leaves_no_socket(ask):
    async with silent() as (port, left):
        asking = await ask(port)
        async with asyncio.timeout(10):  # before the client itself is closed
            await left.wait()
        await asking.aclose()

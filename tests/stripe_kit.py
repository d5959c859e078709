"""What tests of the Stripe adapter share: the adapter in front of a server on this machine.

Payments are made without the adapter's arithmetic: in every currency used here the API counts the
same units as we do, so an amount that the adapter moves by a factor is seen.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.testing.fault_proxy import Backend, Fault, FaultProxy, forward_to, json_reply
from support_agent.testing.gateway_backstage import Backstage, CapturedPayment
from support_agent.testing.stripe_server import StripeServer

ACCOUNT = "acct_ours"
KEY = "sk_test_synthetic"
TIMEOUT_S = 5.0  # nothing hangs for so long but on purpose


@asynccontextmanager
async def stripe_through(
    backend: Backend, *, page: int = 3, timeout_s: float = TIMEOUT_S, **answers: Any
) -> AsyncIterator[tuple[StripeGateway, FaultProxy]]:
    """The adapter, and the proxy between it and the backend."""
    async with FaultProxy(backend, **answers) as proxy:
        gateway = StripeGateway(
            key=KEY, account=ACCOUNT, timeout_s=timeout_s, url=proxy.url, page=page
        )
        try:
            yield gateway, proxy
        finally:
            await gateway.aclose()


def captured(payment_id: str, captured_minor: int, currency: str) -> CapturedPayment:
    return CapturedPayment(
        gateway="stripe",
        account=ACCOUNT,
        gateway_payment_id=payment_id,
        captured_minor=captured_minor,
        currency=currency,
    )


@asynccontextmanager
async def server_backstage(
    *, intents: bool, server: StripeServer | None = None
) -> AsyncIterator[tuple[StripeGateway, Backstage]]:
    """Our own small Stripe: every check, by payment intents or by charges alone."""
    server = server or StripeServer(account=ACCOUNT)

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        payment_id = server.sell(captured_minor, currency, intent=intents)
        return captured(payment_id, captured_minor, currency)

    async def refund_outside(payment: CapturedPayment, amount_minor: int) -> str:
        return server.refund_outside(payment.gateway_payment_id, amount_minor)["id"]

    async def fail_late(refund_id: str) -> None:
        server.fail(refund_id)

    async with stripe_through(server) as (gateway, proxy):
        yield (
            gateway,
            Backstage(
                sell=sell,
                currencies=("VND", "JPY", "USD", "KWD"),
                lose_next_answer=lambda: proxy.will(Fault.DROP_RESPONSE),
                refund_outside=refund_outside,
                fail_late=fail_late,
            ),
        )


# The npm stand-in has no answer for whose key it is; it knows neither KWD nor late failures, and
# lists refunds of any time.
MOCK_ANSWERS = {"GET /v1/account": json_reply({"id": ACCOUNT, "object": "account"})}


@asynccontextmanager
async def mock_backstage(port: int) -> AsyncIterator[tuple[StripeGateway, Backstage]]:
    """stripe-stateful-mock, written by others than we: charges, refunds, keys, balances."""
    async with (
        stripe_through(forward_to(port), page=100, answers=MOCK_ANSWERS) as (gateway, proxy),
        httpx2.AsyncClient(base_url=proxy.url, headers={"authorization": f"Bearer {KEY}"}) as shop,
    ):

        async def sell(captured_minor: int, currency: str) -> CapturedPayment:
            return await sell_at_mock(shop, captured_minor, currency)

        async def refund_outside(payment: CapturedPayment, amount_minor: int) -> str:
            form = {"charge": payment.gateway_payment_id, "amount": str(amount_minor)}
            answer = await shop.post("/v1/refunds", data=form)
            return answer.raise_for_status().json()["id"]

        yield (
            gateway,
            Backstage(
                sell=sell,
                currencies=("VND", "JPY", "USD"),
                lose_next_answer=lambda: proxy.will(Fault.DROP_RESPONSE),
                refund_outside=refund_outside,
                knows_when=False,
            ),
        )


async def sell_at_mock(
    shop: httpx2.AsyncClient, captured_minor: int, currency: str
) -> CapturedPayment:
    form = {
        "amount": str(captured_minor),
        "currency": currency.lower(),
        "source": "tok_visa",
    }
    answer = await shop.post("/v1/charges", data=form)
    return captured(answer.raise_for_status().json()["id"], captured_minor, currency)

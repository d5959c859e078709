"""What tests of the HTTP gateway share: the adapter in front of a refund endpoint on this machine."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from support_agent.adapters.payments.http import HttpGateway
from support_agent.testing.fault_proxy import Backend, Fault, FaultProxy
from support_agent.testing.gateway_backstage import Backstage, CapturedPayment
from support_agent.testing.refund_endpoint import RefundEndpoint

ACCOUNT = "shop"
SECRET, NEXT_SECRET = (
    f"whsec_{base64.b64encode(text.encode()).decode()}"
    for text in ("synthetic secret of the endpoint", "the synthetic secret after it")
)
TIMEOUT_S = 5.0  # nothing hangs for so long but on purpose


@asynccontextmanager
async def gateway_through(
    backend: Backend,
    *,
    secrets: tuple[str, ...] = (SECRET,),
    timeout_s: float = TIMEOUT_S,
    livemode: bool = False,
) -> AsyncIterator[tuple[HttpGateway, FaultProxy]]:
    """The adapter, and the proxy between it and the backend."""
    async with FaultProxy(backend) as proxy:
        gateway = HttpGateway(
            url=f"{proxy.url}/refunds",
            account=ACCOUNT,
            secrets=secrets,
            livemode=livemode,
            timeout_s=timeout_s,
        )
        try:
            yield gateway, proxy
        finally:
            await gateway.aclose()


def captured(payment_id: str, captured_minor: int, currency: str) -> CapturedPayment:
    return CapturedPayment(
        gateway="http",
        account=ACCOUNT,
        gateway_payment_id=payment_id,
        captured_minor=captured_minor,
        currency=currency,
    )


@asynccontextmanager
async def endpoint_backstage() -> AsyncIterator[tuple[HttpGateway, Backstage]]:
    """The kit's own endpoint, with pages of three."""
    endpoint = RefundEndpoint(secrets=(SECRET,), account=ACCOUNT, page=3)

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        return captured(endpoint.sell(captured_minor, currency), captured_minor, currency)

    async def refund_outside(payment: CapturedPayment, amount_minor: int) -> str:
        return endpoint.refund_outside(payment.gateway_payment_id, amount_minor)["id"]

    async def fail_late(refund_id: str) -> None:
        endpoint.fail(refund_id)

    async with gateway_through(endpoint) as (gateway, proxy):
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

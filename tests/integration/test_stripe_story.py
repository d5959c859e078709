"""The whole shop in front of Stripe: what a lost answer, an event and a wrong key come to."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from support_agent.domain.errors import EventRefused
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.testing.fault_proxy import Backend, Fault, FaultProxy, forward_to
from support_agent.testing.gateway_events import stripe_signature
from support_agent.testing.stripe_server import StripeServer
from tests.heart import approved, assert_sound, balance, change_order, pay
from tests.kit import Shop
from tests.moved_time import MovedTime, open_shop_in
from tests.stripe_kit import ACCOUNT, KEY, MOCK_ANSWERS, sell_at_mock

S = RequestStatus
SECRET = "whsec_synthetic"  # noqa: S105 - of no endpoint
PAYMENTS = {
    "kind": "stripe",
    "stripe_key": KEY,
    "stripe_account": ACCOUNT,
    "webhook_secrets": SECRET,
    "timeout_seconds": 2.0,
}


@dataclass(frozen=True, kw_only=True)
class Story:
    shop: Shop
    proxy: FaultProxy
    time: MovedTime

    async def approved(self, payment_id: str) -> RefundRequest:
        """A100, whose customer paid by this payment of Stripe's, and its refund approved."""
        order = await self.shop.container.orders().get("A100")
        (paid,) = order.payments
        at_stripe = replace(paid, gateway="stripe", account=ACCOUNT, gateway_payment_id=payment_id)
        await change_order(self.shop, "A100", payments=(at_stripe,))
        return await approved(self.shop)

    async def receive(self, event: dict[str, Any]) -> Any:
        body = json.dumps(event).encode()
        headers = stripe_signature(body, SECRET, at=self.time.of_machine())
        return await self.shop.container.provider_events().receive(body, headers)


@asynccontextmanager
async def story(backend: Backend, url: str, **answers: Any) -> AsyncIterator[Story]:
    time = MovedTime()
    async with FaultProxy(backend, **answers) as proxy:
        payments = PAYMENTS | {"stripe_url": proxy.url}
        async with open_shop_in(time, url, payments=payments) as shop:
            yield Story(shop=shop, proxy=proxy, time=time)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def test_a_lost_answer_is_in_doubt_then_found_and_paid_once(shop_url, stripe_mock_port):
    backend = forward_to(stripe_mock_port)
    headers = {"authorization": f"Bearer {KEY}"}
    async with story(backend, shop_url, answers=MOCK_ANSWERS) as told:
        async with httpx2.AsyncClient(base_url=told.proxy.url, headers=headers) as stripe:
            payment = await sell_at_mock(stripe, 250_000, "VND")
            request = await told.approved(payment.gateway_payment_id)
            told.proxy.will(Fault.DROP_RESPONSE)

            in_doubt = await pay(told.shop, request)
            assert in_doubt.status is S.IN_DOUBT
            assert await balance(told.shop) == (250_000, 0)

            await told.shop.container.payouts().reconcile()
            assert (await told.shop.request(request.id)).status is S.REFUNDED
            assert await balance(told.shop) == (0, 250_000)

            query = {"charge": payment.gateway_payment_id}
            listed = (await stripe.get("/v1/refunds", params=query)).json()["data"]
        assert [(refund["amount"], refund["currency"]) for refund in listed] == [(250_000, "vnd")]
        assert listed[0]["metadata"]["support_agent_key"] == f"refund:{request.id}:1"
        assert len([post for post in told.proxy.posts if post.path == "/v1/refunds"]) == 1
        await assert_sound(told.shop)


async def test_a_lost_request_is_sent_again_with_its_key_and_paid_once(shop_url):
    server = StripeServer(account=ACCOUNT)
    async with story(server, shop_url) as told:
        request = await told.approved(server.sell(250_000, "VND"))
        told.proxy.will(Fault.DROP_BEFORE)
        assert (await pay(told.shop, request)).status is S.IN_DOUBT

        told.time.advance(timedelta(minutes=10))
        await told.shop.container.payouts().reconcile()

        assert (await told.shop.request(request.id)).status is S.REFUNDED
        first, second = told.proxy.posts
        assert (first.body, first.headers["idempotency-key"]) == (
            second.body,
            second.headers["idempotency-key"],
        )
        assert [refund["amount"] for refund in server.refunds] == [250_000]
        await assert_sound(told.shop)


async def test_a_refund_that_fails_late_comes_back_by_its_event(shop_url):
    server = StripeServer(account=ACCOUNT)
    async with story(server, shop_url) as told:
        request = await told.approved(server.sell(250_000, "VND"))
        assert (await pay(told.shop, request)).status is S.REFUNDED
        (refund,) = server.refunds
        server.fail(refund["id"])

        await told.receive(event_about(refund, "refund.failed", told.time))

        assert (await told.shop.request(request.id)).status is S.FAILED
        assert await balance(told.shop) == (0, 0)
        await assert_sound(told.shop)


async def test_a_refund_somebody_made_at_stripe_is_booked_though_the_shop_knows_the_charge(
    shop_url,
):
    """Stripe names the payment intent first, the shop wrote the charge down."""
    server = StripeServer(account=ACCOUNT)
    async with story(server, shop_url) as told:
        charge = server.intents[server.sell(250_000, "VND")]
        request = await told.approved(charge)
        refund = server.refund_outside(charge, 30_000)

        await told.receive(event_about(refund, "refund.created", told.time))

        (booked,) = await refunded(told.shop)
        assert booked == 30_000
        assert (await pay(told.shop, request)).status is not S.REFUNDED
        assert [refund["amount"] for refund in server.refunds] == [30_000]
        await assert_sound(told.shop)


async def test_an_event_of_another_account_or_mode_changes_nothing(shop_url):
    server = StripeServer(account=ACCOUNT)
    async with story(server, shop_url) as told:
        await told.approved(server.sell(250_000, "VND"))
        refund = server.refund_outside("pi_1", 30_000)
        event = event_about(refund, "refund.created", told.time)

        for changes in ({"account": "acct_somebody_elses"}, {"livemode": True}):
            with pytest.raises(EventRefused):
                await told.receive(event | changes)
        assert await refunded(told.shop) == [0]


async def test_a_key_of_another_account_pays_nothing(shop_url):
    server = StripeServer(account="acct_somebody_elses")
    async with story(server, shop_url) as told:
        request = await told.approved(server.sell(250_000, "VND"))

        assert (await pay(told.shop, request)).status in {S.APPROVED, S.PENDING_APPROVAL}
        assert told.proxy.posts == ()
        assert server.refunds == []


def event_about(refund: dict[str, Any], kind: str, time: MovedTime) -> dict[str, Any]:
    return {
        "id": "evt_1",
        "object": "event",
        "type": kind,
        "created": int(time.of_machine().timestamp()),
        "livemode": False,
        "data": {"object": refund},
    }


async def refunded(shop: Shop) -> list[int]:
    books = await shop.read(lambda tx: tx.books.of_order("A100"))
    return [payment.refunded_minor for payment in books.payments]

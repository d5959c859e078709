"""`/v1/provider-events/stripe`: events of Stripe's through the route, as Stripe sends them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.testing.fault_proxy import FaultProxy, HttpReply, HttpRequest
from support_agent.testing.gateway_events import stripe_signature
from support_agent.testing.stripe_server import StripeServer
from tests.api_kit import Api, opened_api
from tests.heart import approved, change_order
from tests.stripe_kit import ACCOUNT, KEY

ROUTE = "/v1/provider-events/stripe"
SECRET = "whsec_synthetic"  # noqa: S105 - of no endpoint
OLDER = "whsec_older"
PAYMENTS = {
    "kind": "stripe",
    "stripe_key": KEY,
    "stripe_account": ACCOUNT,
    "webhook_secrets": f"{SECRET},{OLDER}",
    "timeout_seconds": 2.0,
}
AWAY = HttpReply(status=503, body=b'{"error": {"type": "api_error", "message": "simulated"}}')
S = RequestStatus


@dataclass
class Door:
    """Stripe, which may be away."""

    server: StripeServer
    away: bool = False

    async def __call__(self, request: HttpRequest) -> HttpReply:
        return AWAY if self.away else await self.server(request)


@dataclass(frozen=True, kw_only=True)
class World:
    api: Api
    server: StripeServer
    door: Door
    request_id: str
    refund: dict[str, Any]

    async def post(self, event: dict[str, Any] | bytes, **signed: Any) -> httpx2.Response:
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        headers = self.signature(body, **signed) if "headers" not in signed else signed["headers"]
        return await self.api.client.post(ROUTE, content=body, headers=headers)

    def signature(self, body: bytes, *, secret: str = SECRET, ago_s: float = 0) -> dict[str, str]:
        at = datetime.fromtimestamp(time.time() - ago_s, UTC)
        return dict(stripe_signature(body, secret, at=at))

    async def status(self) -> RequestStatus:
        return (await self.api.shop.request(self.request_id)).status


@asynccontextmanager
async def world(url: str) -> AsyncIterator[World]:
    """A100, paid by Stripe, whose refund was paid out and called succeeded."""
    server = StripeServer(account=ACCOUNT)
    door = Door(server)
    payment_id = server.sell(250_000, "VND", intent=True)
    async with (
        FaultProxy(door) as proxy,
        opened_api(url, payments=PAYMENTS | {"stripe_url": proxy.url}) as api,
    ):
        order = await api.shop.container.orders().get("A100")
        (paid,) = order.payments
        at_stripe = replace(paid, gateway="stripe", account=ACCOUNT, gateway_payment_id=payment_id)
        await change_order(api.shop, "A100", payments=(at_stripe,))
        request = await approved(api.shop)
        paid_out = await api.shop.container.payouts().pay(request.id)
        assert paid_out.status is S.REFUNDED
        attempts = await api.shop.read(lambda tx: tx.attempts.of(request.id))
        refund = {"id": attempts[-1].provider_refund_id, "payment_intent": payment_id}
        yield World(api=api, server=server, door=door, request_id=request.id, refund=refund)


@pytest.fixture
async def stripe(shop_url):
    async with world(shop_url) as opened:
        yield opened


def event(world: World, **changes: Any) -> dict[str, Any]:
    told = {
        "id": "evt_1",
        "object": "event",
        "type": "refund.failed",
        "created": int(time.time()),
        "livemode": False,
        "data": {"object": {"object": "refund", **world.refund}},
    }
    return told | changes


async def test_a_late_failure_comes_in_without_a_key_of_ours(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    answer = await stripe.post(event(stripe))

    assert (answer.status_code, answer.json()) == (
        200,
        {"event_id": "evt_1", "outcome": "settled"},
    )
    assert await stripe.status() is S.FAILED
    again = await stripe.post(event(stripe))
    assert (again.status_code, again.json()) == (200, answer.json())


async def test_an_event_is_only_a_hint(stripe: World):
    answer = await stripe.post(event(stripe))  # Stripe itself says that it succeeded

    assert answer.status_code == 200
    assert await stripe.status() is S.REFUNDED


async def test_the_same_event_at_once_does_one_thing(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    answers = await asyncio.gather(*(stripe.post(event(stripe)) for _ in range(8)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.text for answer in answers}) == 1
    assert await stripe.status() is S.FAILED


async def test_events_that_come_out_of_order_end_in_what_is_true(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    late = event(stripe, id="evt_2", created=int(time.time()))
    early = event(stripe, id="evt_1", type="refund.created", created=int(time.time()) - 900)

    assert (await stripe.post(late)).status_code == 200
    assert (await stripe.post(early)).status_code == 200
    assert await stripe.status() is S.FAILED


async def test_the_older_secret_holds_while_it_is_replaced(stripe: World):
    assert (await stripe.post(event(stripe), secret=OLDER)).status_code == 200


def forged(stripe: World, body: bytes) -> dict[str, dict[str, str]]:
    good = stripe.signature(body)
    (header,) = good
    text = good[header]
    return {
        "another secret": stripe.signature(body, secret="whsec_other"),  # noqa: S106 - of nobody
        "old": stripe.signature(body, ago_s=301),
        "of the future": stripe.signature(body, ago_s=-360),  # however slow the machine
        "of other bytes": stripe.signature(body + b" "),
        "none": {},
        "empty": {header: ""},
        "made up": {header: "t=1,v1=" + "0" * 64},
        "two moments": {header: f"t=1,{text}"},
        "two moments, the true one first": {header: f"{text},t=1"},
        "another scheme": {header: text.replace("v1=", "v0=")},
        "a key of ours": {"authorization": "Bearer sak_x_y"},
    }


async def test_what_is_not_genuine_changes_nothing(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    body = json.dumps(event(stripe)).encode()
    for what, headers in forged(stripe, body).items():
        answer = await stripe.post(body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_REFUSED"), what
        assert answer.headers["content-type"] == "application/problem+json"
        assert SECRET not in answer.text
    assert await stripe.status() is S.REFUNDED
    assert await stripe.api.shop.read(lambda tx: tx.inbox.get("stripe", "evt_1")) is None

    assert (await stripe.post(body)).status_code == 200
    assert await stripe.status() is S.FAILED


async def test_what_is_signed_and_no_event_of_ours_is_refused(stripe: World):
    no_events = [
        *(b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"id": NaN}', b"[" * 100_000),
        b'{"id": "evt_1"}',
    ]
    for body in (*no_events, event(stripe, livemode=True), event(stripe, account="acct_other")):
        answer = await stripe.post(body)
        assert (answer.status_code, answer.json()["code"]) == (400, "EVENT_REFUSED"), body


async def test_while_stripe_cannot_be_asked_the_event_has_to_come_again(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    stripe.door.away = True
    away = await stripe.post(event(stripe))

    assert away.status_code == 503
    assert int(away.headers["retry-after"]) > 0
    assert await stripe.status() is S.REFUNDED
    stripe.door.away = False
    assert (await stripe.post(event(stripe))).status_code == 200
    assert await stripe.status() is S.FAILED


async def test_an_event_may_be_larger_than_other_bodies(stripe: World):
    stripe.server.fail(stripe.refund["id"])
    large = event(stripe, request={"padding": "x" * 900_000})
    assert (await stripe.post(large)).status_code == 200

    larger = event(stripe, id="evt_2", request={"padding": "x" * 1_100_000})
    answer = await stripe.post(larger)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


async def test_other_gateways_are_not_there(stripe: World, shop_url):
    body = json.dumps(event(stripe)).encode()
    headers = stripe.signature(body)
    for gateway in ("paypal", "STRIPE", "%00", "x" * 101):
        answer = await stripe.api.client.post(
            f"/v1/provider-events/{gateway}", content=body, headers=headers
        )
        assert answer.status_code in {404, 422}, gateway


async def test_a_shop_without_stripe_takes_none_of_its_events(shop_url):
    async with opened_api(shop_url) as api:
        answer = await api.client.post(ROUTE, content=b"{}")

    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")

"""The same word from several sides at once, on SQLite and PostgreSQL: it counts once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from support_agent.domain.errors import EventRefused
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.events import ProviderEvent
from support_agent.ports.payments import GatewayStatus
from support_agent.services.reconciliation import IN_FLIGHT
from support_agent.testing.gateway import Act
from tests.heart import approved, assert_sound, balance, events, notices, pay, tasks
from tests.kit import Shop, seed
from tests.moved_time import MovedTime, open_shop_in

S = RequestStatus


class Handed:
    """Takes the event that a test hands over for genuine."""

    event: ProviderEvent | None = None

    def verify(self, *_: object, **__: object) -> ProviderEvent:
        if self.event is None:
            raise EventRefused("not signed")
        return self.event


@pytest.fixture
async def shop(database_url: str, gateway, time: MovedTime) -> AsyncIterator[Shop]:
    await seed(database_url)
    parts = {"gateway": gateway, "events": Handed()}
    async with open_shop_in(time, database_url, overrides=parts) as opened:
        yield opened


@pytest.mark.parametrize("word", [GatewayStatus.SUCCEEDED, GatewayStatus.FAILED])
async def test_events_the_reconciler_and_the_list(shop: Shop, gateway, time, word):
    request = await approved(shop)
    gateway.will(Act.PENDING)
    await pay(shop, request)
    refund = gateway.settle(f"refund:{request.id}:1", word)
    receiver, payouts = shop.container.provider_events(), shop.container.payouts()
    receiver._verifier.event = gateway.event_for(refund)

    await asyncio.gather(
        *(receiver.receive(b"", {}) for _ in range(4)),
        *(payouts.reconcile() for _ in range(3)),
        *(shop.container.gateway_refunds().compare() for _ in range(2)),
    )

    ended = S.REFUNDED if word is GatewayStatus.SUCCEEDED else S.FAILED
    assert (await shop.request(request.id)).status is ended
    assert len(await events(shop, f"refund.{ended.lower()}")) == 1
    assert len(await notices(shop, request.conversation_id)) == 2
    await assert_sound(shop)


async def test_an_outside_refund(shop: Shop, gateway, time):
    await pay(shop, await approved(shop, amount=210_000))
    outside = gateway.refund_outside("led_A100_1", 30_000)
    receiver = shop.container.provider_events()
    receiver._verifier.event = gateway.event_for(outside)

    await asyncio.gather(
        *(receiver.receive(b"", {}) for _ in range(3)),
        *(shop.container.gateway_refunds().compare() for _ in range(3)),
    )

    assert await balance(shop) == (0, 240_000)
    assert len(await events(shop, "payment.external")) == 1
    await assert_sound(shop)


async def test_a_late_failure(shop: Shop, gateway, time):
    request = await pay(shop, await approved(shop))
    refund = gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)
    time.advance(timedelta(days=2))
    receiver = shop.container.provider_events()
    receiver._verifier.event = gateway.event_for(refund)

    await asyncio.gather(
        *(receiver.receive(b"", {}) for _ in range(3)),
        *(shop.container.rereads().run() for _ in range(3)),
    )

    assert (await shop.request(request.id)).status is S.FAILED
    assert await balance(shop) == (0, 0)
    assert len(await tasks(shop, "late_failure")) == 1
    await assert_sound(shop)


async def test_workers_who_send_again(shop: Shop, gateway, time):
    """Cases row 35: one live attempt, one key, one refund."""
    request = await approved(shop)
    gateway.will(Act.LOSE_REQUEST)
    await pay(shop, request)
    time.advance(IN_FLIGHT)

    await asyncio.gather(*(shop.container.payouts().reconcile() for _ in range(6)))
    await shop.container.payouts().reconcile()

    assert (await shop.request(request.id)).status is S.REFUNDED
    assert len(gateway.refunds) == len(set(gateway.sent)) == 1
    assert await balance(shop) == (0, 250_000)
    await assert_sound(shop)


async def test_a_gateway_that_refuses_all_of_them(shop: Shop, gateway, time):
    requests = [await approved(shop), await approved(shop, "A205", "lan", customer="C002")]
    gateway.refuses_us = True

    await asyncio.gather(*(pay(shop, request) for request in requests * 2))

    assert len(await tasks(shop, "gateway_refuses_us")) == 1
    assert {(await shop.request(request.id)).status for request in requests} == {S.APPROVED}
    await assert_sound(shop)

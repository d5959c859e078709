"""Staff at the same moment, on either database: one of two wins, and the other learns why."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from support_agent.domain.errors import (
    AlreadyDecided,
    DecisionRefused,
    IllegalTransition,
    TaskAlreadyDone,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import SwitchName, Task
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import assert_sound, balance, events, open_shop_with, operator, simulator
from tests.kit import Shop, seed

S = RequestStatus


@pytest.fixture
def gateway() -> GatewaySimulator:
    return simulator()


@pytest.fixture
async def shop(database_url: str, gateway: GatewaySimulator) -> AsyncIterator[Shop]:
    await seed(database_url)
    async with open_shop_with(database_url, overrides={"gateway": gateway}) as opened:
        yield opened


async def at_once(*work):
    """(what was done, what was refused)."""
    results = await asyncio.gather(*work, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    return [result for result in results if not isinstance(result, BaseException)], errors


async def in_review(shop: Shop, gateway, order_id: str) -> RefundRequest:
    gateway.will(Act.REFUSE_KEY)
    request = await shop.filed(order_id)
    assert request.status is S.MANUAL_REVIEW
    return request


async def test_of_several_retries_one_reserves(shop, gateway):
    gateway.will(Act.DECLINE)
    request = await shop.filed("A102", amount=20_000)
    assert request.status is S.FAILED
    people = [await shop.approver(name) for name in ("lan", "huong", "tuan")] * 2
    retries = shop.container.retries()

    done, refused = await at_once(*(retries.retry(request.id, by=by) for by in people))

    assert len(done) == 1
    assert all(isinstance(error, AlreadyDecided | IllegalTransition) for error in refused)
    assert await balance(shop, "A102") == (20_000, 0)
    assert await shop.request(request.id) == done[0]
    await assert_sound(shop)


async def test_one_proof_ends_one_of_two_reviews(shop, gateway):
    requests = [await in_review(shop, gateway, order_id) for order_id in ("A102", "A103")]
    by = await shop.approver("huong")
    resolutions = shop.container.resolutions()

    done, [refused] = await at_once(
        *(resolutions.resolve(r.id, paid=True, evidence="FT-1", by=by) for r in requests)
    )

    assert len(done) == 1
    assert isinstance(refused, DecisionRefused)
    assert refused.reason is Reason.EVIDENCE_USED
    await assert_sound(shop)


async def test_paid_and_not_paid_at_once_is_one_of_them(shop, gateway):
    request = await in_review(shop, gateway, "A102")
    resolve = shop.container.resolutions().resolve
    one, other = await shop.approver("huong"), await shop.approver("tuan")

    done, [refused] = await at_once(
        resolve(request.id, paid=True, evidence="FT-1", by=one),
        resolve(request.id, paid=False, evidence="FT-2", by=other),
    )

    assert isinstance(refused, AlreadyDecided | IllegalTransition)
    assert await shop.request(request.id) == done[0]
    await assert_sound(shop)


async def test_a_task_is_done_by_one(shop):
    task = Task(
        id="task_1",
        kind="payout_problem",
        subject="req_x",
        conversation_id=None,
        created_at=shop.clock.now(),
    )
    await shop.write(lambda tx: tx.tasks.add(task))

    def doing(name: str):
        return shop.container.hand_off_desk().finish("task_1", by=operator(name))

    done, refused = await at_once(*(doing(f"p{number}") for number in range(4)))

    assert len(done) == 1
    assert all(isinstance(error, TaskAlreadyDone) for error in refused)
    assert {error.by for error in refused} == {done[0].done_by}


async def test_a_switch_is_turned_by_one(shop):
    board = shop.container.switchboard()

    def turning(name: str):
        return shop.write(
            lambda tx: board.turn(tx, SwitchName.PAYOUTS, on=False, by=operator(name))
        )

    done, refused = await at_once(*(turning(f"p{number}") for number in range(4)))

    assert (sum(done), refused) == (1, [])
    assert not await shop.read(lambda tx: board.is_on(tx, SwitchName.PAYOUTS))
    assert len(await events(shop, "switch.changed")) == 1
    await assert_sound(shop)

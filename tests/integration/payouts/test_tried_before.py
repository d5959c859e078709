"""Paying again after a failure: a new key, once every earlier try is known to have failed."""

import pytest

from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.payments import GatewayStatus
from support_agent.services.reconciliation import IN_FLIGHT
from support_agent.testing.gateway import Act
from tests.heart import (
    approved,
    assert_sound,
    attack,
    attempts,
    balance,
    books_of,
    change_policy,
    pay,
    tasks,
)
from tests.kit import Shop

S = RequestStatus
COPY = (
    "INSERT INTO refund_attempts SELECT 'att_forged', request_id, {number}, round, "
    "'refund:' || request_id || ':{number}', gateway, account, gateway_payment_id, amount_minor, "
    "currency, '{status}', created_at, provider_refund_id, error_code, sent_at, checked_at "
    "FROM refund_attempts"
)


async def approved_again(shop: Shop, gateway, act: Act = Act.FAIL, **arguments) -> RefundRequest:
    """Paid in vain, retried by huong and approved by lan once more."""
    gateway.will(act)
    request = await pay(shop, await approved(shop, **arguments))
    assert request.status is S.FAILED
    by = await shop.approver("huong")
    again = await shop.container.retries().retry(request.id, by=by)
    await shop.container.approvals().approve(again.id, by=await shop.approver("lan"))
    return await shop.request(request.id)


async def test_it_has_a_key_of_its_own(shop: Shop, gateway):
    request = await approved_again(shop, gateway)

    paid = await pay(shop, request)

    assert paid.status is S.REFUNDED
    assert [sent.key for sent in gateway.sent] == [
        f"refund:{request.id}:1",
        f"refund:{request.id}:2",
    ]
    assert [attempt.status for attempt in await attempts(shop, request)] == [
        AttemptStatus.FAILED,
        AttemptStatus.SUCCEEDED,
    ]
    assert await balance(shop) == (0, 250_000)
    await assert_sound(shop)


async def test_its_second_try_is_sent_again_under_the_second_key(shop: Shop, gateway):
    request = await approved_again(shop, gateway)
    gateway.will(Act.LOSE_REQUEST)
    await pay(shop, request)

    await shop.container.payouts().reconcile()

    assert (await shop.request(request.id)).status is S.REFUNDED
    assert [sent.key[-2:] for sent in gateway.sent] == [":1", ":2", ":2"]
    await assert_sound(shop)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM refund_attempts",
        "UPDATE refund_attempts SET status = 'UNKNOWN'",
        "UPDATE refund_attempts SET status = 'SUCCEEDED'",
        "UPDATE refund_attempts SET number = 2",
        "UPDATE refund_attempts SET key = 'refund:other:1'",
        COPY.format(number=2, status="FAILED"),
        COPY.format(number=2, status="CREATED"),
        COPY.format(number=3, status="FAILED"),
        "UPDATE refund_requests SET attempt_no = 3",
        "UPDATE refund_requests SET attempt_no = 1",
    ],
)
async def test_earlier_tries_that_somebody_changed_hold_back_the_first_sending(
    shop: Shop, gateway, statement: str
):
    request = await approved_again(shop, gateway)

    await held_back(shop, gateway, request, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM refund_attempts WHERE number = 1",
        "UPDATE refund_attempts SET number = 9 WHERE number = 1",
        "UPDATE refund_attempts SET key = 'refund:other:1' WHERE number = 1",
        "UPDATE refund_requests SET attempt_no = 3",
        "UPDATE refund_requests SET attempt_no = 1",
    ],
)
async def test_earlier_tries_that_somebody_changed_hold_back_the_second_sending(
    shop: Shop, gateway, time, statement: str
):
    request = await approved_again(shop, gateway)
    gateway.will(Act.LOSE_REQUEST)
    request = await pay(shop, request)
    time.advance(IN_FLIGHT)

    await held_back(shop, gateway, request, statement)


async def held_back(shop: Shop, gateway, request: RefundRequest, statement: str) -> None:
    gateway.sent.clear()
    attack(shop.url, statement)

    for _ in range(2):
        await shop.container.payouts().pay_due()
        await shop.container.payouts().reconcile()

    assert gateway.sent == []
    assert (await shop.request(request.id)).status is request.status
    assert len(await tasks(shop, "payout_refused")) == 1


async def test_a_first_try_that_was_paid_after_all_stops_the_payment(shop: Shop, gateway):
    """Between the retry and the payment the gateway changes its word about the first try."""
    request = await approved_again(shop, gateway)
    gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

    back = await pay(shop, request)

    assert back.status is S.PENDING_APPROVAL
    assert len(gateway.sent) == 1
    assert len(await tasks(shop, "late_success")) == 1
    (payment,) = (await books_of(shop, "A100")).payments
    assert (payment.refunded_minor, payment.frozen) == (250_000, True)
    await assert_sound(shop)


async def test_nor_is_it_paid_twice_where_another_request_would_explain_the_first(
    shop: Shop, gateway
):
    """Another request of the payment is in doubt, over as much as the first try."""
    await change_policy(shop, auto=10_000)
    gateway.will(Act.LOSE_REQUEST)
    other = await pay(shop, await approved(shop, amount=100_000))
    assert other.status is S.IN_DOUBT
    request = await approved_again(shop, gateway, amount=100_000)
    gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

    back = await pay(shop, request)

    assert back.status is S.PENDING_APPROVAL
    assert [refund.key for refund in gateway.refunds] == [f"refund:{request.id}:1"]
    assert len(await tasks(shop, "late_success")) == 1
    await assert_sound(shop)

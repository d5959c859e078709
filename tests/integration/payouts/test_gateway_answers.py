"""Each answer of a gateway, row by row of the table of gateway answers."""

from datetime import timedelta

import pytest

from support_agent.domain.orders import OrderStatus
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import AttemptStatus, RequestStatus
from support_agent.ports.payments import GatewayStatus
from support_agent.ports.storage import SwitchName
from support_agent.services.reconciliation import IN_FLIGHT
from support_agent.testing.gateway import LIES, Act
from tests.heart import approved, assert_sound, attempts, balance, events, notices, pay, tasks
from tests.kit import Shop

S, A = RequestStatus, AttemptStatus
HELD, PAID, FREE = (250_000, 0), (0, 250_000), (0, 0)
LATER = IN_FLIGHT + timedelta(seconds=1)

# What the gateway does; then the request, the attempt, (reserved, refunded), a staff task.
ANSWERS = [
    (Act.SUCCEED, S.REFUNDED, A.SUCCEEDED, PAID, None),
    (Act.PENDING, S.PROVIDER_PENDING, A.PENDING, HELD, None),
    (Act.REQUIRES_ACTION, S.PROVIDER_PENDING, A.PENDING, HELD, None),
    (Act.FAIL, S.FAILED, A.FAILED, FREE, "payout_problem"),
    (Act.CANCEL, S.FAILED, A.FAILED, FREE, "payout_problem"),
    (Act.DECLINE, S.FAILED, A.FAILED, FREE, "payout_problem"),
    (Act.REFUSE_KEY, S.MANUAL_REVIEW, A.UNKNOWN, HELD, "payout_problem"),
    (Act.BUSY, S.PAYING, A.CREATED, HELD, None),
    (Act.THROTTLE, S.PAYING, A.CREATED, HELD, None),
    (Act.REFUSE_US, S.PAYING, A.CREATED, HELD, "gateway_refuses_us"),
    (Act.FORBID, S.PAYING, A.CREATED, HELD, "gateway_refuses_us"),
    (Act.ERROR_BEFORE, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    (Act.ERROR_AFTER, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    (Act.LOSE_REQUEST, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    (Act.LOSE_ANSWER, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    (Act.HANG_BEFORE, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    (Act.HANG_AFTER, S.IN_DOUBT, A.UNKNOWN, HELD, None),
    *((lie, S.MANUAL_REVIEW, A.UNKNOWN, HELD, "payout_problem") for lie in sorted(LIES, key=str)),
]


@pytest.mark.parametrize(("act", "status", "attempt_status", "counters", "task"), ANSWERS, ids=str)
async def test_an_answer_becomes_exactly_one_state(
    shop: Shop, gateway, act, status, attempt_status, counters, task
):
    request = await approved(shop)
    gateway.will(act)

    answered = await pay(shop, request)

    assert answered.status is status
    (attempt,) = await attempts(shop, request)
    assert attempt.status is attempt_status
    assert await balance(shop) == counters
    found = await shop.read(lambda tx: tx.tasks.list(open_only=True, limit=100))
    assert {one.kind for one in found} - {"second_look"} == ({task} if task else set())
    # Cases row 13: whatever becomes of the refund, the order is what it was.
    order = await shop.container.orders().get("A100")
    assert order.status is OrderStatus.DELIVERED
    await assert_sound(shop)


@pytest.mark.parametrize(
    "act", [row[0] for row in ANSWERS if row[1] not in {S.FAILED, S.MANUAL_REVIEW}]
)
async def test_whatever_was_answered_in_the_end_it_is_paid_once_with_one_key(
    shop: Shop, gateway, time, act
):
    """Cases rows 1, 2, 35, M16: a lost answer, a busy gateway and a wrong key all end the same."""
    request = await approved(shop)
    gateway.will(act)
    await pay(shop, request)
    if act in {Act.PENDING, Act.REQUIRES_ACTION}:
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)
    if act is Act.ERROR_BEFORE:
        gateway._saved.clear()  # the provider mended what it answered 500 with
    await shop.write(
        lambda tx: shop.container.switchboard().turn(tx, SwitchName.PAYOUTS, on=True, by=SYSTEM)
    )
    time.advance(LATER)

    await shop.container.payouts().reconcile()
    await shop.container.payouts().reconcile()

    assert (await shop.request(request.id)).status is S.REFUNDED
    assert len(gateway.refunds) == 1
    assert {sent.key for sent in gateway.sent} == {f"refund:{request.id}:1"}
    assert len(set(gateway.sent)) == 1  # the same bytes each time
    assert await balance(shop) == PAID
    told = await notices(shop, request.conversation_id)
    assert [text for text in told if "Đã hoàn" in text] == told[-1:]
    await assert_sound(shop)


async def test_our_own_500_that_the_key_hears_again_ends_with_a_person(shop: Shop, gateway, time):
    """Stripe replays a saved 500 to the same key: sending alone could go on for ever."""
    request = await approved(shop)
    gateway.will(Act.ERROR_BEFORE)
    await pay(shop, request)
    for _ in range(40):
        time.advance(timedelta(minutes=45))
        await shop.container.payouts().reconcile()

    assert (await shop.request(request.id)).status is S.MANUAL_REVIEW
    assert gateway.refunds == ()
    assert 2 <= len(gateway.sent) <= 20  # each pause is as long as all before it
    assert len(await notices(shop, request.conversation_id)) == 2  # in doubt once, then a person
    await assert_sound(shop)


class TestBreaker:
    """401 and 403: a configuration error must not burn one request after the other."""

    async def test_pauses_payouts_with_one_task(self, shop: Shop, gateway):
        first = await approved(shop)
        second = await approved(shop, "A205", "lan", customer="C002")
        gateway.will(Act.REFUSE_US)

        await shop.container.payouts().pay_due()
        await shop.container.payouts().pay_due()

        assert (await shop.request(first.id)).status is S.PAYING
        assert (await shop.request(second.id)).status is S.APPROVED
        assert [sent.request_id for sent in gateway.sent] == [first.id]
        assert len(await tasks(shop, "gateway_refuses_us")) == 1
        (event,) = await events(shop, "switch.changed")
        assert (event.subject, event.actor.id) == (SwitchName.PAYOUTS, "system")

    async def test_trips_also_before_anything_was_sent(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.refuses_us = True

        assert (await pay(shop, request)) == request
        assert len(await tasks(shop, "gateway_refuses_us")) == 1
        assert await attempts(shop, request) == ()

    @pytest.mark.parametrize("kind", [Act.LOSE_ANSWER, Act.PENDING, Act.SUCCEED])
    async def test_trips_when_asking_about_what_was_sent(self, shop: Shop, gateway, time, kind):
        request = await approved(shop)
        gateway.will(kind)
        before = await pay(shop, request)
        gateway.refuses_us = True
        time.advance(timedelta(days=2) if kind is Act.SUCCEED else timedelta())

        await shop.container.payouts().reconcile()
        await shop.container.payouts().reconcile()

        assert await shop.request(request.id) == before
        assert len(await tasks(shop, "gateway_refuses_us")) == 1

    async def test_goes_on_once_it_is_mended_and_calls_again_for_the_next_fault(
        self, shop: Shop, gateway, time
    ):
        request = await approved(shop)
        gateway.will(Act.REFUSE_US, Act.FORBID)
        await pay(shop, request)
        for left in (1, 2):
            await shop.write(
                lambda tx: shop.container.switchboard().turn(
                    tx, SwitchName.PAYOUTS, on=True, by=SYSTEM
                )
            )
            time.advance(left * LATER)  # a wait is as long as all before it
            await shop.container.payouts().reconcile()
            assert len(await tasks(shop, "gateway_refuses_us")) == min(2, left + 1)

        assert (await shop.request(request.id)).status is S.REFUNDED

"""The gateway that tests are told about: it breaks down exactly as it was told to."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from support_agent.domain.errors import (
    GatewayBusy,
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
)
from support_agent.ports.events import EventKind
from support_agent.ports.payments import GatewayStatus, PaymentRef, RefundInstruction
from support_agent.testing.gateway import KEYS_LAST, LIES, Act, GatewaySimulator

PAYMENT = PaymentRef(gateway="ledger", account="shop", gateway_payment_id="pay_1")
START = datetime(2026, 10, 13, 2, tzinfo=UTC)


@dataclass
class Hands:
    """A clock that a test turns."""

    now: datetime = START


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def gateway(hands: Hands) -> GatewaySimulator:
    gateway = GatewaySimulator(now=lambda: hands.now)
    gateway.add_payment("pay_1", 250_000, "VND", account="shop")
    return gateway


def ask(amount_minor: int = 100_000, *, key: str = "k1", **changes: str) -> RefundInstruction:
    parts = {"gateway": "ledger", "account": "shop", "gateway_payment_id": "pay_1"} | changes
    return RefundInstruction(
        key=key, request_id="r1", amount_minor=amount_minor, currency="VND", **parts
    )


async def refunded(gateway: GatewaySimulator) -> int:
    return (await gateway.payment_state(PAYMENT)).refunded_minor


@pytest.mark.parametrize(
    ("act", "error", "executed"),
    [
        (Act.DECLINE, PaymentDeclined, False),
        (Act.BUSY, GatewayBusy, False),
        (Act.THROTTLE, GatewayBusy, False),
        (Act.REFUSE_US, GatewayRefusesUs, False),
        (Act.FORBID, GatewayRefusesUs, False),
        (Act.ERROR_BEFORE, PaymentOutcomeUnknown, False),
        (Act.ERROR_AFTER, PaymentOutcomeUnknown, True),
        (Act.LOSE_REQUEST, PaymentOutcomeUnknown, False),
        (Act.LOSE_ANSWER, PaymentOutcomeUnknown, True),
        (Act.REFUSE_KEY, IdempotencyMismatch, False),
    ],
)
async def test_an_act_raises_what_it_says_and_executes_what_it_says(gateway, act, error, executed):
    gateway.will(act)
    with pytest.raises(PaymentError) as raised:
        await gateway.refund(ask())

    assert type(raised.value) is error
    assert await refunded(gateway) == (100_000 if executed else 0)
    assert (await gateway.find(ask()) is not None) is executed


@pytest.mark.parametrize(("act", "executed"), [(Act.HANG_BEFORE, False), (Act.HANG_AFTER, True)])
async def test_silence_lasts(gateway, act, executed):
    gateway.will(act)
    waiting = asyncio.create_task(gateway.refund(ask()))
    await gateway.hangs.wait()
    assert not waiting.done()
    waiting.cancel()

    assert await refunded(gateway) == (100_000 if executed else 0)


@pytest.mark.parametrize(
    ("act", "status", "counts"),
    [
        (Act.SUCCEED, GatewayStatus.SUCCEEDED, True),
        (Act.PENDING, GatewayStatus.PENDING, True),
        (Act.REQUIRES_ACTION, GatewayStatus.REQUIRES_ACTION, True),
        (Act.FAIL, GatewayStatus.FAILED, False),
        (Act.CANCEL, GatewayStatus.CANCELED, False),
    ],
)
async def test_an_answer_has_the_status_of_its_act(gateway, act, status, counts):
    gateway.will(act)

    assert (await gateway.refund(ask())).status is status
    assert await refunded(gateway) == (100_000 if counts else 0)
    assert len(gateway.refunds) == counts


@pytest.mark.parametrize("act", sorted(LIES, key=lambda act: act.name))
async def test_a_lie_is_told_again_and_again_and_pays_what_was_asked(gateway, act):
    gateway.will(act)
    told = await gateway.refund(ask())

    honest = (100_000, "VND", PAYMENT, "k1")
    facts = (told.amount_minor, told.currency, told.payment, told.key)
    assert sum(a != b for a, b in zip(facts, honest, strict=True)) == 1
    assert await gateway.refund(ask()) == await gateway.find(ask()) == told
    assert await refunded(gateway) == 100_000


def test_every_act_is_played_in_one_of_these_tests():
    tests = (
        test_an_act_raises_what_it_says_and_executes_what_it_says,
        test_silence_lasts,
        test_an_answer_has_the_status_of_its_act,
        test_a_lie_is_told_again_and_again_and_pays_what_was_asked,
    )
    values = [value for test in tests for value in test.pytestmark[0].args[1]]

    assert {value[0] if isinstance(value, tuple) else value for value in values} == set(Act)


@pytest.mark.parametrize("act", [Act.ERROR_BEFORE, Act.ERROR_AFTER])
async def test_the_same_key_hears_a_saved_error_again(gateway, act):
    gateway.will(act)
    for _ in range(3):
        with pytest.raises(PaymentOutcomeUnknown):
            await gateway.refund(ask())

    assert len(gateway.refunds) == (act is Act.ERROR_AFTER)


async def test_a_key_is_forgotten_after_a_day_and_then_pays_again(gateway, hands):
    first = await gateway.refund(ask())
    hands.now += KEYS_LAST - timedelta(seconds=1)
    assert await gateway.refund(ask()) == first

    hands.now += timedelta(seconds=1)
    second = await gateway.refund(ask())

    assert second.provider_refund_id != first.provider_refund_id
    assert [refund.key for refund in gateway.refunds] == ["k1", "k1"]
    assert await refunded(gateway) == 200_000


async def test_without_a_clock_a_key_lasts():
    gateway = GatewaySimulator()
    gateway.add_payment("pay_1", 250_000, "VND", account="shop")
    first = await gateway.refund(ask())

    assert await gateway.refund(ask()) == first
    assert [r async for r in gateway.refunds_since(datetime.max.replace(tzinfo=UTC))] == [first]


async def test_what_it_lost_was_paid_and_nothing_shows_it(gateway):
    made = await gateway.refund(ask())
    gateway.lose("k1")

    assert gateway.refunds == (made,)
    assert await gateway.find(ask()) is None
    assert await gateway.get(made.provider_refund_id, PAYMENT) is None
    assert [refund async for refund in gateway.refunds_since(START)] == []
    assert await refunded(gateway) == 0
    await gateway.refund(ask())
    assert len(gateway.refunds) == 2


async def test_an_outside_refund_is_nobodys_of_ours(gateway, hands):
    await gateway.refund(ask())
    hands.now += timedelta(hours=1)
    outside = gateway.refund_outside("pay_1", 30_000)

    assert outside.key == ""
    assert [refund async for refund in gateway.refunds_since(hands.now)] == [outside]
    assert await gateway.get(outside.provider_refund_id, PAYMENT) == outside
    assert outside not in gateway.refunds
    assert await refunded(gateway) == 130_000


async def test_a_pending_refund_is_settled_and_a_good_one_fails_late(gateway):
    gateway.will(Act.PENDING)
    pending = await gateway.refund(ask())
    gateway.settle("k1", GatewayStatus.SUCCEEDED)
    gateway.fail_late(pending.provider_refund_id, "lost_or_stolen_card")
    now = await gateway.find(ask())

    assert (now.status, now.failure_code) == (GatewayStatus.FAILED, "lost_or_stolen_card")
    assert await refunded(gateway) == 0


async def test_a_dispute_blocks_until_it_is_won(gateway):
    dispute = gateway.dispute("pay_1")
    assert (await gateway.payment_state(PAYMENT)).disputed
    with pytest.raises(PaymentDeclined, match="payment_disputed"):
        await gateway.refund(ask())

    gateway.win(dispute)
    assert not (await gateway.payment_state(PAYMENT)).disputed
    assert (await gateway.refund(ask())).status is GatewayStatus.SUCCEEDED


async def test_a_lost_dispute_takes_the_money_and_a_late_win_gives_it_back(gateway):
    lost = gateway.charge_back(gateway.dispute("pay_1", 70_000))
    state = await gateway.payment_state(PAYMENT)
    assert (state.disputed, state.charged_back_minor) == (False, 70_000)
    with pytest.raises(PaymentDeclined):
        await gateway.refund(ask())

    gateway.win(lost)
    assert (await gateway.payment_state(PAYMENT)).charged_back_minor == 0


async def test_an_amount_above_what_is_left_may_be_left_open(gateway):
    gateway.unsure_of_overdraw = True
    with pytest.raises(PaymentOutcomeUnknown):
        await gateway.refund(ask(250_001))

    assert gateway.refunds == ()


@pytest.mark.parametrize(
    ("fault", "error"), [("unreachable", PaymentOutcomeUnknown), ("refuses_us", GatewayRefusesUs)]
)
async def test_one_that_is_down_answers_nothing(gateway, fault, error):
    made = await gateway.refund(ask())
    setattr(gateway, fault, True)

    for call in (
        gateway.refund(ask()),
        gateway.find(ask()),
        gateway.get(made.provider_refund_id, PAYMENT),
        gateway.payment_state(PAYMENT),
        anext(gateway.refunds_since(START)),
    ):
        with pytest.raises(error):
            await call


async def test_its_events_say_what_they_are_about(gateway, hands):
    refund = await gateway.refund(ask())
    dispute = gateway.dispute("pay_1", 70_000)
    events = [
        gateway.event_for(refund),
        gateway.event_for(dispute),
        gateway.event_for(gateway.charge_back(dispute)),
        gateway.event_for(gateway.win(dispute), livemode=True, id="evt_again"),
    ]

    assert [event.kind for event in events] == [
        EventKind.REFUND,
        EventKind.DISPUTE_OPENED,
        EventKind.DISPUTE_LOST,
        EventKind.DISPUTE_WON,
    ]
    assert {event.payment for event in events} == {PAYMENT}
    assert {event.created_at for event in events} == {hands.now}
    assert events[0].provider_refund_id == refund.provider_refund_id
    assert events[1].dispute_id == events[2].dispute_id == dispute.id
    assert (events[1].amount_minor, events[1].currency) == (70_000, "VND")
    assert len({event.id for event in events}) == 4
    assert (events[3].id, events[3].livemode) == ("evt_again", True)

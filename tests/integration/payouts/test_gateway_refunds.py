"""The gateway's refunds held against our attempts, and refunds that fail weeks later."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from sqlite3 import connect

import pytest

from support_agent.adapters.db.stores.attempts import SqlAttempts
from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.payments import GatewayStatus
from support_agent.services import gateway_refunds, rereads
from support_agent.testing.gateway import Act
from tests.heart import (
    approved,
    assert_sound,
    attack,
    attempts,
    balance,
    books_of,
    events,
    notices,
    operator,
    pay,
    tasks,
)
from tests.kit import Shop

S = RequestStatus
DAY = timedelta(days=1)


async def reconcile(shop: Shop) -> tuple[RefundRequest, ...]:
    return await shop.container.payouts().reconcile()


async def refunded(shop: Shop, **arguments) -> RefundRequest:
    return await pay(shop, await approved(shop, **arguments))


async def frozen(shop: Shop, order_id: str = "A100") -> bool:
    (payment,) = (await books_of(shop, order_id)).payments
    return payment.frozen


class TestOutside:
    """Somebody refunds in the gateway's own console."""

    async def test_it_is_booked_once_however_often_it_is_seen(self, shop: Shop, gateway):
        await refunded(shop, amount=210_000)
        outside = gateway.refund_outside("led_A100_1", 30_000)

        for _ in range(3):
            assert await reconcile(shop) == ()

        assert await balance(shop) == (0, 240_000)
        (event,) = await events(shop, "payment.external")
        assert event.data["reference"] == outside.provider_refund_id
        assert await tasks(shop, "outside_refund") == []
        assert not await frozen(shop)
        assert (await shop.quote("A100", amount=10_001)).quotes == ()
        assert len((await shop.quote("A100", amount=10_000)).quotes) == 1
        await assert_sound(shop)

    async def test_what_does_not_fit_is_overdrawn_frozen_and_a_task(self, shop: Shop, gateway):
        request = await approved(shop, amount=210_000)
        outside = gateway.refund_outside("led_A100_1", 50_000)

        await reconcile(shop)
        await reconcile(shop)

        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.refunded_minor, payment.overdrawn_minor) == (50_000, 10_000)
        assert payment.frozen
        (task,) = await tasks(shop, "outside_refund")
        assert task.subject == outside.provider_refund_id
        assert (await pay(shop, request)).status is S.PENDING_APPROVAL
        assert gateway.sent == []
        await assert_sound(shop)

    @pytest.mark.parametrize(
        ("status", "booked"),
        [
            (GatewayStatus.SUCCEEDED, 30_000),
            (GatewayStatus.PENDING, 30_000),
            (GatewayStatus.REQUIRES_ACTION, 0),
            (GatewayStatus.FAILED, 0),
            (GatewayStatus.CANCELED, 0),
        ],
    )
    async def test_only_money_that_goes_is_booked(self, shop: Shop, gateway, status, booked):
        await refunded(shop, amount=210_000)
        gateway.refund_outside("led_A100_1", 30_000, status=status)

        await reconcile(shop)

        assert await balance(shop) == (0, 210_000 + booked)

    @pytest.mark.parametrize("status", [GatewayStatus.FAILED, GatewayStatus.CANCELED])
    async def test_one_that_fails_after_all_is_taken_back_once(self, shop: Shop, gateway, status):
        await refunded(shop, amount=210_000)
        outside = gateway.refund_outside("led_A100_1", 30_000, status=GatewayStatus.PENDING)
        await reconcile(shop)
        assert await balance(shop) == (0, 240_000)
        made = gateway._made[-1]
        made.refund = replace(made.refund, status=status)

        for _ in range(3):
            assert await reconcile(shop) == ()

        assert await balance(shop) == (0, 210_000)
        (event,) = await events(shop, "payment.reverse")
        assert event.data["reference"] == outside.provider_refund_id
        assert len((await shop.quote("A100", amount=40_000)).quotes) == 1
        await assert_sound(shop)

    async def test_a_payment_we_know_nothing_of_is_a_task_and_nothing_else(
        self, shop: Shop, gateway
    ):
        outside = gateway.refund_outside("led_A300_1", 30_000)

        await reconcile(shop)
        await reconcile(shop)

        (task,) = await tasks(shop, "unknown_payment")
        assert task.subject == outside.provider_refund_id
        assert await events(shop, "payment.external") == []

    async def test_our_key_copied_into_it_explains_nothing(self, shop: Shop, gateway):
        request = await refunded(shop, amount=210_000)
        gateway.refund_outside("led_A100_1", 30_000)
        made = gateway._made[-1]
        made.refund = replace(made.refund, key=f"refund:{request.id}:1")

        await reconcile(shop)

        assert await balance(shop) == (0, 240_000)

    async def test_the_other_id_of_a_payment_is_the_same_payment(self, shop: Shop, gateway):
        await refunded(shop, amount=210_000)
        gateway.refund_outside("led_A100_1", 30_000)
        made = gateway._made[-1]
        charge = replace(made.refund.payment, gateway_payment_id="ch_1")
        made.refund = replace(made.refund, payment=charge, other_payment_id="led_A100_1")

        await reconcile(shop)

        assert await balance(shop) == (0, 240_000)

    async def test_only_the_last_days_are_compared(self, shop: Shop, gateway, time):
        await refunded(shop, amount=210_000)
        gateway.refund_outside("led_A100_1", 10_000)
        time.advance(8 * DAY)
        gateway.refund_outside("led_A100_1", 20_000)

        await reconcile(shop)

        assert await balance(shop) == (0, 230_000)

    async def test_one_call_is_bounded_and_the_next_goes_on(self, shop: Shop, gateway, monkeypatch):
        monkeypatch.setattr(gateway_refunds, "MOST_TAKEN", 2)
        await refunded(shop, amount=210_000)
        for _ in range(5):
            gateway.refund_outside("led_A100_1", 1_000)

        seen = []
        for _ in range(3):
            await reconcile(shop)
            seen.append((await balance(shop))[1] - 210_000)

        assert seen == [2_000, 4_000, 5_000]

    async def test_a_gateway_that_falls_silent_leaves_the_rest_for_later(self, shop: Shop, gateway):
        await refunded(shop, amount=210_000)
        for _ in range(2):
            gateway.refund_outside("led_A100_1", 1_000)
        listed = gateway.refunds_since

        async def cut(since):
            async for refund in listed(since):
                if refund.provider_refund_id == "sim_3":
                    raise PaymentOutcomeUnknown("reset")
                yield refund

        gateway.refunds_since = cut
        await reconcile(shop)
        assert await balance(shop) == (0, 211_000)
        gateway.refunds_since = listed

        await reconcile(shop)

        assert await balance(shop) == (0, 212_000)
        await assert_sound(shop)

    async def test_one_that_cannot_be_taken_in_does_not_hold_up_the_others(
        self, shop: Shop, gateway
    ):
        await refunded(shop, amount=210_000)
        for amount in (1_000, 2_000):
            gateway.refund_outside("led_A100_1", amount)
        made = gateway._made[-2]
        made.refund = replace(made.refund, amount_minor=-1_000)

        await reconcile(shop)

        assert await balance(shop) == (0, 212_000)


class TestLateSuccess:
    """Ours, and we had called it failed: the reserve was given back."""

    async def test_it_is_booked_and_the_payment_stops(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.FAIL)
        await pay(shop, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

        await reconcile(shop)
        await reconcile(shop)

        assert (await shop.request(request.id)).status is S.FAILED
        assert await balance(shop) == (0, 250_000)
        assert await frozen(shop)
        (task,) = await tasks(shop, "late_success")
        assert task.subject == request.id
        assert (await shop.quote("A100")).quotes == ()
        await assert_sound(shop)

    async def test_also_when_it_fits_into_what_is_left(self, shop: Shop, gateway):
        request = await approved(shop, amount=210_000)
        gateway.will(Act.FAIL)
        await pay(shop, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

        await reconcile(shop)

        assert await frozen(shop)
        assert await balance(shop) == (0, 210_000)


class TestOpenOnes:
    @pytest.mark.parametrize("act", [Act.LOSE_ANSWER, Act.PENDING])
    async def test_a_refund_in_the_list_settles_ours(self, shop: Shop, gateway, act):
        request = await approved(shop)
        gateway.will(act)
        await pay(shop, request)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.SUCCEEDED)

        (settled,) = await shop.container.gateway_refunds().compare()

        assert (settled.id, settled.status) == (request.id, S.REFUNDED)
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)


class TestReread:
    """Cases row 12."""

    @pytest.mark.parametrize("word", [GatewayStatus.FAILED, GatewayStatus.CANCELED])
    async def test_a_late_failure_takes_the_refund_back(self, shop: Shop, gateway, time, word):
        request = await refunded(shop)
        gateway.settle(f"refund:{request.id}:1", word, failure_code="expired_or_canceled_card")
        time.advance(10 * DAY)

        (failed,) = await reconcile(shop)
        assert await reconcile(shop) == ()

        assert (failed.id, failed.status) == (request.id, S.FAILED)
        assert await balance(shop) == (0, 0)
        (task,) = await tasks(shop, "late_failure")
        assert task.subject == request.id
        (attempt,) = await attempts(shop, request)
        assert attempt.status is AttemptStatus.FAILED
        assert attempt.error_code == "expired_or_canceled_card"
        assert len(await notices(shop, request.conversation_id)) == 2
        assert (await shop.quote("A100")).quotes[0].amount_minor == 250_000
        await assert_sound(shop)

    async def test_each_is_asked_about_once_a_day_until_45_days_old(
        self, shop: Shop, gateway, time
    ):
        await refunded(shop)
        asked = []
        get = gateway.get

        async def counting(refund_id, payment):
            asked.append(refund_id)
            return await get(refund_id, payment)

        gateway.get = counting
        for _ in range(50):
            for _ in range(2):
                await shop.container.rereads().run()
            time.advance(DAY + timedelta(seconds=1))

        assert len(asked) == 44

    async def test_one_that_vanished_is_a_task_and_stays_refunded(self, shop: Shop, gateway, time):
        request = await refunded(shop)
        gateway.lose(f"refund:{request.id}:1")
        time.advance(2 * DAY)

        assert await reconcile(shop) == ()

        assert (await shop.request(request.id)).status is S.REFUNDED
        assert len(await tasks(shop, "refund_vanished")) == 1
        assert await balance(shop) == (0, 250_000)

    async def test_one_that_became_another_is_a_task(self, shop: Shop, gateway, time):
        request = await refunded(shop)
        made = gateway._made[-1]
        made.refund = replace(made.refund, amount_minor=1, status=GatewayStatus.FAILED)
        time.advance(2 * DAY)

        await shop.container.rereads().run()

        assert (await shop.request(request.id)).status is S.REFUNDED
        assert len(await tasks(shop, "refund_changed")) == 1

    async def test_a_silent_gateway_is_asked_again_at_the_next_call(
        self, shop: Shop, gateway, time
    ):
        request = await refunded(shop)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)
        time.advance(2 * DAY)
        gateway.unreachable = True
        assert await reconcile(shop) == ()
        gateway.unreachable = False

        (failed,) = await reconcile(shop)

        assert failed.status is S.FAILED

    async def test_only_so_many_are_asked_about_in_one_call(
        self, shop: Shop, gateway, time, monkeypatch
    ):
        monkeypatch.setattr(rereads, "MOST_AT_ONCE", 1)
        for order_id in ("A102", "A103"):
            request = await shop.filed(order_id)
            gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)
        time.advance(2 * DAY)

        failed = [await shop.container.rereads().run() for _ in range(3)]

        assert [len(some) for some in failed] == [1, 1, 0]

    async def test_a_refund_on_a_row_somebody_changed_is_not_taken_back(
        self, shop: Shop, gateway, time
    ):
        request = await refunded(shop)
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)
        attack(shop.url, "UPDATE refund_requests SET customer_id = 'C002'")
        time.advance(2 * DAY)

        await reconcile(shop)

        assert (await shop.request(request.id)).status is S.REFUNDED
        assert len(await tasks(shop, "payout_refused")) == 1
        assert await balance(shop) == (0, 250_000)


class TestSaidPaidByHand:
    """A person ended the review with a proof, and the gateway's list shows our refund only then."""

    @pytest.mark.parametrize("proof", ["the refund", "a transfer"])
    async def test_what_shows_up_later_is_a_task_unless_it_is_the_proof(
        self, shop: Shop, gateway, time, proof
    ):
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        (made,) = gateway._made
        made.lost = True
        time.advance(DAY)
        await reconcile(shop)
        evidence = made.refund.provider_refund_id if proof == "the refund" else "FT26287000123"
        huong = await shop.approver("huong")
        await shop.container.resolutions().resolve(
            request.id, paid=True, evidence=evidence, by=huong
        )
        made.lost = False

        for _ in range(3):
            assert await reconcile(shop) == ()

        assert len(await tasks(shop, "paid_after_all")) == (proof == "a transfer")
        (attempt,) = await attempts(shop, request)
        assert attempt.provider_refund_id == made.refund.provider_refund_id
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)


class TestAnEarlierCopy:
    """The database was put back to before a payment that the gateway made."""

    @pytest.fixture
    async def request_(self, shop: Shop, gateway) -> RefundRequest:
        path = shop.url.removeprefix("sqlite:///")
        request = await approved(shop)
        with closing(connect(path)) as now, closing(connect(":memory:")) as copy:
            now.backup(copy)
            await pay(shop, request)
            copy.backup(now)
        return await shop.request(request.id)

    async def test_what_a_person_ends_with_the_refund_itself_is_booked_once(
        self, shop: Shop, gateway, request_
    ):
        for _ in range(2):
            await reconcile(shop)
            await shop.container.payouts().pay_due()
        assert (await shop.request(request_.id)).status is S.MANUAL_REVIEW
        (made,) = gateway.refunds
        await shop.container.resolutions().resolve(
            request_.id,
            paid=True,
            evidence=made.provider_refund_id,
            by=await shop.approver("huong"),
        )
        await reconcile(shop)

        assert await balance(shop) == (0, 250_000)
        assert not await frozen(shop)
        await assert_sound(shop)

    async def test_it_is_an_outside_refund_once_the_request_ends_otherwise(
        self, shop: Shop, gateway, request_
    ):
        await reconcile(shop)
        assert await balance(shop) == (250_000, 0)
        by = operator("ops")
        life = shop.container.life()
        await shop.write(lambda tx: life.cancel_for_shop(tx, request_.id, by=by))

        await reconcile(shop)

        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)


async def test_a_refund_that_is_settled_between_two_looks_is_not_booked_as_outside(
    shop: Shop, gateway, monkeypatch: pytest.MonkeyPatch
):
    """On PostgreSQL each statement sees what others committed meanwhile."""
    await refunded(shop)
    (made,) = gateway.refunds
    look = SqlAttempts.by_provider_id
    looks = iter([None])  # the first came before the other worker settled it

    def by_provider_id(self: SqlAttempts, name: str, refund_id: str) -> object:
        return next(looks, look(self, name, refund_id))

    monkeypatch.setattr(SqlAttempts, "by_provider_id", by_provider_id)
    taken = await shop.container.gateway_refunds().take(made)

    assert taken.meaning is gateway_refunds.Meaning.KNOWN
    assert await balance(shop) == (0, 250_000)
    await assert_sound(shop)

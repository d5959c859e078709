"""Asking about attempts: what is found is settled, what is not is sent again only while it is safe."""

import asyncio
from datetime import timedelta

import pytest

from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.storage import SwitchName
from support_agent.services.reconciliation import BETWEEN, IN_FLIGHT, KEY_LASTS
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import (
    approved,
    assert_sound,
    attack,
    attempts,
    balance,
    change_request,
    events,
    notices,
    operator,
    pay,
    tasks,
)
from tests.kit import Shop
from tests.moved_time import open_shop_in

S = RequestStatus
SECOND = timedelta(seconds=1)


async def reconcile(shop: Shop) -> tuple[RefundRequest, ...]:
    return await shop.container.payouts().reconcile()


async def in_doubt(shop: Shop, gateway) -> RefundRequest:
    """Sent, never answered, never executed."""
    request = await approved(shop)
    gateway.will(Act.LOSE_REQUEST)
    return await pay(shop, request)


async def stuck(shop: Shop, gateway, act: Act = Act.HANG_BEFORE) -> RefundRequest:
    """The process that was paying is gone, between the call and its answer."""
    request = await approved(shop)
    gateway.will(act)
    paying = asyncio.create_task(pay(shop, request))
    await gateway.hangs.wait()
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    return await shop.request(request.id)


class TestNotFound:
    async def test_the_same_key_is_sent_again_and_the_history_says_so(self, shop: Shop, gateway):
        request = await in_doubt(shop, gateway)

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED
        first, again = gateway.sent
        assert first == again
        assert [event.data["key"] for event in await events(shop, "refund.paying")] == [
            first.key,
            first.key,
        ]
        assert await balance(shop) == (0, 250_000)
        assert settled.attempt_at == request.attempt_at
        await assert_sound(shop)

    async def test_just_before_the_key_ends_it_is_sent_and_just_after_never(
        self, shop: Shop, gateway, time
    ):
        """Cases row 8."""
        request = await in_doubt(shop, gateway)
        time.advance(KEY_LASTS)

        (given_up,) = await reconcile(shop)
        await shop.container.payouts().pay_due()
        assert await reconcile(shop) == ()

        assert given_up.status is S.MANUAL_REVIEW
        assert len(gateway.sent) == 1
        assert await balance(shop) == (250_000, 0)
        (task,) = await tasks(shop, "payout_problem")
        assert task.subject == request.id
        assert (await attempts(shop, request))[0].error_code == "TOO_OLD"
        assert "thất bại" not in " ".join(await notices(shop, request.conversation_id))
        await assert_sound(shop)

    async def test_while_the_key_lasts(self, shop: Shop, gateway, time):
        await in_doubt(shop, gateway)
        time.advance(KEY_LASTS - timedelta(minutes=1))

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED
        assert len(gateway.refunds) == 1

    async def test_after_25_hours_it_is_still_found(self, shop: Shop, gateway, time):
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        time.advance(timedelta(hours=25))

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED
        assert len(gateway.sent) == 1

    @pytest.mark.parametrize(
        ("database", "machine"),
        [
            (timedelta(seconds=61), timedelta()),
            (timedelta(), timedelta(seconds=61)),
            (-timedelta(hours=1), -timedelta(hours=1)),
        ],
        ids=["database ahead", "database behind", "sent in the future"],
    )
    async def test_clocks_that_disagree_leave_it_to_a_person(
        self, shop: Shop, gateway, time, database, machine
    ):
        request = await in_doubt(shop, gateway)
        time.database, time.machine = database, machine

        (given_up,) = await reconcile(shop)

        assert given_up.status is S.MANUAL_REVIEW
        assert (await attempts(shop, request))[0].error_code == "AGE_UNKNOWN"
        assert len(gateway.sent) == 1
        assert await balance(shop) == (250_000, 0)

    async def test_business_time_has_no_say_in_it(self, shop: Shop, gateway):
        await in_doubt(shop, gateway)
        shop.clock.advance(timedelta(days=30))

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED

    async def test_doubt_that_stays_is_told_once_and_asked_more_and_more_rarely(
        self, shop: Shop, gateway, time
    ):
        request = await in_doubt(shop, gateway)
        gateway.will(*(Act.LOSE_REQUEST for _ in range(30)))

        for _ in range(3):
            await reconcile(shop)
        assert len(gateway.sent) == 2  # the second and third came too early
        time.advance(BETWEEN + SECOND)
        await reconcile(shop)

        assert len(gateway.sent) == 3
        assert (await shop.request(request.id)).status is S.IN_DOUBT
        assert len(await notices(shop, request.conversation_id)) == 1
        await assert_sound(shop)

    async def test_while_payouts_are_paused_it_is_asked_for_and_not_sent(self, shop: Shop, gateway):
        request = await in_doubt(shop, gateway)
        await pause(shop)

        (still,) = await reconcile(shop)

        assert still.status is S.IN_DOUBT
        assert len(gateway.sent) == 1
        assert still == await shop.request(request.id)

    async def test_what_is_found_is_settled_also_while_payouts_are_paused(
        self, shop: Shop, gateway
    ):
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        await pause(shop)

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED

    async def test_a_decline_of_what_an_earlier_sending_paid_is_no_failure(
        self, shop: Shop, gateway
    ):
        """The list lags behind: the key is not found, and the gateway has no more to give."""
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        gateway._saved.clear()
        find, looks = gateway.find, []

        async def lagging(instruction):
            looks.append(instruction)
            return None if len(looks) == 1 else await find(instruction)

        gateway.find = lagging

        (settled,) = await shop.container.reconciliation().run()

        assert settled.status is S.REFUNDED
        assert len(gateway.refunds) == 1

    async def test_several_reconcilers_at_once_pay_once(self, shop: Shop, gateway):
        request = await in_doubt(shop, gateway)

        await asyncio.gather(*(reconcile(shop) for _ in range(4)))

        assert (await shop.request(request.id)).status is S.REFUNDED
        assert len(gateway.refunds) == 1
        await assert_sound(shop)


class TestInFlight:
    async def test_a_young_one_is_left_to_its_process(self, shop: Shop, gateway, time):
        request = await stuck(shop, gateway)
        time.advance(IN_FLIGHT - timedelta(seconds=10))

        (still,) = await reconcile(shop)

        assert still == request
        assert len(gateway.sent) == 1

    async def test_a_later_one_is_sent_again(self, shop: Shop, gateway, time):
        await stuck(shop, gateway)
        time.advance(IN_FLIGHT + SECOND)

        (settled,) = await reconcile(shop)

        assert settled.status is S.REFUNDED
        assert len(gateway.refunds) == 1
        (again,) = await events(shop, "payout.sent_again")
        assert again.data["key"] == gateway.sent[0].key
        await assert_sound(shop)

    async def test_an_answer_that_comes_after_all_is_believed(self, shop: Shop, gateway, time):
        request = await stuck(shop, gateway)
        (attempt,) = await attempts(shop, request)
        time.advance(IN_FLIGHT + SECOND)
        gateway.will(Act.LOSE_REQUEST)
        await reconcile(shop)
        assert (await shop.request(request.id)).status is S.IN_DOUBT

        await shop.container.sending().send(attempt, notify=True)

        assert (await shop.request(request.id)).status is S.REFUNDED
        await assert_sound(shop)

    async def test_an_answer_after_it_was_given_up_is_kept_for_who_looks(
        self, shop: Shop, gateway, time
    ):
        request = await stuck(shop, gateway)
        (attempt,) = await attempts(shop, request)
        time.advance(KEY_LASTS)
        await reconcile(shop)

        await shop.container.sending().send(attempt, notify=True)

        assert (await shop.request(request.id)).status is S.MANUAL_REVIEW
        (kept,) = await attempts(shop, request)
        assert (kept.status, kept.provider_refund_id) == (AttemptStatus.UNKNOWN, "sim_1")
        await assert_sound(shop)


class TestProviderPending:
    async def test_one_that_vanished_is_never_sent_again(self, shop: Shop, gateway, time):
        request = await approved(shop)
        gateway.will(Act.PENDING)
        await pay(shop, request)
        gateway.lose(f"refund:{request.id}:1")

        (still,) = await reconcile(shop)
        assert still.status is S.PROVIDER_PENDING
        time.advance(KEY_LASTS)
        (given_up,) = await reconcile(shop)

        assert given_up.status is S.MANUAL_REVIEW
        assert len(gateway.sent) == 1
        assert await balance(shop) == (250_000, 0)

    async def test_it_is_found_by_the_id_that_the_gateway_gave(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.PENDING)
        await pay(shop, request)

        async def knows_no_key(instruction):
            raise AssertionError("it has an id")

        gateway.find = knows_no_key

        (still,) = await shop.container.reconciliation().run()

        assert still.status is S.PROVIDER_PENDING


ATTEMPT_COLUMNS = (
    "id, request_id, number, round, key, gateway, account, gateway_payment_id, amount_minor,"
    " currency, status, created_at, sent_at"
)


class TestWrittenByHand:
    """A status or an attempt that somebody wrote never sends anything."""

    @pytest.mark.parametrize("status", ["PAYING", "IN_DOUBT", "PROVIDER_PENDING"])
    @pytest.mark.parametrize("filed", ["waiting", "approved"])
    @pytest.mark.parametrize("with_attempt", [True, False])
    async def test_a_status(self, shop: Shop, gateway, time, status, filed, with_attempt):
        request = await (shop.filed("A100") if filed == "waiting" else approved(shop))
        sent_at = (await shop.read(lambda tx: tx.database_now())).strftime("%Y-%m-%d %H:%M:%S.%f")
        change_request(shop, request.id, f"status = '{status}', attempt_at = '{sent_at}'")
        if with_attempt:
            write_attempt(shop, request, sent_at)
        time.advance(IN_FLIGHT + SECOND)

        await self._never_sent(shop, gateway, request, status)

    @pytest.mark.parametrize(
        "change",
        [
            "amount_minor = 1",
            "account = 'somebody-elses'",
            "gateway_payment_id = 'led_A200_1'",
            "key = 'refund:another:1'",
            "number = 2",
            "sent_at = '2026-11-29 00:00:00.000000'",
            "status = 'FAILED'",
        ],
    )
    async def test_another_attempt_than_the_request_says(
        self, shop: Shop, gateway, time, change: str
    ):
        request = await in_doubt(shop, gateway)
        gateway.sent.clear()
        attack(shop.url, f"UPDATE refund_attempts SET {change}")  # noqa: S608 - the attack
        time.advance(IN_FLIGHT + SECOND)

        await self._never_sent(shop, gateway, request, "IN_DOUBT")

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE refund_requests SET attempt_at = '2026-12-24 00:00:00.000000'",
            "UPDATE refund_requests SET amount_minor = 1",
            "DELETE FROM ledger_entries WHERE account_kind = 'payment'",
            "DELETE FROM refund_decisions",
            "DELETE FROM refund_attempts",
        ],
    )
    async def test_what_else_a_second_sending_rests_on(
        self, shop: Shop, gateway, time, statement: str
    ):
        request = await in_doubt(shop, gateway)
        gateway.sent.clear()
        attack(shop.url, statement)

        await self._never_sent(shop, gateway, request, "IN_DOUBT")

    async def test_an_old_doubt_made_young(self, shop: Shop, gateway, time):
        """The key is forgotten by now: the same key again would pay twice."""
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        gateway.lose(f"refund:{request.id}:1")
        gateway.sent.clear()
        time.advance(timedelta(days=2))
        moment = (await shop.read(lambda tx: tx.database_now())).strftime("%Y-%m-%d %H:%M:%S.%f")
        change_request(shop, request.id, f"attempt_at = '{moment}'")
        attack(shop.url, f"UPDATE refund_attempts SET sent_at = '{moment}'")  # noqa: S608

        await self._never_sent(shop, gateway, request, "IN_DOUBT")

    async def test_a_refunded_one_set_back(self, shop: Shop, gateway, time):
        request = await approved(shop)
        await pay(shop, request)
        gateway.lose(f"refund:{request.id}:1")
        gateway.sent.clear()
        change_request(shop, request.id, "status = 'IN_DOUBT'")
        attack(shop.url, "UPDATE refund_attempts SET status = 'UNKNOWN', provider_refund_id = NULL")

        await self._never_sent(shop, gateway, request, "IN_DOUBT")

    async def _never_sent(self, shop: Shop, gateway, request, status: str) -> None:
        for _ in range(3):
            await reconcile(shop)
            await shop.container.payouts().pay_due()

        assert gateway.sent == []
        assert (await shop.request(request.id)).status == status
        assert len(await tasks(shop, "payout_refused")) == 1
        assert len(await events(shop, "payout.refused")) == 1


def write_attempt(shop: Shop, request: RefundRequest, sent_at: str) -> None:
    values = (
        *("att_forged", request.id, 1, request.round, f"refund:{request.id}:1", request.gateway),
        *(request.account, request.gateway_payment_id, request.amount_minor, request.currency),
        *("CREATED", sent_at, sent_at),
    )
    marks = ", ".join("?" * len(values))
    attack(
        shop.url,
        (f"INSERT INTO refund_attempts ({ATTEMPT_COLUMNS}) VALUES ({marks})", values),  # noqa: S608
    )


async def pause(shop: Shop) -> None:
    switchboard = shop.container.switchboard()
    await shop.write(
        lambda tx: switchboard.turn(tx, SwitchName.PAYOUTS, on=False, by=operator("owner"))
    )


class TestAnotherGateway:
    """The shop has changed its gateway: what was sent to the old one is unknown to the new one."""

    @pytest.fixture
    def other(self, time):
        return GatewaySimulator(name="other", now=time.of_machine)

    @pytest.mark.parametrize("act", [Act.LOSE_ANSWER, Act.LOSE_REQUEST])
    async def test_what_it_does_not_know_is_no_failure(
        self, shop: Shop, gateway, other, time, shop_url, act
    ):
        request = await approved(shop)
        gateway.will(act)
        await pay(shop, request)
        time.advance(2 * IN_FLIGHT)

        async with open_shop_in(time, shop_url, overrides={"gateway": other}) as later:
            (still,) = await reconcile(later)
        assert still.status is S.IN_DOUBT
        assert other.sent == []

        (settled,) = await reconcile(shop)
        assert settled.status is S.REFUNDED
        assert len(gateway.refunds) == 1
        await assert_sound(shop)

    async def test_what_is_too_old_is_a_persons(self, shop: Shop, gateway, other, time, shop_url):
        request = await in_doubt(shop, gateway)
        time.advance(KEY_LASTS)

        async with open_shop_in(time, shop_url, overrides={"gateway": other}) as later:
            (given_up,) = await reconcile(later)

        assert given_up.status is S.MANUAL_REVIEW
        assert (await attempts(shop, request))[0].error_code == "TOO_OLD"
        assert await balance(shop) == (250_000, 0)

    async def test_what_was_refunded_there_has_not_vanished(
        self, shop: Shop, gateway, other, time, shop_url
    ):
        request = await pay(shop, await approved(shop))
        time.advance(timedelta(days=2))

        async with open_shop_in(time, shop_url, overrides={"gateway": other}) as later:
            assert await reconcile(later) == ()

        assert await tasks(shop, "refund_vanished") == []
        assert await shop.request(request.id) == request

"""Paying: once, what was approved, and never called failed when nobody knows."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.errors import OrdersUnavailable, PaymentOutcomeUnknown, RequestNotFound
from support_agent.domain.orders import OrderStatus
from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.payments import GatewayStatus
from support_agent.services import payouts, reconciliation, sweeps
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import (
    add_destination,
    approved,
    assert_sound,
    attempts,
    balance,
    change_order,
    change_policy,
    change_request,
    dispute,
    notices,
    open_shop_with,
    pay,
    sample_shop,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


class TestPaid:
    async def test_once_with_the_key_of_request_and_attempt(self, shop: Shop, gateway):
        request = await approved(shop)

        paid = await pay(shop, request)
        again = await pay(shop, request)
        await shop.container.payouts().pay_due()
        await shop.container.payouts().reconcile()

        assert paid == again
        assert paid.status is S.REFUNDED
        (sent,) = gateway.sent
        assert sent.key == f"refund:{request.id}:1"
        assert (sent.amount_minor, sent.currency) == (250_000, "VND")
        assert sent.gateway_payment_id == "led_A100_1"
        assert await balance(shop) == (0, 250_000)
        (told,) = await notices(shop, request.conversation_id)
        assert "Đã hoàn 250.000\u00a0₫ cho đơn A100" in told
        await assert_sound(shop)

    async def test_minor_units_are_sent_as_they_are(self, shop: Shop, gateway):
        """Cases rows 16, 17, 23: dong have no hundredth, cents do, and 1 is 1."""
        await shop.filed("A300", customer="C003", amount=5_000)
        dollars = await approved(shop, "A600", "huong", customer="C006")
        await pay(shop, dollars)
        await shop.filed("A102", amount=1)

        assert [(sent.amount_minor, sent.currency) for sent in gateway.sent] == [
            (5_000, "VND"),
            (4_500, "USD"),
            (1, "VND"),
        ]

    async def test_by_several_workers_at_once_still_once(self, shop: Shop, gateway):
        request = await approved(shop)

        results = await asyncio.gather(*(pay(shop, request) for _ in range(5)))

        assert {result.status for result in results} <= {S.REFUNDED, S.PAYING}
        assert len(gateway.sent) == 1
        assert len(await attempts(shop, request)) == 1
        await assert_sound(shop)

    async def test_what_is_not_approved_is_handed_back_as_it_is(self, shop: Shop, gateway):
        waiting = await shop.filed("A100")

        assert await pay(shop, waiting) == waiting
        assert gateway.sent == []

    async def test_an_unknown_request_is_not_found(self, shop: Shop):
        with pytest.raises(RequestNotFound):
            await shop.container.payouts().pay("req_none")

    async def test_a_gift_card_goes_back_to_the_gift_card(self, shop: Shop, gateway):
        request = await approved(shop, "A601", "lan", customer="C006")

        assert (await pay(shop, request)).status is S.REFUNDED
        assert gateway.sent[0].gateway_payment_id == "led_A601_1"


class TestByHand:
    """What our gateway cannot carry goes to a person, with its reserve."""

    @pytest.mark.parametrize("other", ["stripe", "simulator", "LEDGER", ""])
    async def test_a_payment_of_another_gateway(self, shop_url: str, other: str):
        """Also with the real `ledger`, which knows the shop's payments of every gateway."""
        async with open_shop_with(shop_url) as shop:
            order = await shop.container.orders().get("A102")
            payments = tuple(replace(payment, gateway=other) for payment in order.payments)
            await change_order(shop, "A102", payments=payments)

            request = await shop.filed("A102")

            assert request.status is S.MANUAL_REVIEW
            assert await attempts(shop, request) == ()
            assert await balance(shop, "A102") == (120_000, 0)
            (task,) = await tasks(shop, "pay_by_hand")
            assert task.subject == request.id
            assert await shop.container.payouts().reconcile() == ()
            await assert_sound(shop)

    async def test_a_payment_of_the_gateway_we_have_whatever_its_name(self, shop_url: str):
        stripe = GatewaySimulator(sample_shop().orders, name="stripe")
        async with open_shop_with(shop_url, overrides={"gateway": stripe}) as shop:
            ours = await shop.filed("A102")
            order = await shop.container.orders().get("A103")
            payments = tuple(replace(payment, gateway="stripe") for payment in order.payments)
            await change_order(shop, "A103", payments=payments)
            theirs = await shop.filed("A103")

        assert (ours.status, theirs.status) == (S.MANUAL_REVIEW, S.REFUNDED)
        assert [sent.request_id for sent in stripe.sent] == [theirs.id]


class TestNotPaid:
    @pytest.mark.parametrize("act", [Act.DECLINE, Act.FAIL])
    async def test_positive_evidence_fails_it_and_releases(self, shop: Shop, gateway, act):
        request = await approved(shop)
        gateway.will(act)

        failed = await pay(shop, request)

        assert failed.status is S.FAILED
        assert await balance(shop) == (0, 0)
        (attempt,) = await attempts(shop, request)
        assert (attempt.status, attempt.error_code) == (AttemptStatus.FAILED, "declined")
        assert len(await tasks(shop, "payout_problem")) == 1
        assert "không thực hiện được" in (await notices(shop, request.conversation_id))[0]
        await assert_sound(shop)

    async def test_the_order_is_as_it_was_and_may_be_asked_for_again(self, shop: Shop, gateway):
        """Cases row 13."""
        gateway.will(Act.DECLINE)
        await pay(shop, await approved(shop))

        order = await shop.container.orders().get("A100")
        assert order.status is OrderStatus.DELIVERED
        assert (await shop.quote("A100")).quotes[0].amount_minor == 250_000

    async def test_a_decline_gives_the_caps_back(self, shop: Shop, gateway):
        await change_policy(shop, auto_per_customer_day=200_000)
        gateway.will(Act.DECLINE)
        assert (await shop.filed("A102")).status is S.FAILED

        assert (await shop.filed("A103")).status is S.REFUNDED


class TestUnknown:
    @pytest.mark.parametrize(
        ("act", "executed"),
        [
            (Act.LOSE_REQUEST, False),
            (Act.LOSE_ANSWER, True),
            (Act.HANG_BEFORE, False),
            (Act.HANG_AFTER, True),
        ],
    )
    async def test_silence_is_in_doubt_and_never_a_failure(
        self, shop: Shop, gateway, act, executed
    ):
        """Cases row 9."""
        request = await approved(shop)
        gateway.will(act)

        unclear = await pay(shop, request)

        assert unclear.status is S.IN_DOUBT
        assert await balance(shop) == (250_000, 0)
        (told,) = await notices(shop, request.conversation_id)
        assert "chưa xác định" in told
        assert "thất bại" not in told
        assert "đã hoàn" not in told.lower()
        assert len(gateway.refunds) == executed
        await assert_sound(shop)

    @pytest.mark.parametrize("act", [Act.LOSE_ANSWER, Act.HANG_AFTER])
    async def test_reconciling_finds_it_by_its_key_and_sends_nothing(
        self, shop: Shop, gateway, act
    ):
        """Cases rows 1 and 2."""
        request = await approved(shop)
        gateway.will(act)
        await pay(shop, request)

        (settled,) = await shop.container.payouts().reconcile()

        assert settled.status is S.REFUNDED
        assert len(gateway.sent) == len(gateway.refunds) == 1
        assert await balance(shop) == (0, 250_000)
        assert await shop.container.payouts().reconcile() == ()
        assert "Đã hoàn" in (await notices(shop, request.conversation_id))[-1]
        await assert_sound(shop)

    async def test_doubt_can_neither_be_cancelled_nor_expires(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.LOSE_ANSWER)
        await pay(shop, request)
        shop.clock.advance(timedelta(days=30))

        refused = await shop.say(
            "huỷ yêu cầu",
            {"tool": "cancel_refund", "arguments": {"request_id": request.id}},
            {"answer": "Vâng."},
            conversation=request.conversation_id,
        )

        assert refused.steps[0].calls[0].observation.error_code == "ALREADY_PAYING"
        assert await shop.container.life().expire_due(shop.container.database()) == ()

    async def test_an_answer_about_another_amount_goes_to_a_person(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.MISMATCH)

        odd = await pay(shop, request)

        assert odd.status is S.MANUAL_REVIEW
        assert await balance(shop) == (250_000, 0)
        assert (await attempts(shop, request))[0].error_code == "AMOUNT_MISMATCH"
        assert len(await tasks(shop, "payout_problem")) == 1
        await assert_sound(shop)

    async def test_a_key_known_with_other_parameters_goes_to_a_person(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.will(Act.REFUSE_KEY)

        assert (await pay(shop, request)).status is S.MANUAL_REVIEW
        assert await balance(shop) == (250_000, 0)


class TestPending:
    """Cases rows 6 and 7."""

    async def test_accepted_is_not_refunded_yet_and_the_money_is_gone(self, shop: Shop, gateway):
        request = await approved(shop, amount=210_000)
        gateway.will(Act.PENDING)

        pending = await pay(shop, request)

        assert pending.status is S.PROVIDER_PENDING
        assert await balance(shop) == (210_000, 0)
        assert (
            "đang được cổng thanh toán xử lý" in (await notices(shop, request.conversation_id))[0]
        )
        assert (await shop.quote("A100", amount=40_001)).quotes == ()
        assert await pay(shop, request) == pending
        assert len(gateway.sent) == 1

    @pytest.mark.parametrize(
        ("word", "status", "counters"),
        [
            (GatewayStatus.SUCCEEDED, S.REFUNDED, (0, 250_000)),
            (GatewayStatus.FAILED, S.FAILED, (0, 0)),
            (GatewayStatus.CANCELED, S.FAILED, (0, 0)),
            (GatewayStatus.PENDING, S.PROVIDER_PENDING, (250_000, 0)),
        ],
    )
    async def test_reconciling_learns_how_it_ended(
        self, shop: Shop, gateway, word, status, counters
    ):
        request = await approved(shop)
        gateway.will(Act.PENDING)
        await pay(shop, request)
        gateway.settle(f"refund:{request.id}:1", word)

        (settled,) = await shop.container.payouts().reconcile()

        assert settled.status is status
        assert await balance(shop) == counters
        await assert_sound(shop)


class TestInFlight:
    """PAYING: the attempt is committed, and some process may be waiting for the answer."""

    async def test_a_fresh_attempt_is_left_to_its_process(self, shop: Shop, gateway):
        request = await self._stuck(shop, gateway, Act.HANG_BEFORE)

        (still,) = await shop.container.payouts().reconcile()

        assert still.status is S.PAYING
        assert await notices(shop, request.conversation_id) == []

    async def test_one_that_is_known_is_settled_at_once(self, shop: Shop, gateway):
        await self._stuck(shop, gateway, Act.HANG_AFTER)

        (settled,) = await shop.container.payouts().reconcile()

        assert settled.status is S.REFUNDED
        await assert_sound(shop)

    async def _stuck(self, shop: Shop, gateway, act: Act) -> RefundRequest:
        """The process that was paying is gone, between the call and its answer."""
        request = await approved(shop)
        gateway.will(act)
        paying = asyncio.create_task(pay(shop, request))
        await gateway.hangs.wait()
        paying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await paying
        assert (await shop.request(request.id)).status is S.PAYING
        return request


class TestDue:
    async def test_approved_and_not_tried_is_paid_later(self, shop: Shop, gateway):
        gateway.unreachable = True
        request = await approved(shop)
        with pytest.raises(PaymentOutcomeUnknown):
            await pay(shop, request)
        assert (await shop.request(request.id)).status is S.APPROVED
        gateway.unreachable = False

        (paid,) = await shop.container.payouts().pay_due()

        assert paid.status is S.REFUNDED
        await assert_sound(shop)

    @pytest.mark.parametrize("error", [OrdersUnavailable("down"), RuntimeError("a bug")])
    async def test_one_that_cannot_be_paid_does_not_hold_up_the_others(
        self, shop_url: str, gateway, error: Exception
    ):
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            first = await approved(shop)
            second = await approved(shop, "A205", "lan", customer="C002")

        class Orders:
            """Does not answer about A100."""

            def __init__(self, orders) -> None:
                self.orders = orders

            async def get(self, order_id: str):
                if order_id == "A100":
                    raise error
                return await self.orders.get(order_id)

        async with open_shop_with(shop_url) as plain:
            parts = {"gateway": gateway, "orders": Orders(plain.container.orders())}
            async with open_shop_with(shop_url, overrides=parts) as shop:
                paid = await shop.container.payouts().pay_due()

                assert [request.id for request in paid] == [second.id]
                assert (await shop.request(first.id)).status is S.APPROVED

    async def test_one_that_cannot_be_reconciled_does_not_hold_up_the_others(
        self, shop: Shop, gateway
    ):
        for order_id, customer in (("A100", "C001"), ("A205", "C002")):
            request = await approved(shop, order_id, "lan", customer=customer)
            gateway.will(Act.LOSE_ANSWER)
            await pay(shop, request)
        find = gateway.find

        async def silent_about_one(instruction):
            if instruction.gateway_payment_id == "led_A100_1":
                raise PaymentOutcomeUnknown("reset")
            return await find(instruction)

        gateway.find = silent_about_one

        (settled,) = await shop.container.reconciliation().run()

        assert settled.order_id == "A205"

    async def test_those_that_never_move_do_not_keep_later_ones_from_their_turn(
        self, shop: Shop, gateway, monkeypatch
    ):
        monkeypatch.setattr(payouts, "PAGE", 1)
        monkeypatch.setattr(sweeps, "PAGE", 1)
        gateway.unreachable = True
        stuck = [await shop.filed(order_id) for order_id in ("A102", "A103")]
        last = await shop.filed("A204", customer="C002")
        gateway.unreachable = False
        for request in stuck:
            change_request(shop, request.id, "policy_version = 9")

        tried = await shop.container.payouts().pay_due()

        assert [request.status for request in tried] == [S.APPROVED, S.APPROVED, S.REFUNDED]
        assert tried[-1].id == last.id

    async def test_those_that_stay_in_doubt_do_not_keep_later_ones_from_being_settled(
        self, shop: Shop, gateway, monkeypatch
    ):
        monkeypatch.setattr(reconciliation, "PAGE", 1)
        monkeypatch.setattr(sweeps, "PAGE", 1)
        gateway.will(Act.ERROR_BEFORE, Act.ERROR_BEFORE, Act.LOSE_ANSWER)
        for order_id, customer in (("A102", "C001"), ("A103", "C001"), ("A204", "C002")):
            await shop.filed(order_id, customer=customer)

        asked = await shop.container.payouts().reconcile()

        assert [request.status for request in asked] == [S.IN_DOUBT, S.IN_DOUBT, S.REFUNDED]

    async def test_a_row_that_cannot_be_read_does_not_hold_up_the_others(self, shop: Shop, gateway):
        gateway.unreachable = True
        broken, sound = await shop.filed("A102"), await shop.filed("A103")
        gateway.unreachable = False
        change_request(shop, broken.id, "reasons = '[\"BOGUS\"]'")

        paid = await shop.container.payouts().pay_due()

        assert [request.id for request in paid] == [sound.id]

    async def test_one_call_ends_though_more_are_waiting(self, shop: Shop, gateway, monkeypatch):
        monkeypatch.setattr(payouts, "PAGE", 1)
        monkeypatch.setattr(sweeps, "PAGE", 1)
        monkeypatch.setattr(sweeps, "MOST_AT_ONCE", 2)
        gateway.unreachable = True
        for order_id, customer in (("A102", "C001"), ("A103", "C001"), ("A204", "C002")):
            await shop.filed(order_id, customer=customer)
        gateway.unreachable = False

        counts = [len(await shop.container.payouts().pay_due()) for _ in range(3)]

        assert counts == [2, 1, 0]

    async def test_an_approval_not_used_in_time_is_void(self, shop: Shop, gateway):
        request = await approved(shop)
        shop.clock.advance(timedelta(hours=72, seconds=1))

        expired = await pay(shop, request)

        assert expired.status is S.EXPIRED
        assert gateway.sent == []
        assert await balance(shop) == (0, 0)
        assert "hết hạn" in (await notices(shop, request.conversation_id))[0]
        await assert_sound(shop)

    async def test_the_last_second_still_pays(self, shop: Shop):
        request = await approved(shop)
        shop.clock.advance(timedelta(hours=72))

        assert (await pay(shop, request)).status is S.REFUNDED


@pytest.mark.parametrize(("order_id", "amount"), [("A602", 180_000), ("A603", 640_000)])
async def test_what_no_gateway_can_send_becomes_a_persons_task(
    shop: Shop, gateway, order_id: str, amount: int
):
    """Cash on delivery and bank transfer."""
    await add_destination(shop)
    request = await approved(shop, order_id, "lan", customer="C006")

    by_hand = await pay(shop, request)

    assert by_hand.status is S.MANUAL_REVIEW
    assert gateway.sent == []
    assert await balance(shop, order_id) == (amount, 0)
    (task,) = await tasks(shop, "pay_by_hand")
    assert task.subject == request.id
    await assert_sound(shop)


async def test_cash_is_not_paid_by_hand_once_it_is_disputed(shop: Shop):
    await add_destination(shop)
    request = await approved(shop, "A602", "lan", customer="C006")
    await dispute(shop, "A602")

    assert (await pay(shop, request)).status is S.PENDING_APPROVAL
    assert await tasks(shop, "pay_by_hand") == []

"""Payouts that are paused, groups that are paid one by one, and gateways that hang."""

import asyncio
from datetime import timedelta

import pytest

from support_agent.domain.errors import PaymentOutcomeUnknown, RequestNotFound
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import SwitchName
from support_agent.services import sweeps
from support_agent.services.gateway_calls import MOST_SILENCES
from support_agent.testing.gateway import Act
from tests.heart import (
    approved,
    assert_sound,
    attack,
    attempts,
    balance,
    operator,
    pay,
    requests_of,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


async def turn(shop: Shop, *, on: bool) -> None:
    board, by = shop.container.switchboard(), operator("owner")
    await shop.write(lambda tx: board.turn(tx, SwitchName.PAYOUTS, on=on, by=by))


class TestPaused:
    async def test_nothing_is_sent_and_the_request_stays_as_it_is(self, shop: Shop, gateway):
        request = await approved(shop)
        await turn(shop, on=False)

        assert await pay(shop, request) == request
        assert [r.status for r in await shop.container.payouts().pay_due()] == [S.APPROVED]

        assert gateway.sent == []
        assert await attempts(shop, request) == ()
        assert await tasks(shop, "payout_refused") == []

    async def test_an_automatic_refund_waits_for_it_too(self, shop: Shop, gateway):
        await turn(shop, on=False)

        request = await shop.filed("A102")

        assert request.status is S.APPROVED
        assert gateway.sent == []

    async def test_resumed_it_is_paid(self, shop: Shop, gateway):
        request = await approved(shop)
        await turn(shop, on=False)
        await pay(shop, request)
        await turn(shop, on=True)

        (paid,) = await shop.container.payouts().pay_due()

        assert paid.status is S.REFUNDED
        await assert_sound(shop)

    async def test_paused_between_the_look_and_the_payment(self, shop: Shop, gateway):
        request = await approved(shop)
        state = gateway.payment_state

        async def pausing(payment):
            await turn(shop, on=False)
            return await state(payment)

        gateway.payment_state = pausing

        assert await pay(shop, request) == request
        assert gateway.sent == []

    async def test_a_switch_set_back_by_hand_starts_nothing(self, shop: Shop, gateway):
        request = await approved(shop)
        await turn(shop, on=False)
        attack(shop.url, "UPDATE switches SET is_on = 1")

        assert await pay(shop, request) == request
        assert gateway.sent == []


class TestGroup:
    """A605 was paid with a gift card and a card: one refund, two requests, each paid alone."""

    async def test_each_is_paid_from_its_own_payment(self, shop: Shop, gateway):
        members = await self._approved(shop)

        paid = await shop.container.payouts().pay_group(members[0].id)

        assert [request.id for request in paid] == [member.id for member in members]
        assert {request.status for request in paid} == {S.REFUNDED}
        assert [sent.key for sent in gateway.sent] == [f"refund:{m.id}:1" for m in members]
        assert len({sent.gateway_payment_id for sent in gateway.sent}) == 2
        await assert_sound(shop)

    async def test_one_that_fails_does_not_keep_the_other(self, shop: Shop, gateway):
        members = await self._approved(shop)
        gateway.will(Act.DECLINE)

        paid = await shop.container.payouts().pay_group(members[1].id)

        assert [request.status for request in paid] == [S.FAILED, S.REFUNDED]

    async def test_one_that_cannot_be_asked_for_is_told_after_the_other_was_tried(
        self, shop: Shop, gateway
    ):
        members = await self._approved(shop)
        state = gateway.payment_state

        async def silent_about_the_first(payment):
            if payment.gateway_payment_id == members[0].gateway_payment_id:
                raise PaymentOutcomeUnknown("reset")
            return await state(payment)

        gateway.payment_state = silent_about_the_first

        with pytest.raises(PaymentOutcomeUnknown):
            await shop.container.payouts().pay_group(members[0].id)

        now = [(await shop.request(member.id)).status for member in members]
        assert now == [S.APPROVED, S.REFUNDED]

    async def test_one_alone_is_a_group_of_one(self, shop: Shop, gateway):
        request = await approved(shop)

        (paid,) = await shop.container.payouts().pay_group(request.id)

        assert paid.status is S.REFUNDED

    async def test_an_unknown_request_is_not_found(self, shop: Shop):
        with pytest.raises(RequestNotFound):
            await shop.container.payouts().pay_group("req_none")

    async def _approved(self, shop: Shop) -> list[RefundRequest]:
        filed = await shop.filed("A605", customer="C006")
        for name in ("huong", "tuan"):
            if (await shop.request(filed.id)).status is S.PENDING_APPROVAL:
                await shop.container.approvals().approve(filed.id, by=await shop.approver(name))
        members = [r for r in await requests_of(shop) if r.group_id == filed.group_id]
        members.reverse()  # the list has the newest first
        assert [member.status for member in members] == [S.APPROVED, S.APPROVED]
        return members


class TestHangingGateway:
    """A time-out for each of two thousand requests would take hours."""

    ORDERS = (("A102", "C001"), ("A103", "C001"), ("A204", "C002"), ("A400", "C004"))
    AMOUNT = 100_000

    async def test_paying_stops_after_a_few_silences(self, shop: Shop, gateway):
        await self._approved(shop, gateway)
        asked: list[object] = []
        gateway.payment_state = self._counting(asked)

        assert await shop.container.payouts().pay_due() == ()

        assert len(asked) == MOST_SILENCES
        assert {r.status for r in await requests_of(shop)} == {S.APPROVED}

    async def test_refunds_that_are_not_answered_do_not_put_all_in_doubt(self, shop: Shop, gateway):
        await self._approved(shop, gateway)
        gateway.will(*(Act.HANG_BEFORE for _ in self.ORDERS))

        unclear = await shop.container.payouts().pay_due()

        assert [request.status for request in unclear] == [S.IN_DOUBT] * MOST_SILENCES
        assert len(gateway.sent) == MOST_SILENCES

    async def test_reconciling_stops_too_and_the_next_call_starts_anew(self, shop: Shop, gateway):
        for order_id, customer in self.ORDERS:
            gateway.will(Act.LOSE_ANSWER)
            await shop.filed(order_id, customer=customer, amount=self.AMOUNT)
        find, asked = gateway.find, []
        gateway.find = self._counting(asked)

        await shop.container.reconciliation().run()
        assert len(asked) == MOST_SILENCES
        gateway.find = find

        settled = await shop.container.reconciliation().run()

        assert [request.status for request in settled] == [S.REFUNDED] * len(self.ORDERS)

    async def test_a_sweep_ends_in_time(self, shop: Shop, gateway, monkeypatch):
        await self._approved(shop, gateway)
        monkeypatch.setattr(sweeps, "LONGEST_S", -1.0)

        assert await shop.container.payouts().pay_due() == ()
        assert gateway.sent == []

    async def test_single_slow_answers_do_not_stop_it(self, shop: Shop, gateway):
        await self._approved(shop, gateway)
        state, asked = gateway.payment_state, []

        async def every_other(payment):
            asked.append(payment)
            if len(asked) % 2:
                await self._hanging()()
            return await state(payment)

        gateway.payment_state = every_other

        await shop.container.payouts().pay_due()

        assert len(asked) == len(self.ORDERS)

    async def _approved(self, shop: Shop, gateway) -> None:
        gateway.unreachable = True
        for order_id, customer in self.ORDERS:
            await shop.filed(order_id, customer=customer, amount=self.AMOUNT)
        gateway.unreachable = False

    def _counting(self, asked: list[object]):
        async def hang(*arguments: object):
            asked.append(arguments)
            await self._hanging()()

        return hang

    def _hanging(self):
        return asyncio.Event().wait


async def test_business_rows_stay_what_they_are(shop: Shop, gateway):
    """Cases rows 15, 34 and M1, M2: whoever asks again hears what is stored."""
    request = await approved(shop)
    paid = await pay(shop, request)
    shop.clock.advance(timedelta(minutes=1))

    again = [await pay(shop, request) for _ in range(3)]

    assert set(again) == {paid}
    assert len(gateway.sent) == 1
    assert await balance(shop) == (0, 250_000)

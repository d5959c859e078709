"""Paying what became worse since its approval: back to a person, in a new round."""

from dataclasses import replace

import pytest

from support_agent.domain.errors import DecisionRefused
from support_agent.domain.orders import OrderStatus
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.testing.gateway import Act
from tests.heart import (
    approved,
    assert_sound,
    attack,
    balance,
    books_of,
    change_approver,
    change_order,
    change_policy,
    change_request,
    dispute,
    events,
    pay,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


class TestWorseSinceTheApproval:
    """Back to a person, in a new round in which the old decision no longer counts."""

    async def test_a_dispute_at_the_shop(self, shop: Shop, gateway):
        """Cases row 25."""
        request = await approved(shop)
        await dispute(shop, "A100")

        await self._back(shop, gateway, request, "DISPUTED")

    async def test_a_dispute_at_the_gateway(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.dispute("led_A100_1")

        await self._back(shop, gateway, request, "DISPUTED")

    async def test_another_account(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.move_to_account("led_A100_1", "somebody-elses")

        await self._back(shop, gateway, request, "PAYMENT_FROZEN")

    async def test_another_mode(self, shop: Shop, gateway):
        request = await approved(shop)
        state = gateway.payment_state

        async def live(instruction):
            return replace(await state(instruction), livemode=True)

        gateway.payment_state = live

        await self._back(shop, gateway, request, "PAYMENT_FROZEN")

    async def test_a_payment_the_gateway_does_not_know(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway._payments.clear()

        await self._back(shop, gateway, request, "PAYMENT_FROZEN")

    async def test_a_chargeback_our_books_do_not_know(self, shop: Shop, gateway):
        request = await approved(shop)
        gateway.charge_back(gateway.dispute("led_A100_1", 1))

        await self._back(shop, gateway, request, "DISPUTED")

    async def test_refunds_our_books_do_not_explain_are_booked(self, shop: Shop, gateway):
        request = await approved(shop, amount=210_000)
        outside = gateway.refund_outside("led_A100_1", 30_000)

        back = await pay(shop, request)
        again = await pay(shop, request)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert again == back
        assert gateway.sent == []
        assert await balance(shop) == (210_000, 30_000)
        (event,) = await events(shop, "payment.external")
        assert event.data["reference"] == outside.provider_refund_id
        await assert_sound(shop)
        # Who decides again has seen it, and now it is explained.
        await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))
        assert (await pay(shop, request)).status is S.REFUNDED
        assert await balance(shop) == (0, 240_000)

    async def test_what_was_refunded_outside_and_does_not_fit_stops_the_payment(
        self, shop: Shop, gateway
    ):
        request = await approved(shop)
        gateway.refund_outside("led_A100_1", 1)

        await pay(shop, request)

        (payment,) = (await books_of(shop, "A100")).payments
        assert (payment.overdrawn_minor, payment.frozen) == (1, True)
        assert len(await tasks(shop, "outside_refund")) == 1
        by = await shop.approver("lan")
        with pytest.raises(DecisionRefused):
            await shop.container.approvals().approve(request.id, by=by)
        await assert_sound(shop)

    async def test_a_cancelled_order(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_order(shop, "A100", status=OrderStatus.CANCELLED)

        await self._back(shop, gateway, request, "ORDER_CANCELLED")

    async def test_an_order_that_became_another_customers(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_order(shop, "A100", customer_id="C002")

        await self._back(shop, gateway, request, "STATUS_UNKNOWN")

    async def test_an_approver_switched_on_again_by_hand(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_approver(shop, "lan", disabled=True)
        attack(shop.url, "UPDATE approvers SET disabled = 0 WHERE name = 'lan'")

        back = await pay(shop, request)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert gateway.refunds == ()

    @pytest.mark.parametrize("change", [{"disabled": True}, {"person_id": "P-OTHER"}])
    async def test_an_approver_who_may_no_longer_decide(self, shop: Shop, gateway, change):
        request = await approved(shop)
        await change_approver(shop, "lan", **change)

        await self._back(shop, gateway, request, "APPROVER_DISABLED")

    async def test_a_tier_lowered_since(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_policy(shop, auto=100, levels=[200_000, 20_000_000])

        await self._back(shop, gateway, request, "ABOVE_AUTO_LIMIT", next_by="huong")

    async def test_a_top_limit_lowered_since(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_policy(shop, auto=100, levels=[200_000, 249_999])

        back = await pay(shop, request)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)

    async def test_four_eyes_from_less_than_before(self, shop: Shop, gateway):
        request = await approved(shop)
        await change_policy(shop, four_eyes_from=250_000)

        back = await pay(shop, request)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert (await events(shop, "refund.pending_approval"))[0].data["reason"] == (
            "NOT_ENOUGH_APPROVALS"
        )

    async def test_an_automatic_one_with_doubts_since(self, shop: Shop, gateway):
        gateway.unreachable = True
        request = await shop.filed("A102")
        gateway.unreachable = False
        await change_order(shop, "A102", status=OrderStatus.UNKNOWN)

        back = await pay(shop, request)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert gateway.sent == []
        await assert_sound(shop)

    async def _back(
        self, shop: Shop, gateway, request: RefundRequest, reason: str, next_by: str = "lan"
    ) -> None:
        back = await pay(shop, request)
        again = await pay(shop, request)

        assert back == again
        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        assert back.version == request.version + 1
        assert gateway.sent == []
        assert await balance(shop) == (250_000, 0)
        (event,) = await events(shop, "refund.pending_approval")
        assert event.data["reason"] == reason
        await assert_sound(shop)
        # Whoever writes the status back finds no decision that counts in this round.
        change_request(shop, request.id, "status = 'APPROVED'")
        assert (await pay(shop, request)).status is S.APPROVED
        assert gateway.sent == []


async def test_in_a_new_round_the_same_person_decides_again(shop: Shop, gateway):
    request = await approved(shop)
    order = await shop.container.orders().get("A100")
    await dispute(shop, "A100")
    await pay(shop, request)
    await change_order(shop, "A100", payments=order.payments)

    by = await shop.approver("lan")
    await shop.container.approvals().approve(request.id, by=by)
    paid = await pay(shop, request)

    assert paid.status is S.REFUNDED
    decisions = await shop.read(lambda tx: tx.decisions.of(request.id))
    assert [decision.round for decision in decisions] == [1, 2]
    await assert_sound(shop)


async def test_refunds_of_ours_that_are_still_open_are_explained(shop: Shop, gateway):
    """Two parts of one payment: the first is in doubt at us and executed at the gateway."""
    gateway.will(Act.LOSE_ANSWER)
    first = await shop.filed("A100", amount=200_000)
    second = await approved(shop, amount=50_000)

    assert first.status is S.IN_DOUBT
    assert (await pay(shop, second)).status is S.REFUNDED
    await shop.container.payouts().reconcile()
    assert await balance(shop) == (0, 250_000)
    await assert_sound(shop)

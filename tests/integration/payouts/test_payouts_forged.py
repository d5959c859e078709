"""Paying what somebody wrote into the database: not at all, and not unnoticed."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.refunds import RefundRequest, RequestStatus, fingerprint
from support_agent.domain.signing import KeyRing
from tests.heart import (
    WRITTEN_APPROVED,
    approved,
    asker,
    attack,
    change_request,
    events,
    forge_approval,
    pay,
    problems,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


class TestForged:
    """Who can write the database can neither approve nor pay, and not unnoticed."""

    async def test_a_status_written_by_hand_is_not_paid(self, shop: Shop, gateway):
        request = await shop.filed("A100")
        change_request(shop, request.id, WRITTEN_APPROVED)

        await self._refused(shop, gateway, request)

    async def test_one_of_two_approvals_is_not_enough(self, shop: Shop, gateway):
        request = await approved(shop, "A303", "huong", customer="C003")
        change_request(shop, request.id, "status = 'APPROVED', version = 2")

        await self._refused(shop, gateway, request)

    @pytest.mark.parametrize(
        "change",
        [
            "amount_minor = 200000",
            "destination = 'ledger:shop-main:led_A200_1'",
            "gateway_payment_id = 'led_A200_1'",
            "account = 'somebody-elses'",
            "required_level = 0",
            "approvals_needed = 0 + 2",
            "customer_id = 'C002'",
            "order_id = 'A200'",
            "method = 'WALLET'",
            "approved_until = '2027-01-01 00:00:00.000000'",
            "round = 2",
        ],
    )
    async def test_a_record_changed_after_the_decision_is_not_paid(
        self, shop: Shop, gateway, change: str
    ):
        request = await approved(shop)
        change_request(shop, request.id, change)

        await self._refused(shop, gateway, request)

    async def test_a_changed_fingerprint_does_not_help(self, shop: Shop, gateway):
        request = await approved(shop)
        less = replace(request, amount_minor=200_000)
        change_request(
            shop, request.id, f"amount_minor = 200000, fingerprint = '{fingerprint(less)}'"
        )

        await self._refused(shop, gateway, request)

    @pytest.mark.parametrize("how", ["cancelled", "rejected", "expired"])
    async def test_an_end_undone_by_hand_is_not_paid(self, shop: Shop, gateway, how: str):
        """The old approval still verifies; the history says that it was taken back."""
        if how == "rejected":
            request = await shop.filed("A303", customer="C003")
            for name, decide in (
                ("huong", shop.container.approvals().approve),
                ("tuan", shop.container.approvals().reject),
            ):
                await decide(request.id, by=await shop.approver(name))
        else:
            request = await approved(shop)
        if how == "cancelled":
            who = asker("C001", request.conversation_id)
            await shop.write(lambda tx: shop.container.life().cancel(tx, request.id, who))
        if how == "expired":
            shop.clock.advance(timedelta(days=4))
            await shop.container.life().expire_due(shop.container.database())
        assert (await shop.request(request.id)).status.lower() == how
        change_request(shop, request.id, WRITTEN_APPROVED)

        await self._refused(shop, gateway, request)

    async def test_a_refund_paid_already_is_not_paid_again(self, shop: Shop, gateway):
        request = await approved(shop, amount=210_000)
        await pay(shop, request)
        attack(shop.url, "DELETE FROM refund_attempts")
        change_request(shop, request.id, WRITTEN_APPROVED)

        assert (await pay(shop, request)).status is S.APPROVED
        assert len(gateway.sent) == 1

    async def test_a_reserve_taken_off_the_books_is_not_paid(self, shop: Shop, gateway):
        request = await approved(shop)
        attack(shop.url, "DELETE FROM ledger_entries WHERE account_kind = 'payment'")

        await self._refused(shop, gateway, request)

    @pytest.mark.parametrize("key_id", ["test", "other"])
    async def test_a_decision_forged_without_the_key_is_not_paid(
        self, shop: Shop, gateway, key_id: str
    ):
        """With everything around it: status, decision and an event of the history."""
        request = await shop.filed("A100")
        await forge_approval(shop, request, KeyRing(keys=((key_id, b"a guess" * 5),)))

        await self._refused(shop, gateway, request)

    async def test_an_approval_of_another_request_is_not_an_approval_of_this(
        self, shop: Shop, gateway
    ):
        other = await approved(shop, "A205", "lan", customer="C002")
        await pay(shop, other)
        request = await shop.filed("A100")
        change_request(shop, request.id, WRITTEN_APPROVED)
        attack(
            shop.url,
            (
                "UPDATE refund_decisions SET request_id = ? WHERE request_id = ?",
                (request.id, other.id),
            ),
        )

        await self._refused(shop, gateway, request)

    async def _refused(self, shop: Shop, gateway, request: RefundRequest) -> None:
        for _ in range(3):  # ticks
            await shop.container.payouts().pay_due()
            await shop.container.payouts().reconcile()

        assert request.id not in {sent.request_id for sent in gateway.sent}
        assert (await shop.request(request.id)).status is S.APPROVED
        (event,) = await events(shop, "payout.refused")
        assert event.subject == request.id
        (task,) = await tasks(shop, "payout_refused")
        assert task.subject == request.id
        mismatches = await shop.read(lambda tx: tx.books.check())
        assert await problems(shop) + mismatches != ()

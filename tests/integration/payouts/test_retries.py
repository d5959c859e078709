"""Paying again what failed: all guards of filing once more, a new key, another person."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    IllegalTransition,
    PaymentOutcomeUnknown,
    RecordChanged,
    RefundRefused,
    RequestNotFound,
    SelfApproval,
)
from support_agent.domain.orders import OrderStatus
from support_agent.domain.people import Approver
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.payments import GatewayStatus
from support_agent.testing.gateway import Act
from tests.heart import (
    add_approver,
    approved,
    assert_sound,
    attempts,
    balance,
    change_approver,
    change_order,
    change_policy,
    change_policy_body,
    change_request,
    dispute,
    events,
    pay,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


async def failed(shop: Shop, gateway, order_id: str = "A100", **arguments) -> RefundRequest:
    """A request that the gateway declined; a person approved it where one had to."""
    gateway.will(Act.DECLINE)
    request = await shop.filed(order_id, **arguments)
    if request.status is S.PENDING_APPROVAL:
        await approve(shop, request, "lan")
        request = await pay(shop, request)
    assert request.status is S.FAILED
    return request


async def retry(shop: Shop, request: RefundRequest, name: str = "huong") -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.retries().retry(request.id, by=by)


async def approve(shop: Shop, request: RefundRequest, name: str) -> RefundRequest:
    return await shop.container.approvals().approve(request.id, by=await shop.approver(name))


async def refused(shop: Shop, request: RefundRequest, **wanted) -> RefundRefused:
    """The refusal of a retry, which left everything as it was."""
    with pytest.raises(RefundRefused) as caught:
        await retry(shop, request)
    assert await shop.request(request.id) == request
    assert (await balance(shop, request.order_id))[0] == 0
    return caught.value


class TestRetried:
    async def test_it_waits_for_a_person_in_a_new_round_with_its_reserve(self, shop, gateway):
        before = await failed(shop, gateway)
        shop.clock.advance(timedelta(hours=5))

        again = await retry(shop, before)

        assert again == await shop.request(before.id)
        assert (again.status, again.round) == (S.PENDING_APPROVAL, before.round + 1)
        assert (again.attempt_no, again.attempt_at) == (2, None)
        assert again.expires_at == before.expires_at + timedelta(hours=5)
        assert again.due_at == before.due_at + timedelta(hours=5)
        assert again.requester == before.requester
        assert Reason.RETRIED in again.reasons
        assert again.retried_by == "P-HUONG"
        assert await balance(shop) == (250_000, 0)
        event = (await events(shop, "refund.pending_approval"))[-1]
        assert (event.actor.id, event.data["reason"]) == ("huong", "RETRIED")
        await assert_sound(shop)

    async def test_it_is_paid_once_with_a_new_key(self, shop, gateway):
        again = await retry(shop, await failed(shop, gateway))
        await approve(shop, again, "lan")

        paid = await pay(shop, again)

        assert paid.status is S.REFUNDED
        assert [sent.key[-1] for sent in gateway.sent] == ["1", "2"]
        assert [refund.amount_minor for refund in gateway.refunds] == [250_000]
        assert [attempt.number for attempt in await attempts(shop, again)] == [1, 2]
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)

    async def test_it_can_fail_and_be_asked_for_again(self, shop, gateway):
        request = await failed(shop, gateway)
        for number in (2, 3):
            gateway.will(Act.FAIL)
            again = await retry(shop, request)
            await approve(shop, again, "lan")
            request = await pay(shop, again)
            assert (request.status, request.attempt_no) == (S.FAILED, number)
        await assert_sound(shop)

    async def test_one_that_failed_late_too(self, shop, gateway):
        """Cases row 12: what was paid comes back, and is paid again once."""
        request = await pay(shop, await approved(shop))
        gateway.settle(f"refund:{request.id}:1", GatewayStatus.FAILED)
        await shop.container.gateway_refunds().compare()
        request = await shop.request(request.id)
        assert (request.status, await balance(shop)) == (S.FAILED, (0, 0))

        again = await retry(shop, request)
        await approve(shop, again, "lan")

        assert (await pay(shop, again)).status is S.REFUNDED
        assert await balance(shop) == (0, 250_000)
        assert [refund.amount_minor for refund in gateway.refunds] == [250_000]
        await assert_sound(shop)

    async def test_what_was_automatic_is_decided_by_a_person(self, shop, gateway):
        gateway.will(Act.DECLINE)
        small = await shop.filed("A102")
        assert (small.status, small.required_level) == (S.FAILED, 0)

        again = await retry(shop, small)

        assert (again.status, again.required_level) == (S.PENDING_APPROVAL, 1)
        assert (await approve(shop, again, "lan")).status is S.APPROVED

    async def test_level_and_approvals_are_those_of_the_amount_as_it_is_now(self, shop, gateway):
        request = await failed(shop, gateway)
        await change_policy(
            shop, auto=100_000, levels=[200_000, 20_000_000], four_eyes_from=250_000
        )

        again = await retry(shop, request)

        assert (again.required_level, again.approvals_needed) == (2, 2)
        assert again.fingerprint != request.fingerprint
        await assert_sound(shop)

    async def test_the_window_that_ended_meanwhile_does_not_matter(self, shop, gateway):
        request = await failed(shop, gateway)
        shop.clock.advance(timedelta(days=40))

        assert (await retry(shop, request)).status is S.PENDING_APPROVAL

    async def test_a_failed_refund_leaves_the_order_delivered(self, shop, gateway):
        """Cases row 13."""
        await failed(shop, gateway)

        order = await shop.container.orders().get("A100")
        assert order.status is OrderStatus.DELIVERED


class TestAnotherPerson:
    async def test_who_asked_for_it_may_not_decide_it(self, shop, gateway):
        again = await retry(shop, await failed(shop, gateway), "huong")

        for decide in (shop.container.approvals().approve, shop.container.approvals().reject):
            with pytest.raises(SelfApproval):
                await decide(again.id, by=await shop.approver("huong"))
        assert (await approve(shop, again, "lan")).status is S.APPROVED

    async def test_persons_are_compared_and_not_names(self, shop, gateway):
        other = Approver(name="huong2", person_id="P-HUONG", level=2, limits={"VND": 20_000_000})
        await add_approver(shop, other)
        again = await retry(shop, await failed(shop, gateway), "huong2")

        with pytest.raises(SelfApproval):
            await approve(shop, again, "huong")

    async def test_who_approved_the_round_that_failed_may_ask_but_not_decide_again(
        self, shop, gateway
    ):
        again = await retry(shop, await failed(shop, gateway), "lan")

        with pytest.raises(SelfApproval):
            await approve(shop, again, "lan")

    async def test_hiding_who_asked_does_not_help(self, shop, gateway):
        again = await retry(shop, await failed(shop, gateway), "huong")
        change_request(shop, again.id, "retried_by = NULL")

        with pytest.raises(Exception, match="RECORD_CHANGED"):
            await approve(shop, again, "huong")

    async def test_one_who_is_disabled_may_not_ask(self, shop, gateway):
        request = await failed(shop, gateway)
        by = await shop.approver("huong")
        await change_approver(shop, "huong", disabled=True)

        with pytest.raises(ApproverDisabled):
            await shop.container.retries().retry(request.id, by=by)
        assert await shop.request(request.id) == request

    async def test_one_whose_row_was_changed_may_not_ask(self, shop, gateway):
        request = await failed(shop, gateway)
        by = await shop.approver("huong")
        await shop.write(
            lambda tx: tx.people.put(
                Approver(name="huong", person_id="P-HUONG", level=9, limits={"VND": 10**9})
            )
        )

        with pytest.raises(RecordChanged):
            await shop.container.retries().retry(request.id, by=by)


class TestRefused:
    async def test_an_unknown_one_is_not_found(self, shop):
        with pytest.raises(RequestNotFound):
            await shop.container.retries().retry("req_no", by=await shop.approver("huong"))

    async def test_only_failed_ones_are_retried(self, shop, gateway):
        request = await failed(shop, gateway)
        for status in set(RequestStatus) - {S.FAILED}:
            change_request(shop, request.id, f"status = '{status}'")
            before = await shop.request(request.id)

            with pytest.raises(IllegalTransition, match=status):
                await retry(shop, request)
            assert await shop.request(request.id) == before

    @pytest.mark.parametrize("act", [Act.LOSE_ANSWER, Act.HANG_AFTER])
    async def test_what_is_in_doubt_is_reconciled_and_not_sent_again(self, shop, gateway, act):
        """Cases rows 1 and 2: the answer is lost and somebody presses retry."""
        gateway.will(act)
        request = await shop.filed("A100", amount=100_000)
        assert request.status is S.IN_DOUBT

        with pytest.raises(IllegalTransition):
            await retry(shop, request)
        await shop.container.payouts().reconcile()

        assert (await shop.request(request.id)).status is S.REFUNDED
        assert [refund.amount_minor for refund in gateway.refunds] == [100_000]
        assert len(gateway.sent) == 1

    async def test_a_dispute_at_the_shop(self, shop, gateway):
        request = await failed(shop, gateway)
        await dispute(shop, "A100")

        assert (await refused(shop, request)).reason is Reason.DISPUTED

    async def test_a_dispute_at_the_gateway(self, shop, gateway):
        request = await failed(shop, gateway)
        gateway.dispute("led_A100_1")

        assert (await refused(shop, request)).reason is Reason.DISPUTED

    async def test_a_payment_of_another_account(self, shop, gateway):
        request = await failed(shop, gateway)
        gateway.move_to_account("led_A100_1", "somebody-else")

        assert (await refused(shop, request)).reason is Reason.PAYMENT_FROZEN

    async def test_an_order_of_another_customer(self, shop, gateway):
        request = await failed(shop, gateway)
        await change_order(shop, "A100", customer_id="C002")

        assert (await refused(shop, request)).reason is Reason.STATUS_UNKNOWN

    async def test_an_order_that_was_cancelled(self, shop, gateway):
        request = await failed(shop, gateway)
        await change_order(shop, "A100", status=OrderStatus.CANCELLED)

        assert (await refused(shop, request)).reason is Reason.ORDER_CANCELLED

    async def test_an_amount_above_what_any_approver_may_let_pass(self, shop, gateway):
        request = await failed(shop, gateway)
        await change_policy(shop, auto=100_000, levels=[200_000], four_eyes_from=None)

        assert (await refused(shop, request)).reason is Reason.ABOVE_POLICY_LIMIT

    async def test_an_amount_that_was_given_to_another_request(self, shop, gateway):
        request = await failed(shop, gateway, amount=200_000)
        await shop.filed("A100", amount=100_000)

        with pytest.raises(RefundRefused) as caught:
            await retry(shop, request)

        assert caught.value.reason is Reason.AMOUNT_TOO_HIGH
        assert "150.000" in str(caught.value)
        assert await balance(shop) == (0, 100_000)
        await assert_sound(shop)

    async def test_a_row_that_somebody_changed(self, shop, gateway):
        request = await failed(shop, gateway)
        change_request(shop, request.id, "destination = 'ledger:shop-main:mine'")
        request = await shop.request(request.id)

        assert (await refused(shop, request)).reason is Reason.RECORD_CHANGED

    async def test_a_gateway_that_does_not_answer(self, shop, gateway):
        request = await failed(shop, gateway)
        gateway.unreachable = True

        with pytest.raises(PaymentOutcomeUnknown):
            await retry(shop, request)
        assert await shop.request(request.id) == request


class TestPaidAfterAll:
    @pytest.mark.parametrize(
        "status",
        [s for s in GatewayStatus if s not in {GatewayStatus.FAILED, GatewayStatus.CANCELED}],
    )
    async def test_a_key_that_the_gateway_knows_as_paid_is_not_paid_again(
        self, shop, gateway, status
    ):
        gateway.will(Act.FAIL)
        request = await pay(shop, await approved(shop))
        gateway.settle(f"refund:{request.id}:1", status)

        assert (await refused(shop, request)).reason is Reason.PAID_AFTER_ALL
        with pytest.raises(RefundRefused):
            await retry(shop, request)

        [task] = await tasks(shop, "paid_after_all")
        assert task.subject == request.id
        assert len(gateway.sent) == 1

    async def test_nor_is_money_that_our_books_do_not_explain(self, shop, gateway):
        request = await failed(shop, gateway)
        gateway.refund_outside("led_A100_1", 1)

        assert (await refused(shop, request)).reason is Reason.PAID_AFTER_ALL


async def test_of_two_at_once_the_second_learns_that_it_is_done(shop, gateway):
    request = await failed(shop, gateway, amount=50_000)

    results = await asyncio.gather(
        retry(shop, request, "huong"), retry(shop, request, "tuan"), return_exceptions=True
    )

    [done] = [result for result in results if isinstance(result, RefundRequest)]
    [late] = [result for result in results if not isinstance(result, RefundRequest)]
    assert isinstance(late, AlreadyDecided | IllegalTransition)
    assert (await shop.request(request.id)) == done
    assert await balance(shop) == (50_000, 0)
    await assert_sound(shop)


class TestWhatOthersTookMeanwhile:
    """A failed request holds nothing, so others were filed as if it were not there."""

    async def test_no_more_units_than_came_back(self, shop, gateway):
        await change_policy_body(shop, return_required=True)  # two of three came back
        before = await failed(shop, gateway, "A610", customer="C005", lines=units("A610-1", 1))
        other = await shop.filed("A610", customer="C005", lines=units("A610-1", 2))
        assert other.status is S.REFUNDED

        assert (await refused(shop, before)).reason is Reason.RETURN_NOT_RECEIVED

    async def test_a_promotion_that_is_lost_by_now_is_taken_off(self, shop, gateway):
        order = await shop.container.orders().get("A609")
        one_more = replace(order.lines[1], id="A609-4")
        paid = replace(order.payments[0], captured_minor=126_000)
        await change_order(shop, "A609", lines=(*order.lines, one_more), payments=(paid,))
        before = await failed(shop, gateway, "A609", customer="C005", lines=units("A609-2", 1))
        other = await shop.filed("A609", customer="C005", lines=units("A609-4", 1))
        assert (before.amount_minor, other.amount_minor) == (36_000, 36_000)
        assert other.status is S.REFUNDED

        assert (await refused(shop, before)).reason is Reason.AMOUNT_TOO_HIGH

    async def test_what_still_fits_is_retried(self, shop, gateway):
        await change_policy_body(shop, return_required=True)
        before = await failed(shop, gateway, "A610", customer="C005", lines=units("A610-1", 1))
        await shop.filed("A610", customer="C005", lines=units("A610-1", 1))

        assert (await retry(shop, before)).status is S.PENDING_APPROVAL


def units(line_id: str, quantity: int) -> list[dict[str, object]]:
    return [{"line_id": line_id, "quantity": quantity}]


async def test_what_one_of_two_payments_still_owes_is_asked_for_again_or_retried(shop, gateway):
    """The units stand with the part that was paid: nothing more has to come back for the other."""
    await change_policy_body(shop, return_required=True)
    order = await shop.container.orders().get("A605")
    lamps = replace(order.lines[0], quantity=3, unit_price_minor=150_000, received_units=2)
    await change_order(shop, "A605", lines=(lamps, replace(order.lines[1], received_units=0)))
    quoted = await shop.quote("A605", customer="C006", lines=units("A605-1", 2))
    parts = (await shop.answer(quoted, customer="C006")).requests
    whole, rest = sorted(parts, key=lambda part: -part.lines[0].units)
    assert [part.lines[0].units for part in (whole, rest)] == [2, 0]
    await approve(shop, whole, "lan")
    assert (await pay(shop, whole)).status is S.REFUNDED
    gateway.will(Act.DECLINE)
    rest = await pay(shop, rest)

    asked = await shop.quote("A605", customer="C006")
    assert [q.lines[0].line_id for q in asked.quotes] == ["A605-1"]
    assert sum(q.amount_minor for q in asked.quotes) == rest.amount_minor
    assert (await retry(shop, rest)).status is S.PENDING_APPROVAL

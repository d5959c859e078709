"""What a customer hears of a request after the turn that filed it: each change once, and it leaves."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest

from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import SwitchName
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import (
    add_destination,
    approved,
    change_approver,
    notices,
    operator,
    pay,
    sample_shop,
)
from tests.kit import Shop, open_shop
from tests.moved_time import MovedTime, open_shop_in
from tests.outgoing import Approvers, Customers, Outside, later, open_outside

S = RequestStatus
GOES_BEFORE_EXPIRY = timedelta(days=30)


@pytest.fixture
async def outside(shop_url: str, gateway, time) -> AsyncIterator[Outside]:
    customers, approvers = Customers(), Approvers()
    parts = {
        "gateway": gateway,
        "customer_channels": {"cli": customers},
        "approver_channel": approvers,
    }
    payments = {"timeout_seconds": 0.25}
    async with open_shop_in(time, shop_url, overrides=parts, payments=payments) as opened:
        yield Outside(opened, customers, approvers)


async def approve(shop: Shop, request: RefundRequest, *by: str) -> None:
    """As the command does: decide, then pay at once."""
    for name in by or ("lan",):
        await shop.container.approvals().approve(request.id, by=await shop.approver(name))
    await shop.container.payouts().pay_group(request.id)


async def pause(shop: Shop, *, on: bool) -> None:
    board = shop.container.switchboard()
    await shop.write(lambda tx: board.turn(tx, SwitchName.PAYOUTS, on=on, by=operator("op")))


async def decided_and_paid(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    request = await shop.filed("A100")
    await approve(shop, request)
    return request


async def rejected(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    request = await shop.filed("A100")
    await shop.container.approvals().reject(request.id, by=await shop.approver())
    return request


async def expired(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    request = await shop.filed("A100")
    shop.clock.advance(GOES_BEFORE_EXPIRY)
    await shop.container.life().expire_due(shop.container.database())
    return request


async def approved_and_expired(
    shop: Shop, gateway: GatewaySimulator, time: MovedTime
) -> RefundRequest:
    request = await approved(shop)
    shop.clock.advance(GOES_BEFORE_EXPIRY)
    await shop.container.life().expire_due(shop.container.database())
    return request


async def paid_by_the_sweep(
    shop: Shop, gateway: GatewaySimulator, time: MovedTime
) -> RefundRequest:
    request = await approved(shop)
    await shop.container.payouts().pay_due()
    return request


async def failed(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    gateway.will(Act.DECLINE)
    return await decided_and_paid(shop, gateway, time)


async def failed_late(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    request = await decided_and_paid(shop, gateway, time)
    gateway.fail_late(gateway.refunds[-1].provider_refund_id)
    time.advance(timedelta(days=10))
    await shop.container.payouts().reconcile()
    return request


async def in_doubt(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    gateway.will(Act.LOSE_ANSWER)
    return await decided_and_paid(shop, gateway, time)


async def in_doubt_and_found(
    shop: Shop, gateway: GatewaySimulator, time: MovedTime
) -> RefundRequest:
    request = await in_doubt(shop, gateway, time)
    time.advance(timedelta(minutes=10))
    await shop.container.payouts().reconcile()
    return request


async def by_hand(shop: Shop, gateway: GatewaySimulator, time: MovedTime) -> RefundRequest:
    await add_destination(shop)
    request = await shop.filed("A602", customer="C006")
    await approve(shop, request)
    huong = await shop.approver("huong")
    resolve = shop.container.resolutions().resolve
    await resolve(request.id, paid=True, evidence="FT26287000123", by=huong)
    return request


async def cancelled_by_staff(
    shop: Shop, gateway: GatewaySimulator, time: MovedTime
) -> RefundRequest:
    request = await shop.filed("A100")
    life = shop.container.life()
    await shop.write(lambda tx: life.cancel_for_shop(tx, request.id, by=operator("thu")))
    return request


PAID = "Đã hoàn"
Way = Callable[[Shop, GatewaySimulator, MovedTime], Awaitable[RefundRequest]]
WAYS: list[tuple[Way, tuple[str, ...]]] = [
    (decided_and_paid, (PAID,)),
    (rejected, ("không được duyệt",)),
    (expired, ("đã hết hạn chờ",)),
    (approved_and_expired, ("đã hết hạn chờ",)),
    (paid_by_the_sweep, (PAID,)),
    (failed, ("không thực hiện được",)),
    (failed_late, (PAID, "đã báo là xong nhưng sau đó")),
    (in_doubt, ("chưa xác định được kết quả",)),
    (in_doubt_and_found, ("chưa xác định được kết quả", PAID)),
    (by_hand, ("đang được nhân viên xử lý bằng tay", PAID)),
    (cancelled_by_staff, ("đã được huỷ",)),
]


@pytest.mark.parametrize(("way", "told"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_each_change_is_told_once_and_leaves_once(
    outside: Outside, gateway, time, way: Way, told: tuple[str, ...]
):
    request = await way(outside.shop, gateway, time)

    await outside.all_out()

    assert len(outside.customers.texts) == len(told)
    for text, words in zip(outside.customers.texts, told, strict=True):
        assert words in text
        assert request.id in text
    assert request.conversation_id is not None
    assert outside.customers.texts == await notices(outside.shop, request.conversation_id)
    assert {sent.external_contact for sent in outside.customers.sent} == {request.customer_id}


class TestApprovedAndNotPaid:
    async def test_an_approval_that_cannot_be_paid_yet_is_told_and_then_the_payment(
        self, outside: Outside
    ):
        shop = outside.shop
        request = await shop.filed("A100")
        await pause(shop, on=False)
        await approve(shop, request)

        await outside.deliver()
        assert outside.customers.texts == []  # it may be paid in a moment
        await outside.all_out()
        [told] = outside.customers.texts
        assert "đã được duyệt và sẽ được chi trả" in told

        await pause(shop, on=True)
        await shop.container.payouts().pay_due()
        await outside.all_out()
        assert PAID in outside.customers.texts[1]
        assert len(outside.customers.texts) == 2

    async def test_so_is_one_whose_payment_the_gateway_has_not_taken(
        self, outside: Outside, gateway
    ):
        gateway.will(Act.BUSY)
        request = await outside.shop.filed("A100")
        await approve(outside.shop, request)
        assert (await outside.shop.request(request.id)).status is S.PAYING

        await outside.all_out()

        [told] = outside.customers.texts
        assert "đang được chi trả" in told

    async def test_one_that_is_approved_again_meanwhile_is_told_once(self, outside: Outside):
        shop = outside.shop
        request = await approved(shop)
        await change_approver(shop, "lan", disabled=True)
        assert (await pay(shop, request)).status is S.PENDING_APPROVAL
        await shop.container.approvals().approve(request.id, by=await shop.approver("huong"))

        await outside.all_out()

        [told] = outside.customers.texts
        assert "sẽ được chi trả" in told

    async def test_two_workers_tell_of_it_once(self, outside: Outside, shop_url: str):
        shop = outside.shop
        await approved(shop)
        await outside.deliver()  # looks, and puts it off
        async with open_shop(shop_url) as other:
            await later(shop)
            await shop.container.delivery().run()
            await other.container.delivery().run()

        await outside.all_out()
        assert len(outside.customers.texts) == 1


class TestWhoIsTold:
    async def test_a_customer_who_writes_english_is_told_in_english(self, outside: Outside):
        shop = outside.shop
        call = {"tool": "quote_refund", "arguments": {"order_id": "A100"}}
        quoted = await shop.say(
            "I would like a refund for order A100, please", call, {"answer": "Do you agree?"}
        )
        request = (await shop.answer(quoted, "yes, please")).requests[0]

        await approve(shop, request)
        await outside.all_out()

        [told] = outside.customers.sent
        assert told.language == "en"
        assert f"has been refunded for order A100 to the card that paid ({request.id})" in told.text

    async def test_the_process_that_filed_it_may_be_gone(self, shop_url: str):
        async with open_shop(shop_url) as shop:
            request = await shop.filed("A100")

        customers = Customers()
        async with open_outside(shop_url, customers=customers) as outside:
            await approve(outside.shop, request)
            await outside.all_out()

        [told] = customers.texts
        assert PAID in told

    async def test_while_one_is_decided_the_customer_goes_on_talking(self, outside: Outside):
        shop = outside.shop
        request = await shop.filed("A100")
        talk = request.conversation_id

        during = await shop.say("Đơn A102 đâu rồi?", {"answer": "Đang giao."}, conversation=talk)
        await shop.container.approvals().reject(request.id, by=await shop.approver())
        after = await shop.say("Cảm ơn", {"answer": "Vâng."}, conversation=talk)

        assert (during.stop_reason, after.stop_reason) == ("answered", "answered")
        [told] = await notices(shop, talk)
        assert "không được duyệt" in told
        shown = [str(turn) for turn in shop.model.requests[-1].turns]
        assert any("không được duyệt" in turn for turn in shown)

    async def test_parts_of_one_refund_that_are_rejected_together_are_one_message(
        self, outside: Outside
    ):
        shop = outside.shop
        request = await shop.filed("A605", customer="C006")
        await shop.container.approvals().reject(request.id, by=await shop.approver("huong"))

        await outside.all_out()

        [told] = outside.customers.texts
        assert "600.000" in told

    async def test_so_are_parts_that_are_approved_together_and_cannot_be_paid_yet(
        self, outside: Outside
    ):
        shop = outside.shop
        request = await shop.filed("A605", customer="C006")
        await pause(shop, on=False)
        await approve(shop, request)

        await outside.all_out()

        [told] = outside.customers.texts
        assert "600.000" in told
        assert "sẽ được chi trả" in told

    @pytest.mark.parametrize("waits", [0, 1])
    async def test_of_a_part_that_cannot_be_paid_yet_it_is_told_beside_the_one_that_is(
        self, outside: Outside, gateway, waits: int
    ):
        shop = outside.shop
        request = await shop.filed("A605", customer="C006")
        members = await shop.read(lambda tx: tx.requests.of_group(request.group_id))
        state = gateway.payment_state

        async def silent_about_one(payment):
            if payment.gateway_payment_id == members[waits].gateway_payment_id:
                raise PaymentOutcomeUnknown("reset")
            return await state(payment)

        gateway.payment_state = silent_about_one
        with pytest.raises(PaymentOutcomeUnknown):
            await approve(shop, request, "huong")

        await outside.all_out()

        paid, will_be = outside.customers.texts
        assert PAID in paid
        assert members[1 - waits].id in paid
        assert "sẽ được chi trả" in will_be
        assert members[waits].id in will_be


class TestApprovers:
    async def test_they_are_told_of_a_request_that_waits_once(self, outside: Outside):
        request = await outside.shop.filed("A100")

        await outside.all_out()

        [told] = outside.approvers.told
        assert (told.request_id, told.order_id) == (request.id, "A100")
        assert (told.amount_minor, told.currency) == (250_000, "VND")
        assert (told.required_level, told.escalations) == (1, 0)
        assert told.due_at == request.due_at

    async def test_and_again_when_it_is_escalated(self, outside: Outside):
        request = await outside.shop.filed("A100")
        await outside.all_out()
        outside.shop.clock.set(request.due_at + timedelta(seconds=1))

        await outside.shop.container.escalations().run()
        await outside.all_out()

        first, second = outside.approvers.told
        assert (second.request_id, second.required_level, second.escalations) == (request.id, 2, 1)
        assert first.id != second.id

    async def test_what_was_escalated_before_they_heard_is_told_as_it_is(self, outside: Outside):
        request = await outside.shop.filed("A100")
        outside.shop.clock.set(request.due_at + timedelta(seconds=1))
        await outside.shop.container.escalations().run()

        await outside.all_out()

        [told] = outside.approvers.told
        assert told.escalations == 1

    async def test_one_that_was_decided_meanwhile_is_nobodys(self, outside: Outside, gateway, time):
        await rejected(outside.shop, gateway, time)

        await outside.all_out()

        assert outside.approvers.told == []

    async def test_one_that_pays_itself_is_nobodys(self, outside: Outside):
        await outside.shop.filed("A102")

        await outside.all_out()

        assert outside.approvers.told == []

    async def test_one_whose_customer_was_asked_waits_for_the_answer(self, outside: Outside):
        shop = outside.shop
        request = await shop.filed("A100")
        await shop.container.approvals().ask(
            request.id, question="Hàng bị lỗi gì?", by=await shop.approver()
        )

        await outside.all_out()

        assert outside.approvers.told == []
        assert outside.customers.texts == ["Hàng bị lỗi gì?"]

    async def test_one_that_comes_back_from_paying_is_told_again(self, outside: Outside, gateway):
        shop = outside.shop
        request = await approved(shop)
        await outside.all_out()
        [payment] = next(o for o in sample_shop().orders if o.id == "A100").payments
        gateway.refund_outside(payment.gateway_payment_id, 100_000)

        assert (await pay(shop, request)).status is S.PENDING_APPROVAL
        await outside.all_out()

        assert outside.approvers.told[-1].request_id == request.id
        assert len(outside.approvers.told) == 1

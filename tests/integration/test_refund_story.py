"""The A100 story, from question to money, on a real database."""

from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import RunStatus, StopReason
from support_agent.services.audit import verify
from tests.kit import Shop


async def test_a100_is_quoted_filed_approved_and_paid_once(shop_on_each: Shop):
    shop = shop_on_each
    quoted = await shop.quote("A100")
    assert quoted.stop_reason is StopReason.ASKED_CUSTOMER
    assert quoted.status is RunStatus.WAITING_CUSTOMER
    assert "250.000\u00a0₫" in quoted.answer

    filed = await shop.answer(quoted, "đồng ý")
    request = filed.requests[0]
    assert request.status is RequestStatus.PENDING_APPROVAL
    assert request.required_level == 1

    by = await shop.approver("lan")
    await shop.container.approvals().approve(request.id, by=by)
    paid = await shop.container.payouts().pay(request.id)
    assert paid.status is RequestStatus.REFUNDED

    again = await shop.quote("A100")
    assert again.quotes == ()
    assert "ALREADY_REFUNDED" in again.steps[0].calls[0].observation.content
    assert await shop.read(lambda tx: tx.books.check()) == ()
    report = await shop.read(lambda tx: verify(tx, shop.container.keys()))
    assert report.problems == ()


async def test_a_small_order_is_paid_at_once_after_a_yes(shop_on_each: Shop):
    shop = shop_on_each
    request = await shop.filed("A102")

    assert request.status is RequestStatus.REFUNDED
    assert request.required_level == 0

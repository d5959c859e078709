"""The desk on SQLite and on PostgreSQL: amendments that overlap, and the sums of the report."""

import asyncio
from collections import Counter
from datetime import timedelta

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from tests.heart import asker, assert_sound, books_of, change_policy, operator
from tests.kit import Shop

S = RequestStatus


async def outcome(work) -> str:
    """The status something came to, or the code it was refused with."""
    try:
        return (await work).status
    except SupportAgentError as error:
        return error.code


async def test_of_many_reductions_of_one_version_one_counts(shop_on_each: Shop):
    shop = shop_on_each
    request = await shop.filed("A100")
    by = [await shop.approver(name) for name in ("lan", "minh", "huong", "tuan")]
    desk = shop.container.approvals()

    ended = await asyncio.gather(
        *(
            outcome(desk.reduce(request.id, amount_minor=1_000 * n, by=who, expect=1))
            for n, who in enumerate(by, 1)
        )
    )

    assert Counter(ended) == {S.PENDING_APPROVAL: 1, "STALE": 3}
    lower = await shop.request(request.id)
    assert (lower.version, lower.round) == (2, 2)
    assert (await books_of(shop, "A100")).taken_minor == lower.amount_minor
    await assert_sound(shop)


async def test_amending_approving_escalating_and_cancelling_at_once_leave_one_truth(
    shop_on_each: Shop,
):
    """Whoever comes first wins; the books, the history and the row agree whoever that was."""
    shop = shop_on_each
    desk, life = shop.container.approvals(), shop.container.life()
    requests = [await shop.filed("A100"), await shop.filed("A205", customer="C002")]
    shop.clock.set(requests[0].due_at + timedelta(seconds=1))
    huong, tuan = await shop.approver("huong"), await shop.approver("tuan")

    async def escalate() -> None:
        await shop.container.escalations().run()

    async def take_back(request) -> str:
        who = asker(request.customer_id, request.conversation_id)
        return await outcome(shop.write(lambda tx: life.cancel(tx, request.id, who)))

    await asyncio.gather(
        *(
            work
            for request in requests
            for work in (
                outcome(desk.approve(request.id, by=huong, expect=1)),
                outcome(desk.reduce(request.id, amount_minor=1_000, by=tuan, expect=1)),
                outcome(desk.ask(request.id, question="Ảnh đâu?", by=tuan)),
                take_back(request),
                escalate(),
            )
        )
    )

    for request in requests:
        now = await shop.request(request.id)
        held = (await books_of(shop, request.order_id)).taken_minor
        assert held == (0 if now.status is S.CANCELLED else now.amount_minor)
    await assert_sound(shop)


async def test_the_pair_cap_lets_only_so_many_at_once_pass(shop_on_each: Shop):
    shop = shop_on_each
    await change_policy(shop, per_pair_day=500_000)
    requests = [
        await shop.filed("A400", customer="C004", amount=amount)
        for amount in (250_000, 250_000, 250_000)
    ]
    by = await shop.approver("lan")

    ended = await asyncio.gather(
        *(outcome(shop.container.approvals().approve(r.id, by=by)) for r in requests)
    )

    assert Counter(ended) == {S.APPROVED: 2, "DECISION_REFUSED": 1}
    await assert_sound(shop)


async def test_the_report_adds_up_the_same(shop_on_each: Shop):
    shop = shop_on_each
    await shop.container.destinations().add(
        "C006", "VCB", "0123456789", "NGUYEN VAN A", by=operator("thu")
    )
    requests = [await shop.filed("A602", customer="C006"), await shop.filed("A100")]
    huong = await shop.approver("huong")
    for request in requests:
        await shop.container.approvals().approve(request.id, by=huong)
        await shop.container.payouts().pay(request.id)

    found = await shop.container.reporting().desk(days=1)

    (approver,) = found.approvers
    assert (approver.decided, approver.approved, approver.paid) == (2, 2, 1)
    assert (approver.approved_minor, approver.paid_minor) == (430_000, 250_000)
    assert {(pair.subject, pair.customer_id) for pair in found.pairs} == {
        ("huong", "C001"),
        ("huong", "C006"),
    }
    assert [t.subject for t in found.destinations] == [
        "ledger:shop-main:led_A100_1",
        "VCB ••••6789",
    ]

"""Transactions side by side in one process, on SQLite and on PostgreSQL, where they really overlap."""

import asyncio
from collections import Counter

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.people import Approver
from support_agent.domain.refunds import RequestStatus
from tests.heart import add_approver, asker, assert_sound, books_of, notices, requests_of
from tests.kit import Shop

S = RequestStatus


async def outcome(work) -> str:
    """The status something came to, or the code it was refused with."""
    try:
        return (await work).status
    except SupportAgentError as error:
        return error.code


async def test_two_first_decisions_of_four_eyes_are_two(shop_on_each: Shop):
    shop = shop_on_each
    request = await shop.filed("A303", customer="C003")
    by = [await shop.approver(name) for name in ("huong", "tuan")]

    await asyncio.gather(*(shop.container.approvals().approve(request.id, by=who) for who in by))

    assert (await shop.request(request.id)).status is S.APPROVED
    await assert_sound(shop)


async def test_eight_approvers_make_one_decision_and_one_payout(shop_on_each: Shop):
    shop = shop_on_each
    request = await shop.filed("A100")
    names = [f"approver{number}" for number in range(8)]
    for name in names:
        limits = {"VND": 2_000_000}
        await add_approver(shop, Approver(name=name, person_id=name, level=1, limits=limits))

    async def decide(name: str):
        by = await shop.approver(name)
        await shop.container.approvals().approve(request.id, by=by)
        return await shop.container.payouts().pay(request.id)

    outcomes = Counter(await asyncio.gather(*(outcome(decide(name)) for name in names)))

    assert outcomes == {"ALREADY_DECIDED": 7, S.REFUNDED: 1}
    assert len(await shop.read(lambda tx: tx.decisions.of(request.id))) == 1
    assert len(await notices(shop, request.conversation_id)) == 1
    await assert_sound(shop)


async def test_of_ten_filings_six_are_automatic_and_four_wait(shop_on_each: Shop):
    shop = shop_on_each
    order = await shop.container.orders().get("A401")
    quoted = [await shop.quote("A401", customer="C004", amount=30_000) for _ in range(10)]
    for one in quoted:
        await shop.say("đồng ý", customer="C004", conversation=one.conversation_id)

    async def file(one):
        who = asker("C004", one.conversation_id)
        request = await shop.container.database().transact(
            lambda tx: shop.container.filing().file(
                tx, quote_id=one.quotes[0].id, order=order, asker=who
            )
        )
        return await shop.container.payouts().pay(request.id)

    outcomes = Counter(await asyncio.gather(*(outcome(file(one)) for one in quoted)))

    assert outcomes == {S.REFUNDED: 6, S.PENDING_APPROVAL: 4}
    (payment,) = (await books_of(shop, "A401")).payments
    assert (payment.refunded_minor, payment.reserved_minor) == (180_000, 120_000)
    await assert_sound(shop)


async def test_of_those_who_end_a_request_at_once_one_wins(shop_on_each: Shop):
    shop = shop_on_each
    requests = [await shop.filed("A205", customer="C002", amount=200_001)]
    requests += [await shop.filed("A400", customer="C004", amount=a) for a in (210_000, 220_000)]
    by = await shop.approver("lan")
    life, approvals = shop.container.life(), shop.container.approvals()

    for request in requests:
        who = asker(request.customer_id, request.conversation_id)
        outcomes = await asyncio.gather(
            outcome(approvals.approve(request.id, by=by)),
            outcome(approvals.reject(request.id, by=by)),
            outcome(shop.write(lambda tx, r=request, w=who: life.cancel(tx, r.id, w))),
        )
        # What was approved may still be cancelled; nothing else follows an end.
        ended = {o for o in outcomes if o in set(S)}
        assert len(ended - {S.APPROVED}) <= 1
        assert (await shop.request(request.id)).status in ended
    assert len(await requests_of(shop)) == 3
    await assert_sound(shop)

"""Transactions side by side in one process, on SQLite and on PostgreSQL, where they really overlap."""

import asyncio
import threading
import time
from collections import Counter
from datetime import timedelta

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.people import Approver
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import CapKey, CapScope
from support_agent.services.notices import Notices
from support_agent.services.refunds import RefundLife
from tests.heart import (
    add_approver,
    asker,
    assert_sound,
    books_of,
    file,
    notices,
    operator,
    requests_of,
)
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
        (request,) = await shop.container.database().transact(
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
        assert set(outcomes) <= {*S, "ALREADY_DECIDED"}
        ended = {o for o in outcomes if o in set(S)}
        assert len(ended - {S.APPROVED}) <= 1
        assert (await shop.request(request.id)).status in ended
    assert len(await requests_of(shop)) == 3
    await assert_sound(shop)


async def test_the_same_approver_many_times_at_once_decides_once(shop_on_each: Shop):
    """Two windows, or a double click: the others learn that it is decided, or who else has to."""
    shop = shop_on_each
    by = await shop.approver("huong")
    approve = shop.container.approvals().approve
    four_eyes = await shop.filed("A303", customer="C003")
    small = await shop.filed("A400", customer="C004", amount=210_000)
    for request, status, refused in (
        (small, S.APPROVED, "ALREADY_DECIDED"),
        (four_eyes, S.PENDING_APPROVAL, "SECOND_PERSON_NEEDED"),
    ):
        outcomes = Counter(
            await asyncio.gather(*(outcome(approve(request.id, by=by)) for _ in range(4)))
        )

        assert outcomes == {status: 1, refused: 3}
        assert len(await shop.read(lambda tx, r=request: tx.decisions.of(r.id))) == 1
    await assert_sound(shop)


async def test_a_yes_and_a_no_of_one_person_at_once_are_one_decision(shop_on_each: Shop):
    shop = shop_on_each
    by, approvals = await shop.approver("huong"), shop.container.approvals()
    for order_id, customer in (("A100", "C001"), ("A303", "C003"), ("A205", "C002")):
        request = await shop.filed(order_id, customer=customer)

        outcomes = Counter(
            await asyncio.gather(
                *(
                    outcome(decide(request.id, by=by))
                    for decide in (approvals.approve, approvals.reject) * 2
                )
            )
        )

        waits = (await shop.request(request.id)).status is S.PENDING_APPROVAL
        refused = ("ALREADY_DECIDED", *(("SECOND_PERSON_NEEDED",) if waits else ()))
        assert sum(outcomes[code] for code in refused) == 3
        assert len(await shop.read(lambda tx, r=request: tx.decisions.of(r.id))) == 1
    await assert_sound(shop)


async def test_a_first_approval_and_a_cancellation_at_once_leave_no_cap_counted(
    shop_on_each: Shop,
):
    shop = shop_on_each
    request = await shop.filed("A303", customer="C003")
    by, who = await shop.approver("huong"), asker("C003", request.conversation_id)
    life = shop.container.life()

    outcomes = await asyncio.gather(
        outcome(shop.container.approvals().approve(request.id, by=by)),
        outcome(shop.write(lambda tx: life.cancel(tx, request.id, who))),
    )

    assert outcomes[1] == S.CANCELLED
    day = shop.clock.now().astimezone(shop.container.terms().zone).date()
    cap = CapKey(scope=CapScope.APPROVER, subject="P-HUONG", day=day, currency="VND")
    assert await shop.read(lambda tx: tx.books.cap_used(cap, since=day)) == 0
    await assert_sound(shop)


class Slow(Notices):
    """Stays a while in the first transaction that told the customer something."""

    told = False

    def tell(self, tx, before, moved) -> None:
        super().tell(tx, before, moved)
        first, self.told = not self.told, True
        if first:
            self.inside.set()
            time.sleep(0.3)  # the other gets as far as it can

    def __init__(self, *, clock) -> None:
        super().__init__(clock=clock, books_only=False)
        self.inside = threading.Event()


async def test_expiry_and_a_cancellation_in_one_conversation_do_not_lock_each_other_out(
    shop_on_each: Shop,
):
    """Expiry tells the customer of the first while the shop cancels the second, told there too."""
    shop = shop_on_each
    first = await shop.filed("A400", customer="C004", amount=300_000)
    quoted = await shop.quote("A401", customer="C004", conversation=first.conversation_id)
    second = (await file(shop, quoted, customer="C004")).requests[0]
    assert second.conversation_id == first.conversation_id
    shop.clock.advance(timedelta(days=4))
    life = RefundLife(clock=shop.clock, books_only=False)
    life._notices = slow = Slow(clock=shop.clock)

    async def cancel() -> str:
        await asyncio.to_thread(slow.inside.wait, 5)
        by = operator("op")
        return await outcome(
            shop.write(lambda tx: shop.container.life().cancel_for_shop(tx, second.id, by=by))
        )

    expired, cancelled = await asyncio.gather(life.expire_due(shop.container.database()), cancel())

    assert first.id in {request.id for request in expired}
    assert {cancelled, (await shop.request(second.id)).status} <= {
        S.CANCELLED,
        S.EXPIRED,
        "ALREADY_DECIDED",
    }
    await assert_sound(shop)

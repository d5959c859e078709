"""Groups under transactions that overlap: whoever ends one ends all of it, or none."""

import asyncio
from collections import Counter

from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from tests.heart import asker, assert_sound, balance, operator, requests_of
from tests.kit import Shop

S = RequestStatus
SPLIT, OWNER, TOTAL = "A605", "C006", 600_000


async def outcome(work) -> object:
    """What something came to, or the code it was refused with."""
    try:
        return await work
    except SupportAgentError as error:
        return error.code


async def test_the_same_offer_filed_by_many_at_once_is_filed_once(shop_on_each: Shop):
    shop = shop_on_each
    quoted = await shop.quote(SPLIT, customer=OWNER)
    await shop.say("đồng ý", customer=OWNER, conversation=quoted.conversation_id)
    order = await shop.container.orders().get(SPLIT)
    who = asker(OWNER, quoted.conversation_id)

    def file(number: int):
        member = quoted.quotes[number % 2].id
        return shop.write(
            lambda tx: shop.container.filing().file(tx, quote_id=member, order=order, asker=who)
        )

    outcomes = await asyncio.gather(*(outcome(file(number)) for number in range(8)))

    requests = [o for o in outcomes if isinstance(o, tuple)]
    assert requests
    assert len({tuple(r.id for r in group) for group in requests}) == 1
    assert {o for o in outcomes if isinstance(o, str)} <= {"REFUND_REFUSED", "CONFLICT"}
    assert len(await requests_of(shop)) == 2
    assert await balance(shop, SPLIT) == (TOTAL, 0)
    await assert_sound(shop)


async def test_of_those_who_end_a_group_at_once_one_ends_all_of_it(shop_on_each: Shop):
    shop = shop_on_each
    life, approvals = shop.container.life(), shop.container.approvals()
    by, shop_hand = await shop.approver("lan"), operator("owner")
    for _ in range(4):
        one, other = (
            await shop.answer(await shop.quote(SPLIT, customer=OWNER), customer=OWNER)
        ).requests
        who = asker(OWNER, one.conversation_id)

        outcomes = await asyncio.gather(
            outcome(approvals.reject(other.id, by=by)),
            outcome(shop.write(lambda tx, r=one, w=who: life.cancel(tx, r.id, w))),
            outcome(shop.write(lambda tx, r=other: life.cancel_for_shop(tx, r.id, by=shop_hand))),
        )

        refused = Counter(o for o in outcomes if isinstance(o, str))
        assert refused == {"ALREADY_DECIDED": 2}
        ended = {(await shop.request(request.id)).status for request in (one, other)}
        assert len(ended) == 1
        assert ended <= {S.REJECTED, S.CANCELLED}
        assert await balance(shop, SPLIT) == (0, 0)
    await assert_sound(shop)


async def test_parts_paid_at_once_are_each_paid_once(shop_on_each: Shop):
    shop = shop_on_each
    requests = (await shop.answer(await shop.quote(SPLIT, customer=OWNER), customer=OWNER)).requests
    await shop.container.approvals().approve(requests[0].id, by=await shop.approver("lan"))

    await asyncio.gather(
        *(shop.container.payouts().pay(request.id) for request in requests for _ in range(3))
    )

    assert {(await shop.request(request.id)).status for request in requests} == {S.REFUNDED}
    assert await balance(shop, SPLIT) == (0, TOTAL)
    await assert_sound(shop)

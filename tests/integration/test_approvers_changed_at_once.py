"""Two who change one approver at the same moment: neither change is lost."""

import asyncio

from tests.api_kit import HOST
from tests.heart import problems
from tests.kit import Shop


async def test_who_is_switched_off_while_limits_change_stays_off(shop_on_each: Shop):
    approvers = shop_on_each.container.approvers()
    for number in range(10):
        await approvers.set_disabled("lan", disabled=False, by=HOST)
        limit = 3_000_000 + number

        await asyncio.gather(
            approvers.set_limits("lan", {"VND": limit}, by=HOST),
            approvers.set_disabled("lan", disabled=True, by=HOST),
        )

        lan = await shop_on_each.read(lambda tx: tx.people.get("lan"))
        assert lan is not None
        assert (lan.disabled, lan.limits["VND"]) == (True, limit)
    assert await problems(shop_on_each) == ()

"""Two who change one key at the same moment: what was revoked stays revoked."""

import asyncio
from datetime import timedelta

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.errors import Conflict, KeyRefused
from tests.api_kit import HOST
from tests.heart import problems
from tests.kit import Shop

DAY = timedelta(hours=24)


async def test_a_key_that_is_revoked_while_it_is_rotated_opens_nothing(shop_on_each: Shop):
    keys = shop_on_each.container.api_keys()
    for number in range(10):
        key, text = await keys.create(
            name=f"web{number}", scopes=frozenset({Scope.TASKS_READ}), by=HOST
        )

        rotated, revoked = await asyncio.gather(
            keys.rotate(key.id, overlap=DAY, by=HOST),
            keys.revoke(key.id, by=HOST),
            return_exceptions=True,
        )

        assert not isinstance(revoked, BaseException)
        assert isinstance(rotated, Conflict | tuple)  # whichever came first
        with pytest.raises(KeyRefused):
            await keys.authenticate(text)
    assert await problems(shop_on_each) == ()

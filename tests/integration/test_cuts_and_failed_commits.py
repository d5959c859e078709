"""A cut whose commit failed is stored with the next one."""

from typing import Any

import pytest

from support_agent.domain.errors import DatabaseUnavailable
from tests.agent_kit import FunctionModel, open_agent, rows, take

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}
TIGHT = {"history": SMALL, "limits": {"max_steps": 40, "max_identical_calls": 40}}
LOOKUP = ("lookup_order", '{"order_id":"A100"}')


async def test_a_cut_whose_commit_failed_is_stored_with_the_end_of_the_run(shop_url: str):
    failed: list[bool] = []
    async with open_agent(shop_url, model=FunctionModel(lambda _: [LOOKUP]), **TIGHT) as shop:
        database = shop.container.database()
        transact, views = database.transact, shop.container.views()
        keep = views.keep

        def kept(tx: Any, state: Any) -> None:
            due = state.shown.is_due
            keep(tx, state)
            if due and not failed:
                failed.append(True)
                raise DatabaseUnavailable("gone for a moment")

        views.keep = kept
        with pytest.raises(DatabaseUnavailable):
            await take(shop, "Đơn A100 của tôi sao rồi?")
        assert database.transact == transact

    assert failed
    assert rows(shop_url, "SELECT number FROM compactions") == [(1,)]

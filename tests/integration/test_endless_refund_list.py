"""A list of refunds that goes round in circles ends all the same."""

import asyncio
import json
from itertools import count

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.services import gateway_refunds
from support_agent.testing.fault_proxy import HttpReply, HttpRequest, json_reply
from tests.heart import pay
from tests.integration.test_refund_endpoint_story import opened

S = RequestStatus


@pytest.mark.parametrize("always_new", [False, True], ids=["same rows", "new rows"])
async def test_it_ends(shop_url, always_new, monkeypatch):
    monkeypatch.setattr(gateway_refunds, "LONGEST_S", 0.5)
    async with opened(shop_url) as story:
        request = await story.approved()
        assert (await pay(story.shop, request)).status is S.REFUNDED
        real, pages = story.endpoint.endpoint, count()

        async def round_and_round(asked: HttpRequest) -> HttpReply:
            if json.loads(asked.body)["operation"] != "list":
                return await real(asked)
            page = next(pages)
            (row,) = real.refunds
            if always_new:  # failed ones of somebody else: nothing to take in
                row = {**row, "id": f"RF-x{page}", "key": None, "status": "failed"}
            return json_reply({"refunds": [row], "next_cursor": f"page-{page}"})

        story.endpoint.endpoint = round_and_round
        async with asyncio.timeout(10):
            await story.reconcile()

        assert always_new or next(pages) == 2

"""Mounted under a path with letters that no header holds."""

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.api_kit import opened_api
from tests.queue_kit import Gate


async def test_where_the_run_is_can_be_followed(shop_url):
    async with opened_api(shop_url) as api:
        who = await api.customer()
        api.shop.model.model = Gate()
        outer = Starlette(routes=[Mount("/hỗ-trợ", app=api.app)])
        transport = httpx2.ASGITransport(app=outer, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
            taken = await client.post(
                "/hỗ-trợ/v1/conversations", json={"text": "Chào"}, headers=who
            )
            assert taken.status_code == 202, taken.text
            found = await client.get(taken.headers["location"], headers=who)

    assert found.status_code == 200

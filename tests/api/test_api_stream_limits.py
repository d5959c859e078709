"""What bounds streams: how many there may be, and how long a customer's token lasts."""

import asyncio
import time

import httpx2

from support_agent.api.events import TalkPlace, TalkStory
from support_agent.api.streams import Heard, Watch
from tests.api_kit import opened_api
from tests.queue_kit import Gate
from tests.sse_kit import open_streams, served


async def test_those_that_open_at_once_are_counted_too(shop_url):
    async with opened_api(shop_url, api={"max_streams": 3}) as api, served(api.app) as address:
        who = await api.customer()
        api.shop.model.model = Gate()
        taken = await api.client.post("/v1/conversations", json={"text": "Chào"}, headers=who)
        path = f"/v1/conversations/{taken.json()['conversation_id']}/events"
        async with httpx2.AsyncClient(base_url=address) as client:
            asked = [client.build_request("GET", path, headers=who) for _ in range(20)]
            answers = await asyncio.gather(*(client.send(one, stream=True) for one in asked))
            held = open_streams(api)
            for answer in answers:
                await answer.aclose()

    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [503] * 17
    assert held == 3


async def test_a_token_ends_however_much_there_is_to_tell():
    watch = Watch(TalkStory("con_1", TalkPlace()), key_id="key_1", until_s=time.monotonic() - 1)
    watch.news.set()

    assert await watch.wait(1) is Heard.END
    assert watch.has_ended

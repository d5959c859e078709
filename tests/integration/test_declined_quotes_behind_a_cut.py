"""A quote that the customer said no to is not told of as open."""

import json

from support_agent.ports.model import Recap
from tests.kit import open_shop

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}
CHAT = "Cho mình hỏi thêm một chút về cách bảo quản áo sơ mi linen khi giặt máy nhé shop. "


async def test_a_quote_that_was_declined_is_not_held_up_as_open_behind_a_cut(shop_url: str):
    async with open_shop(shop_url, history=SMALL) as shop:
        quoted = await shop.quote("A100")
        await shop.say("không", conversation=quoted.conversation_id)
        for number in range(8):
            await shop.say(f"{number}. {CHAT}", conversation=quoted.conversation_id)
        first = shop.model.requests[-1].turns[0]

    assert isinstance(first, Recap)
    assert "quotes" not in json.loads(first.facts)

"""An owner that was overtaken stores no cut over the living one's."""

import asyncio
from typing import Any

from tests.agent_kit import FunctionModel, change, open_agent, rows, take

SMALL = {"high_water_tokens": 400, "low_water_tokens": 200}
TIGHT = {"history": SMALL, "limits": {"max_steps": 40, "max_identical_calls": 40}}
CHAT = "Cho mình hỏi thêm một chút về cách bảo quản áo sơ mi linen khi giặt máy nhé shop. "
LOOKUP = ("lookup_order", '{"order_id":"A100"}')


async def waits(gate: asyncio.Event, there: asyncio.Event) -> None:
    there.set()
    await asyncio.wait_for(gate.wait(), 30)


async def test_a_cut_of_an_overtaken_owner_does_not_displace_the_living_ones(shop_url: str):
    go_late, late_waits, go_living, living_waits = (asyncio.Event() for _ in range(4))

    async def loiter(request: Any) -> Any:
        if request.step == 8:
            await waits(go_late, late_waits)
        return [LOOKUP]

    async def answer(_: Any) -> str:
        await waits(go_living, living_waits)
        return "Dạ."

    late, living = FunctionModel(loiter), FunctionModel(answer)
    async with (
        open_agent(shop_url, model=late, **TIGHT) as one,
        open_agent(shop_url, model=living, **TIGHT) as other,
    ):
        overtaken = asyncio.ensure_future(take(one, "Đơn A100 của tôi sao rồi?"))
        await asyncio.wait_for(late_waits.wait(), 30)
        ((conversation,),) = rows(shop_url, "SELECT id FROM conversations")
        change(shop_url, "UPDATE conversations SET lease_until = 1")
        turn = asyncio.ensure_future(take(other, CHAT, conversation=conversation))
        await asyncio.wait_for(living_waits.wait(), 30)
        go_late.set()  # whatever it decides now, and wherever it cuts, is refused
        go_living.set()
        answered, _ = await asyncio.gather(overtaken, turn)

    assert answered.answer == "Dạ."
    # The late one cut, as the sixth time, before it decided; of that nothing is stored.
    kinds = rows(
        shop_url, "SELECT kind FROM steps WHERE run_id = ? ORDER BY number", answered.run_id
    )
    assert [kind for (kind,) in kinds] == ["call_tools"] * 7 + ["final_answer"]
    cuts = rows(shop_url, "SELECT number, digested_run_id FROM compactions ORDER BY number")
    assert [number for number, _ in cuts] == [*range(1, len(cuts) + 1)]
    assert living.requests[0].turns == late.requests[-1].turns  # each made the same of the same

"""Conversations take turns: who writes again at once goes to the end of the line."""

from tests.queue_kit import PROCRASTINATE, Gate, answered, eventually, open_with, post, working


async def test_who_writes_again_waits_for_those_who_came_before(queue_url):
    gate = Gate(is_open=False)
    async with open_with(queue_url, gate, queue=PROCRASTINATE | {"concurrency": 1}) as shop:
        first, other = await post(shop), await post(shop, customer="C002")
        async with working(shop.container):
            await eventually(lambda: gate.waiting)
            await post(shop, "Còn một câu nữa", conversation=first.conversation_id)
            gate.open.set()
            await eventually(lambda: answered(shop, first.conversation_id, times=2))

    order = [request.conversation_id for request in gate.asked]
    assert order == [first.conversation_id, other.conversation_id, first.conversation_id]

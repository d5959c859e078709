"""A turn that fails is no reason not to answer what was written while it ran."""

from support_agent.domain.errors import ConfigurationError
from tests.api_kit import opened_api
from tests.queue_kit import Gate, eventually


class Fails(Gate):
    """The first time it is asked."""

    async def decide(self, request):
        reply = await super().decide(request)
        if len(self.asked) == 1:
            raise ConfigurationError("no such model")
        return reply


async def test_what_came_meanwhile_is_answered_without_a_worker(shop_url):
    async with opened_api(shop_url) as api:
        who, gate = await api.customer(), Fails(is_open=False)
        api.shop.model.model = gate
        begun = await api.client.post("/v1/conversations", json={"text": "Chào"}, headers=who)
        here = f"/v1/conversations/{begun.json()['conversation_id']}/messages"
        await eventually(lambda: gate.waiting)
        await api.client.post(here, json={"text": "Alo?"}, headers=who)
        gate.open.set()

        async def answers():
            messages = (await api.client.get(here, headers=who)).json()["data"]
            return [m["text"] for m in messages if m["author"] == "agent"][1:]

        assert await eventually(answers, within_s=5) == ["Vâng."]

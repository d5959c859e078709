"""What is left of a yes when the turn that would have acted on it was called off."""

import pytest

from support_agent.domain.access import Scope
from tests.api_kit import opened_api
from tests.queue_kit import Gate, eventually

WAIT = {"Prefer": "wait=20"}
YES = "đồng ý"


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


async def turn(api, who, here, text, *script):
    api.shop.model.play(*script)
    path = f"/v1/conversations/{here}/messages" if here else "/v1/conversations"
    response = await api.client.post(path, json={"text": text}, headers={**who, **WAIT})
    assert response.status_code == 200, response.text
    return response.json()


async def called_off(api, who):
    """A quote under the automatic limit, and the run of the yes to it, called off."""
    quote = {"tool": "quote_refund", "arguments": {"order_id": "A103"}}
    asked = await turn(api, who, None, "hoàn A103", quote, {"answer": "Bạn đồng ý không?"})
    here, (offer,) = asked["conversation_id"], asked["quotes"]
    api.shop.model.model = gate = Gate(is_open=False)
    path = f"/v1/conversations/{here}/messages"
    begun = (await api.client.post(path, json={"text": YES}, headers=who)).json()
    await eventually(lambda: gate.waiting)
    await api.client.post(f"/v1/runs/{begun['run_id']}/cancel", headers=who)
    await eventually(lambda: not gate.waiting)
    return here, begun["run_id"], filing(offer["id"])


def filing(quote_id):
    call = {"tool": "request_refund", "arguments": {"quote_id": quote_id}}
    return [call, {"answer": "Vâng ạ."}]


@pytest.mark.parametrize("text", ["ok", "vâng", "thôi để sau đã"])
async def test_what_is_said_to_the_apology_is_no_yes_and_a_new_one_is(api, text):
    who = await api.customer()
    here, _, script = await called_off(api, who)
    after = await turn(api, who, here, text, *script)
    again = await turn(api, who, here, YES, *script)

    assert [step["ok"] for step in after["steps"]] == [False]
    assert "Đã hoàn" not in after["answer"]
    assert after["quotes"]
    assert [step["ok"] for step in again["steps"]] == [True]
    assert "Đã hoàn" in again["answer"]


async def test_staff_that_resumes_it_says_no_yes_for_the_customer(api):
    who = await api.customer()
    _, run_id, script = await called_off(api, who)
    api.shop.model.play(*script)
    staff = await api.staff(Scope.RUNS_MANAGE, Scope.CONVERSATIONS_READ)
    await api.client.post(f"/v1/runs/{run_id}/resume", headers=staff)

    async def ended():
        run = (await api.client.get(f"/v1/runs/{run_id}", headers=staff)).json()
        return run if run["status"] != "running" else None

    run = await eventually(ended)
    assert "Đã hoàn" not in run["answer"]
    assert run["quotes"]

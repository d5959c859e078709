"""Runs as the API shows them: how they stand, their steps, and calling them off or on again."""

import pytest

from support_agent.domain.access import Scope
from tests.api_kit import customer_token, opened_api
from tests.queue_kit import Gate, eventually

WAIT = {"Prefer": "wait=20"}
HELLO = "Chào shop, đơn A100 của mình đến đâu rồi?"


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


def is_problem(response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text


async def taken(api, who, text=HELLO):
    response = await api.client.post("/v1/conversations", json={"text": text}, headers=who)
    assert response.status_code == 202, response.text
    return response.json()


async def running(api, who, gate):
    """A run that waits for its model."""
    api.shop.model.model = gate
    begun = await taken(api, who)
    await eventually(lambda: gate.waiting)
    return begun


async def run_of(api, who, run_id):
    response = await api.client.get(f"/v1/runs/{run_id}", headers=who)
    assert response.status_code == 200, response.text
    return response.json()


async def ended(api, who, run_id):
    async def look():
        run = await run_of(api, who, run_id)
        return run if run["status"] != "running" else None

    return await eventually(look)


async def test_the_models_own_words_are_for_staff_only(api):
    api.shop.model.play(
        {
            "tool": "lookup_order",
            "arguments": {"order_id": "A100"},
            "thought": "Xem đơn đã.",
        },
        {"answer": "Đơn A100 đã giao, xem http://evil.example/x", "thought": "Xong rồi."},
    )
    who = await api.customer()
    response = await api.client.post(
        "/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT}
    )
    address = f"/v1/runs/{response.json()['run_id']}/steps"
    own = await api.client.get(address, headers=who)
    staff = await api.client.get(address, headers=await api.staff(Scope.CONVERSATIONS_READ))

    assert [step["kind"] for step in own.json()["data"]] == ["call", "answer"]
    assert [step["thought"] for step in own.json()["data"]] == [None, None]
    assert "evil.example" not in own.text + response.text
    assert [step["thought"] for step in staff.json()["data"]] == ["Xem đơn đã.", "Xong rồi."]
    assert "evil.example" in staff.json()["data"][1]["text"]
    (call,) = own.json()["data"][0]["calls"]
    assert (call["tool"], call["arguments"], call["ok"]) == (
        "lookup_order",
        {"order_id": "A100"},
        True,
    )


@pytest.mark.parametrize(
    "raw",
    ["{" * 5_000, '{"order_id": "\\ud800"}', '{"order_id": NaN}', '{"a":' * 300 + "1" + "}" * 300],
)
async def test_whatever_a_model_passes_to_a_tool_can_be_shown(api, raw):
    api.shop.model.play(
        {"tool": "lookup_order", "raw_arguments": raw}, {"answer": "Không tìm thấy ạ."}
    )
    who = await api.customer()
    response = await api.client.post(
        "/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT}
    )
    shown = await api.client.get(f"/v1/runs/{response.json()['run_id']}/steps", headers=who)

    assert (response.status_code, shown.status_code) == (200, 200)
    assert shown.json()["data"][0]["calls"][0]["arguments"] == raw


async def test_what_is_anothers_is_not_there(api):
    who = await api.customer()
    gate = Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]
    other = {**who, "Support-Agent-Customer-Token": customer_token("C002")}

    for part in ("", "/steps", "/events"):
        found = await api.client.get(f"/v1/runs/{run_id}{part}", headers=other)
        is_problem(found, 404, "RUN_NOT_FOUND")
    for part in ("/cancel", "/resume"):
        done = await api.client.post(f"/v1/runs/{run_id}{part}", headers=other)
        is_problem(done, 404, "RUN_NOT_FOUND")
    denied = await api.shop.read(
        lambda tx: [row.event for row in tx.audit.rows() if row.event.action == "access.denied"]
    )
    assert [event.subject for event in denied] == [run_id] * 5
    gate.open.set()
    assert (await ended(api, who, run_id))["status"] == "done"


async def test_a_customer_calls_off_their_own_run_and_it_can_go_on_again(api):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]

    cancelled = await api.client.post(f"/v1/runs/{run_id}/cancel", headers=who)
    await eventually(lambda: not gate.waiting)  # at once, and not when the model is done
    again = await api.client.post(f"/v1/runs/{run_id}/cancel", headers=who)
    gate.open.set()
    resumed = await api.client.post(f"/v1/runs/{run_id}/resume", headers=who)
    run = await ended(api, who, run_id)

    assert cancelled.status_code == 200
    assert (cancelled.json()["status"], cancelled.json()["stop_reason"]) == ("stopped", "cancelled")
    assert cancelled.json()["answer"]
    is_problem(again, 409, "RUN_ENDED")
    assert (resumed.status_code, resumed.json()["status"]) == (202, "running")
    assert (run["status"], run["answer"]) == ("done", "Vâng.")
    nothing = await api.client.post(f"/v1/runs/{run_id}/resume", headers=who)
    is_problem(nothing, 409, "CONFLICT")


async def test_staff_needs_the_scope_and_is_who_resumed_it(api):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]
    reading = await api.staff(Scope.CONVERSATIONS_READ)
    managing = await api.staff(Scope.RUNS_MANAGE, name="desk")
    approver = await api.staff(
        Scope.RUNS_MANAGE, Scope.APPROVALS_DECIDE, name="desk-minh", approver="minh"
    )

    refused = await api.client.post(f"/v1/runs/{run_id}/cancel", headers=reading)
    done = await api.client.post(f"/v1/runs/{run_id}/cancel", headers=managing)
    await eventually(lambda: not gate.waiting)
    gate.open.set()
    await api.client.post(f"/v1/runs/{run_id}/resume", headers=managing)
    first = await ended(api, who, run_id)
    gate.open.clear()
    second = (await running(api, who, gate))["run_id"]
    await api.client.post(f"/v1/runs/{second}/cancel", headers=managing)
    await eventually(lambda: not gate.waiting)
    gate.open.set()
    await api.client.post(f"/v1/runs/{second}/resume", headers=approver)

    is_problem(refused, 403, "SCOPE_MISSING")
    assert done.status_code == 200
    assert first["operator"] == "desk"
    assert (await ended(api, who, second))["operator"] == "minh"


async def test_the_shops_backend_says_who_resumed_a_run_for_the_customer(api):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]
    await api.client.post(f"/v1/runs/{run_id}/cancel", headers=who)
    await eventually(lambda: not gate.waiting)
    gate.open.set()

    await api.client.post(f"/v1/runs/{run_id}/resume", headers=who, json={"operator": "lan"})

    assert (await ended(api, who, run_id))["operator"] == "lan"


async def test_a_run_that_goes_on_is_not_resumed(api):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]
    response = await api.client.post(f"/v1/runs/{run_id}/resume", headers=who)
    gate.open.set()

    assert response.json()["code"] == "RUN_BUSY"
    assert response.status_code == 409
    assert (await ended(api, who, run_id))["status"] == "done"


async def test_that_a_run_goes_on_is_not_answered_again_once_it_does_not(api):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await running(api, who, gate))["run_id"]
    resume = {"url": f"/v1/runs/{run_id}/resume", "headers": who | {"Idempotency-Key": "k1"}}
    busy = await api.client.post(**resume)
    await api.client.post(f"/v1/runs/{run_id}/cancel", headers=who)
    await eventually(lambda: not gate.waiting)
    gate.open.set()

    again = await api.client.post(**resume)

    assert busy.json()["code"] == "RUN_BUSY"
    assert again.status_code == 202, again.text


async def test_what_was_written_during_a_run_that_is_called_off_is_answered(api):
    who, gate = await api.customer(), Gate(is_open=False)
    begun = await running(api, who, gate)
    here = f"/v1/conversations/{begun['conversation_id']}/messages"
    waiting = await api.client.post(here, json={"text": "Alo?"}, headers=who)
    await api.client.post(f"/v1/runs/{begun['run_id']}/cancel", headers=who)
    gate.open.set()

    async def answers():
        messages = (await api.client.get(here, headers=who)).json()["data"]
        return [m["text"] for m in messages if m["author"] == "agent"][1:]

    assert waiting.json()["run_id"] is None
    assert await eventually(answers) == ["Vâng."]

"""Who resumed a run is its operator, and stays one when somebody else resumes it after them."""

from support_agent.domain.access import Scope
from tests.api_kit import opened_api
from tests.queue_kit import Gate, eventually

WAIT = {"Prefer": "wait=20"}


async def test_an_earlier_operator_does_not_decide_either(shop_url):
    async with opened_api(shop_url) as api:
        who = await api.customer()
        quote = {"tool": "quote_refund", "arguments": {"order_id": "A100"}}
        api.shop.model.play(quote, {"answer": "Bạn đồng ý không?"})
        asked = await api.client.post(
            "/v1/conversations", json={"text": "hoàn A100"}, headers={**who, **WAIT}
        )
        (offer,) = asked.json()["quotes"]
        api.shop.model.model = gate = Gate(is_open=False)
        path = f"/v1/conversations/{asked.json()['conversation_id']}/messages"
        begun = await api.client.post(path, json={"text": "đồng ý"}, headers=who)
        run = f"/v1/runs/{begun.json()['run_id']}"
        scopes = (Scope.RUNS_MANAGE, Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE)
        lan = await api.staff(*scopes, name="desk-lan", approver="lan")
        desk = await api.staff(Scope.RUNS_MANAGE, Scope.CONVERSATIONS_READ, name="desk")
        await eventually(lambda: gate.waiting)
        await api.client.post(f"{run}/cancel", headers=lan)
        await eventually(lambda: not gate.waiting)
        await api.client.post(f"{run}/resume", headers=lan)
        await eventually(lambda: gate.waiting)
        await api.client.post(f"{run}/cancel", headers=desk)
        await eventually(lambda: not gate.waiting)
        call = {"tool": "request_refund", "arguments": {"quote_id": offer["id"]}}
        api.shop.model.play(call, {"answer": "Xong."})
        await api.client.post(f"{run}/resume", headers=desk)

        async def pending():
            return (await api.client.get(run, headers=desk)).json()["pending_approvals"]

        (request,) = await eventually(pending)
        seen = await api.client.get(f"/v1/approvals/{request}", headers=lan)
        decided = await api.client.post(
            f"/v1/approvals/{request}/decision",
            json={"decision": "approve"},
            headers={**lan, "If-Match": seen.headers["etag"]},
        )

    assert (decided.status_code, decided.json().get("code")) == (403, "SELF_APPROVAL")

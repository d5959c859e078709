"""A shop's backend talks to the agent for its customers: messages in, answers out."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import SelfApproval
from tests.api_kit import HOST, customer_token, opened_api
from tests.queue_kit import Gate, eventually
from tests.sse_kit import served

HELLO = "Chào shop, đơn A100 của mình đến đâu rồi?"
WAIT = {"Prefer": "wait=20"}


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        opened.shop.model.model = Gate()
        yield opened


def is_problem(response, status: int, code: str) -> None:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"


async def opened(api, who, text=HELLO, **more):
    """A conversation whose first message was answered."""
    response = await api.client.post(
        "/v1/conversations", json={"text": text, **more}, headers={**who, **WAIT}
    )
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_message_is_answered_while_the_client_waits(api):
    api.shop.model.play(
        {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
        {"answer": "Đơn A100 đã giao ạ."},
    )
    who = await api.customer()
    response = await api.client.post(
        "/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT}
    )

    turn = response.json()
    assert response.status_code == 200
    assert response.headers["preference-applied"] == "wait=20"
    assert "Đơn A100 đã giao ạ." in response.text  # real UTF-8
    assert (turn["status"], turn["stop_reason"]) == ("done", "answered")
    assert turn["answer"] == "Đơn A100 đã giao ạ."
    assert turn["message"]["seq"] == 1
    assert turn["usage"]["requests"] == 2
    step = turn["steps"][0]
    assert (step["n"], step["tool"], step["ok"]) == (1, "lookup_order", True)
    assert step["arguments"] == {"order_id": "A100"}


async def test_a_quote_and_what_waits_for_a_person_come_with_the_turn(api):
    who = await api.customer()
    api.shop.model.play(
        {"tool": "quote_refund", "arguments": {"order_id": "A100"}}, {"answer": "Bạn đồng ý không?"}
    )
    quoted = await opened(api, who, "Hoàn tiền đơn A100 giúp mình")
    api.shop.model.play(
        {"tool": "request_refund", "arguments": {"quote_id": quoted["quotes"][0]["id"]}},
        {"answer": "Xong."},
    )
    filed = await api.client.post(
        f"/v1/conversations/{quoted['conversation_id']}/messages",
        json={"text": "đồng ý"},
        headers={**who, **WAIT},
    )

    assert quoted["status"] == "waiting_customer"
    assert quoted["quotes"][0]["amount"] == {"amount_minor": 250000, "currency": "VND"}
    assert quoted["quotes"][0]["expires_at"].endswith("Z")
    (request_id,) = filed.json()["pending_approvals"]
    run = await api.client.get(f"/v1/runs/{filed.json()['run_id']}", headers=who)
    assert run.json()["pending_approvals"] == [request_id]
    assert run.json()["answer"] == filed.json()["answer"]


async def test_without_waiting_the_answer_is_found_later(shop_url):
    gate = Gate(is_open=False)
    async with opened_api(shop_url) as api:
        api.shop.model.model = gate
        who = await api.customer()
        response = await api.client.post("/v1/conversations", json={"text": HELLO}, headers=who)
        taken = response.json()
        running = await api.client.get(response.headers["location"], headers=who)
        gate.open.set()
        ended = await eventually(lambda: _ended(api, who, taken["run_id"]))

    assert response.status_code == 202
    assert response.headers["location"] == f"/v1/runs/{taken['run_id']}"
    assert "preference-applied" not in response.headers
    assert (taken["message"]["seq"], taken["message"]["text"]) == (1, HELLO)
    assert taken["run"]["status"] == "running"
    assert (running.json()["answer"], running.json()["stop_reason"]) == (None, None)
    assert ended["answer"] == "Vâng."


async def _ended(api, who, run_id):
    run = (await api.client.get(f"/v1/runs/{run_id}", headers=who)).json()
    return run if run["status"] != "running" else None


async def test_who_waited_for_as_long_as_is_allowed_is_told_where_to_look(shop_url):
    gate = Gate(is_open=False)
    async with opened_api(shop_url, api={"max_wait_seconds": 1}) as api:
        api.shop.model.model = gate
        who = await api.customer()
        response = await api.client.post(
            "/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT}
        )
        gate.open.set()

    assert response.status_code == 202
    assert response.headers["preference-applied"] == "wait=1"
    assert response.json()["run"]["status"] == "running"


async def test_a_preference_that_cannot_be_read_is_none(api):
    who = await api.customer()
    response = await api.client.post(
        "/v1/conversations", json={"text": HELLO}, headers={**who, "Prefer": "wait=soon"}
    )

    assert response.status_code == 202
    assert "preference-applied" not in response.headers


async def test_a_request_that_is_given_up_has_sent_its_message(shop_url):
    gate = Gate(is_open=False)
    async with opened_api(shop_url) as api:
        api.shop.model.model = gate
        who = await api.customer()
        asking = asyncio.create_task(
            api.client.post("/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT})
        )
        await eventually(lambda: gate.waiting)
        asking.cancel()
        await asyncio.wait([asking])
        gate.open.set()
        (conversation,) = (await api.client.get("/v1/conversations", headers=who)).json()["data"]

        async def answered():
            messages = await _messages(api, who, conversation["id"])
            return [m["author"] for m in messages] == ["customer", "agent"]

        assert await eventually(answered)


async def _messages(api, who, conversation_id, **params):
    response = await api.client.get(
        f"/v1/conversations/{conversation_id}/messages", headers=who, params=params
    )
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def test_what_is_written_while_a_turn_runs_is_answered_after_it(shop_url):
    gate = Gate(is_open=False)
    async with opened_api(shop_url) as api:
        api.shop.model.model = gate
        who = await api.customer()
        first = await api.client.post("/v1/conversations", json={"text": HELLO}, headers=who)
        here = f"/v1/conversations/{first.json()['conversation_id']}/messages"
        await eventually(lambda: gate.waiting)
        second = await api.client.post(here, json={"text": "Alo?"}, headers=who)
        waiting = asyncio.create_task(
            api.client.post(here, json={"text": "Alo alo?"}, headers={**who, **WAIT})
        )
        gate.open.set()
        third = await waiting

    assert (second.json()["run"], second.json()["run_id"]) == (None, None)
    assert second.headers["location"] == here
    assert third.status_code == 200
    assert third.json()["answer"] == "Vâng."
    assert third.json()["run_id"] != first.json()["run_id"]


async def test_a_message_that_is_sent_twice_is_one(api):
    who = await api.customer()
    first = await opened(api, who, message_id="m-1")
    again = await opened(api, who, "Một câu khác hẳn", message_id="m-1")

    assert again == first
    assert len(await _messages(api, who, first["conversation_id"])) == 2


async def test_the_idempotency_key_is_the_id_of_a_message_that_has_none(api):
    """Also when what was answered before is not kept any more, as after a crash."""
    who = {**await api.customer(), "Idempotency-Key": "k" * 255}
    first = await api.client.post("/v1/conversations", json={"text": HELLO}, headers=who)
    await api.shop.write(_forget_replies)
    again = await api.client.post("/v1/conversations", json={"text": HELLO}, headers=who)

    assert again.json()["conversation_id"] == first.json()["conversation_id"]
    assert again.json()["message"] == first.json()["message"]
    assert "idempotency-replayed" not in again.headers


async def test_the_same_idempotency_key_at_another_address_is_another_message(api):
    who = {**await api.customer(), "Idempotency-Key": "1"}
    here = (await opened(api, who))["conversation_id"]
    response = await api.client.post(
        f"/v1/conversations/{here}/messages", json={"text": "Hai"}, headers={**who, **WAIT}
    )

    assert response.json()["message"]["text"] == "Hai"


def _forget_replies(tx):
    tx.idempotency._connection.execute(sa.text("DELETE FROM idempotency_keys"))


async def test_messages_come_in_pages_in_their_order(api):
    who = await api.customer()
    here = (await opened(api, who))["conversation_id"]
    for text in ("Hai", "Ba"):
        await api.client.post(
            f"/v1/conversations/{here}/messages", json={"text": text}, headers={**who, **WAIT}
        )
    address, seen, cursor = f"/v1/conversations/{here}/messages", [], None
    while True:
        params = {"limit": 4} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get(address, headers=who, params=params)).json()
        seen.append([message["seq"] for message in page["data"]])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            break

    assert seen == [[1, 2, 3, 4], [5, 6]]
    wrong = await api.client.get(address, headers=who, params={"cursor": "x"})
    is_problem(wrong, 422, "INVALID_INPUT")


async def test_a_customer_lists_their_own_and_staff_all(api):
    lan = await api.customer("C001")
    minh = await api.customer("C002", name="app")
    mine = [(await opened(api, lan))["conversation_id"] for _ in range(3)]
    theirs = (await opened(api, minh, "Xin chào"))["conversation_id"]
    staff = await api.staff(Scope.CONVERSATIONS_READ)

    async def ids(who, **params):
        response = await api.client.get("/v1/conversations", headers=who, params=params)
        assert response.status_code == 200, response.text
        return [one["id"] for one in response.json()["data"]]

    assert await ids(lan) == mine[::-1]
    assert await ids(lan, limit=2) == mine[:0:-1]
    assert await ids(lan, limit=2, cursor=mine[1]) == mine[:1]
    assert await ids(staff) == [theirs, *mine[::-1]]
    assert await ids(staff, customer_id="C002") == [theirs]
    assert await ids(staff, handed_off=True) == []
    assert await ids(staff, customer_id="\0") == []
    assert await ids(lan, customer_id="C001") == mine[::-1]
    others = await api.client.get("/v1/conversations", headers=lan, params={"customer_id": "C002"})
    is_problem(others, 403, "NOT_THIS_CUSTOMER")
    wrong = await api.client.get("/v1/conversations", headers=lan, params={"cursor": theirs})
    is_problem(wrong, 422, "INVALID_INPUT")


async def test_a_conversation_says_what_it_is(api):
    who = await api.customer()
    here = (await opened(api, who))["conversation_id"]
    found = (await api.client.get(f"/v1/conversations/{here}", headers=who)).json()

    assert found == {
        "id": here,
        "channel": "api",
        "account": "web",
        "customer_id": "C001",
        "assurance": "verified",
        "language": "vi",
        "created_at": "2026-10-13T02:00:00Z",
        "handed_off": False,
        "last_seq": 2,
        "erased": False,
    }


READ = ("", "/messages", "/events")


async def test_what_is_anothers_is_not_there_and_leaves_an_audit_event(api):
    lan = await api.customer("C001")
    here = (await opened(api, lan))["conversation_id"]
    same_key = {**lan, "Support-Agent-Customer-Token": customer_token("C002")}
    other_contact = {**lan, "Support-Agent-Contact": "someone"}
    other_key = await api.customer("C001", name="app")
    unknown = await api.client.get("/v1/conversations/con_nothing", headers=lan)
    is_problem(unknown, 404, "CONVERSATION_NOT_FOUND")

    for who in (same_key, other_contact, other_key):
        for part in READ:
            found = await api.client.get(f"/v1/conversations/{here}{part}", headers=who)
            is_problem(found, 404, "CONVERSATION_NOT_FOUND")
        said = await api.client.post(
            f"/v1/conversations/{here}/messages", json={"text": "Xin chào"}, headers=who
        )
        is_problem(said, 404, "CONVERSATION_NOT_FOUND")

    denied = await api.shop.read(
        lambda tx: [row.event for row in tx.audit.rows() if row.event.action == "access.denied"]
    )
    assert len(denied) == 3 * (len(READ) + 1)
    assert {event.subject for event in denied} == {here}
    assert len(await _messages(api, lan, here)) == 2


@pytest.mark.parametrize("garbage", ["../x", "%00", "x" * 300, "🙂", "con_%0a"])
async def test_an_id_that_is_none_is_not_there(api, garbage):
    who = await api.customer()
    for address in (f"/v1/conversations/{garbage}/messages", f"/v1/runs/{garbage}"):
        response = await api.client.get(address, headers=who)
        assert response.status_code == 404, response.text


async def test_one_who_only_claims_to_be_the_customer_sees_nothing_of_what_was_proved(api):
    key = await api.key(
        Scope.CUSTOMERS_ACT, name="zalo", channel="zalo", account="oa_1",
        assurance=Assurance.CLAIMED,
    )  # fmt: skip
    bearer = {"Authorization": f"Bearer {key}"}
    proved = bearer | {"Support-Agent-Customer-Token": customer_token("C001")}
    claimed = bearer | {"Support-Agent-Customer": "C001"}
    turn = await opened(api, proved, message_id="m-1")
    here = turn["conversation_id"]

    for part in READ:
        found = await api.client.get(f"/v1/conversations/{here}{part}", headers=claimed)
        is_problem(found, 403, "IDENTITY_NOT_VERIFIED")
    run = await api.client.get(f"/v1/runs/{turn['run_id']}", headers=claimed)
    is_problem(run, 403, "IDENTITY_NOT_VERIFIED")
    again = await api.client.post(
        "/v1/conversations",
        json={"text": HELLO, "message_id": "m-1"},
        headers={**claimed, **WAIT},
    )
    is_problem(again, 403, "IDENTITY_NOT_VERIFIED")
    listed = await api.client.get("/v1/conversations", headers=claimed)
    assert listed.json()["data"] == []
    own = await opened(api, claimed)
    seen = await api.client.get(f"/v1/conversations/{own['conversation_id']}", headers=proved)
    assert seen.status_code == 200


async def test_an_erased_conversation_is_gone_for_its_customer_and_staff_sees_that(api):
    who = await api.customer()
    turn = await opened(api, who)
    here = turn["conversation_id"]
    await api.shop.container.privacy().erase("C001", by=HOST)
    staff = await api.staff(Scope.CONVERSATIONS_READ)

    for address in (
        *(f"/v1/conversations/{here}{part}" for part in READ),
        f"/v1/runs/{turn['run_id']}",
        f"/v1/runs/{turn['run_id']}/steps",
    ):
        assert (await api.client.get(address, headers=who)).status_code == 404
    said = await api.client.post(
        f"/v1/conversations/{here}/messages", json={"text": "Alo"}, headers=who
    )
    assert said.status_code == 404
    assert (await api.client.get("/v1/conversations", headers=who)).json()["data"] == []
    seen = (await api.client.get(f"/v1/conversations/{here}", headers=staff)).json()
    assert seen["erased"] is True


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "/text"),
        ({"text": ""}, "/text"),
        ({"text": "   "}, "/text"),
        ({"text": "x" * 4_001}, "/text"),
        ({"text": 5}, "/text"),
        ({"text": "Chào", "message_id": "a\nb"}, "/message_id"),
        ({"text": "Chào", "message_id": "m" * 201}, "/message_id"),
        ({"text": "Chào", "operator": "\x1b[2J"}, "/operator"),
        ({"text": "Chào", "now": "2020-01-01"}, "/now"),
    ],
)
async def test_a_message_that_is_none_changes_nothing(api, body, field):
    who = await api.customer()
    response = await api.client.post("/v1/conversations", json=body, headers=who)

    is_problem(response, 422, "INVALID_INPUT")
    assert response.json()["errors"][0]["pointer"] == field
    assert (await api.client.get("/v1/conversations", headers=who)).json()["data"] == []


async def test_a_customer_that_the_shop_does_not_know_is_not_there(api):
    who = await api.customer("C999")
    response = await api.client.post("/v1/conversations", json={"text": HELLO}, headers=who)

    is_problem(response, 404, "CUSTOMER_NOT_FOUND")


async def test_who_typed_for_the_customer_may_not_approve_what_comes_of_it(api):
    who = await api.customer()
    api.shop.model.play(
        {"tool": "quote_refund", "arguments": {"order_id": "A100"}}, {"answer": "Bạn đồng ý không?"}
    )
    quoted = await opened(api, who, "Hoàn tiền đơn A100", operator="lan")
    api.shop.model.play(
        {"tool": "request_refund", "arguments": {"quote_id": quoted["quotes"][0]["id"]}},
        {"answer": "Xong."},
    )
    filed = await api.client.post(
        f"/v1/conversations/{quoted['conversation_id']}/messages",
        json={"text": "đồng ý", "operator": "lan"},
        headers={**who, **WAIT},
    )
    (request_id,) = filed.json()["pending_approvals"]

    with pytest.raises(SelfApproval):
        await api.shop.container.approvals().approve(request_id, by=await api.shop.approver("lan"))


async def test_a_person_has_the_conversation_and_the_agent_says_nothing(api):
    who = await api.customer()
    here = (await opened(api, who))["conversation_id"]
    await api.shop.container.hand_off_desk().take(here, by=HOST)
    response = await api.client.post(
        f"/v1/conversations/{here}/messages", json={"text": "Alo"}, headers={**who, **WAIT}
    )
    staff = await api.staff(Scope.CONVERSATIONS_READ)
    listed = await api.client.get("/v1/conversations", headers=staff, params={"handed_off": True})

    assert response.status_code == 200
    assert (response.json()["answer"], response.json()["status"]) == ("", "handed_off")
    assert [one["id"] for one in listed.json()["data"]] == [here]


async def test_a_process_that_stops_lets_a_waiting_client_go_and_the_turn_is_left(shop_url):
    gate = Gate(is_open=False)
    async with opened_api(shop_url, queue={"shutdown_seconds": 0.1}) as api:
        api.shop.model.model = gate
        who = await api.customer()
        waiting = asyncio.create_task(
            api.client.post("/v1/conversations", json={"text": HELLO}, headers={**who, **WAIT})
        )
        await eventually(lambda: gate.waiting)
        await api.app.state.background.aclose()
        response = await waiting
    async with opened_api(shop_url) as api:
        api.shop.model.model = Gate()
        here = response.json()["conversation_id"]
        await api.shop.container.agent().work(here)
        run = (await api.client.get(response.headers["location"], headers=who)).json()

    assert response.status_code == 202
    assert (run["status"], run["answer"]) == ("done", "Vâng.")


async def test_a_client_that_goes_away_is_not_waited_for(shop_url):
    """Over a real socket, where nobody tells the request itself."""
    gate = Gate(is_open=False)
    async with opened_api(shop_url) as api, served(api.app) as address:
        api.shop.model.model = gate
        who = await api.customer()
        at, body = urlsplit(address), json.dumps({"text": HELLO}).encode()
        head = ["POST /v1/conversations HTTP/1.1", "Host: api", "Content-Type: application/json"]
        head += [f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in {**who, **WAIT}.items())]
        _, writer = await asyncio.open_connection(at.hostname, at.port)
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        await eventually(lambda: gate.waiting)
        under_way = api.app.state.metrics.under_way
        assert _value(under_way) == 1
        writer.transport.abort()
        await eventually(lambda: _value(under_way) == 0)
        gate.open.set()

        async def answered():
            (one,) = (await api.client.get("/v1/conversations", headers=who)).json()["data"]
            return one["last_seq"] == 2

        assert await eventually(answered)


def _value(gauge):
    return gauge.collect()[0].samples[0].value

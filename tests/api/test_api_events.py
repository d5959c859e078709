"""Events over real sockets: in order, each once, and behind the last one that arrived."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Author
from tests.api_kit import HOST, customer_token, opened_api
from tests.kit import TODAY
from tests.queue_kit import Gate, eventually
from tests.sse_kit import heard, open_streams, reading, served

WAIT = {"Prefer": "wait=20"}
FAST = {"stream_poll_seconds": 0.05}
LOOKS_TWICE = (
    {
        "calls": [
            {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
            {"tool": "lookup_order", "arguments": {"order_id": "A101"}},
        ],
        "thought": "Xem cả hai.",
    },
    {"tool": "refund_policy", "arguments": {}},
    {"answer": "Đơn A100 đã giao ạ."},
)
OF_THE_RUN = ["step", "observation", "observation", "step", "observation", "step", "done"]


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url, api=FAST) as opened:
        opened.shop.model.model = Gate()
        yield opened


@pytest.fixture
async def address(api):
    async with served(api.app) as found:
        yield found


async def turn(api, who, *script, here=None, text="Chào shop"):
    if script:
        api.shop.model.play(*script)
    path = "/v1/conversations" if here is None else f"/v1/conversations/{here}/messages"
    response = await api.client.post(path, json={"text": text}, headers={**who, **WAIT})
    assert response.status_code == 200, response.text
    return response.json()


async def begun(api, who, gate):
    """A run that waits for its model."""
    api.shop.model.model = gate
    response = await api.client.post("/v1/conversations", json={"text": "Chào"}, headers=who)
    await eventually(lambda: gate.waiting)
    return response.json()


async def test_a_run_is_told_step_by_step_in_real_utf_8(api, address):
    who = await api.customer()
    run_id = (await turn(api, who, *LOOKS_TWICE))["run_id"]
    path = f"/v1/runs/{run_id}/events"
    async with reading(address, path, who) as reader:
        events = await reader.rest()
        headers = reader.response.headers

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert [event.name for event in events] == OF_THE_RUN
    assert [event.id for event in events[:-1]] == ["1.0", "1.1", "1.2", "2.0", "2.1", "3.0"]
    assert [call["tool"] for call in events[0].data["calls"]] == ["lookup_order"] * 2
    assert events[0].data["calls"][0]["observation"] is None
    assert [events[1].data["n"], events[2].data["n"], events[4].data["n"]] == [1, 2, 3]
    assert events[1].data["ok"] is True
    done = events[-1].data
    assert (done["status"], done["stop_reason"]) == ("done", "answered")
    assert done["answer"] == "Đơn A100 đã giao ạ."
    assert "Đơn A100 đã giao".encode() in events[-1].raw
    assert all(event.raw.count(b"data: ") == 1 for event in events)
    assert {event.data.get("thought") for event in events if event.name == "step"} == {None}


async def test_staff_reads_the_models_thoughts_too(api, address):
    run_id = (await turn(api, await api.customer(), *LOOKS_TWICE))["run_id"]
    staff = await api.staff(Scope.CONVERSATIONS_READ)
    events = await heard(address, f"/v1/runs/{run_id}/events", staff)

    assert events[0].data["thought"] == "Xem cả hai."


async def test_a_stream_goes_on_behind_any_event_in_any_process(api, address, shop_url):
    who = await api.customer()
    found = await turn(api, who, *LOOKS_TWICE)
    path = f"/v1/runs/{found['run_id']}/events"
    whole = await heard(address, path, who)
    async with opened_api(shop_url, api=FAST) as other, served(other.app) as elsewhere:
        for number, event in enumerate(whole[:-1], start=1):
            rest = await heard(elsewhere, path, who, after=event.id)
            assert [one.raw for one in rest] == [one.raw for one in whole[number:]]
        over = await other.client.get(path, headers={**who, "Last-Event-ID": whole[-1].id})

    assert over.status_code == 204


async def test_what_happens_is_told_when_it_happens(api, address):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await begun(api, who, gate))["run_id"]
    async with reading(address, f"/v1/runs/{run_id}/events", who) as reader:
        await eventually(lambda: open_streams(api))
        gate.open.set()
        events = await reader.rest()

    assert [event.name for event in events] == ["step", "done"]
    await eventually(lambda: not open_streams(api))


async def test_what_another_process_does_is_told_as_well(api, address, shop_url):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    async with reading(address, f"/v1/conversations/{here}/events", who) as reader:
        for _ in range(4):
            await reader.next()
        async with opened_api(shop_url) as other:
            other.shop.model.model = Gate()
            await turn(other, who, here=here, text="Alo?")
            events = [await reader.next() for _ in range(4)]

    assert [event.name for event in events] == ["message", "run", "message", "run"]
    assert events[0].data["text"] == "Alo?"


async def test_a_run_that_is_resumed_is_told_of_from_where_it_stopped(api, address):
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await begun(api, who, gate))["run_id"]
    path = f"/v1/runs/{run_id}/events"
    await api.client.post(f"/v1/runs/{run_id}/cancel", headers=who)
    (stopped,) = await heard(address, path, who)
    await eventually(lambda: not gate.waiting)
    gate.open.set()
    await api.client.post(f"/v1/runs/{run_id}/resume", headers=who)
    rest = await heard(address, path, who, after=stopped.id)

    assert stopped.data["stop_reason"] == "cancelled"
    assert [event.name for event in rest] == ["step", "done"]
    assert rest[-1].data["status"] == "done"


async def test_a_conversation_is_told_message_by_message_and_run_by_run(api, address):
    who = await api.customer()
    first = await turn(api, who, *LOOKS_TWICE)
    here = first["conversation_id"]
    api.shop.model.model = Gate()
    second = await turn(api, who, here=here, text="Cảm ơn shop")
    await api.shop.write(
        lambda tx: tx.conversations.append(
            here, author=Author.NOTICE, text="Đã hoàn", at=TODAY, run_id=None
        )
    )
    path = f"/v1/conversations/{here}/events"
    async with reading(address, path, who) as reader:
        whole = [await reader.next() for _ in range(9)]

    told = [(event.name, event.data.get("seq") or event.data["phase"]) for event in whole]
    assert told == [
        ("message", 1),
        ("run", "begun"),
        ("message", 2),
        ("run", "ended"),
        ("message", 3),
        ("run", "begun"),
        ("message", 4),
        ("run", "ended"),
        ("message", 5),
    ]
    assert [event.data["id"] for event in whole if event.name == "run"] == [
        *[first["run_id"]] * 2,
        *[second["run_id"]] * 2,
    ]
    assert (whole[1].data["status"], whole[3].data["status"]) == ("running", "done")
    for number, event in enumerate(whole[:-1], start=1):
        async with reading(address, path, who, after=event.id) as reader:
            rest = [await reader.next() for _ in range(len(whole) - number)]
        assert [one.raw for one in rest] == [one.raw for one in whole[number:]]


async def test_a_conversation_of_many_messages_is_told_whole(api, address):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]

    def write(tx):
        for number in range(250):
            tx.conversations.append(
                here, author=Author.NOTICE, text=f"Tin {number}", at=TODAY, run_id=None
            )

    await api.shop.write(write)
    async with reading(address, f"/v1/conversations/{here}/events", who) as reader:
        seqs = []
        while len(seqs) < 252:
            event = await reader.next()
            seqs += [event.data["seq"]] if event.name == "message" else []

    assert seqs == list(range(1, 253))


@pytest.mark.parametrize(
    "garbage",
    ["x", "1", "1.x", "-1.0", "9.0", "1.9", "1.0.9999", "1.0r", "١.٠", "1.0\t.2", "9" * 99],
)
async def test_an_id_that_is_none_of_the_stream_is_refused(api, garbage):
    who = await api.customer()
    run_id = (await turn(api, who, *LOOKS_TWICE))["run_id"]
    headers = {**who, "Last-Event-ID": garbage.encode()}
    response = await api.client.get(f"/v1/runs/{run_id}/events", headers=headers)

    assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT")


@pytest.mark.parametrize("garbage", ["x", "1", "99.0", "1.99", "1.1x", "1.1.1", "r"])
async def test_an_id_that_is_none_of_the_conversation_is_refused(api, garbage):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    response = await api.client.get(
        f"/v1/conversations/{here}/events", headers={**who, "Last-Event-ID": garbage}
    )

    assert (response.status_code, response.json()["code"]) == (422, "INVALID_INPUT")


async def test_a_key_that_is_revoked_closes_what_it_has_open(api, address):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    staff = await api.staff(Scope.CONVERSATIONS_READ, name="desk")
    path = f"/v1/conversations/{here}/events"
    keys = api.shop.container.api_keys()
    async with reading(address, path, who) as theirs, reading(address, path, staff) as ours:
        for reader in (theirs, ours):
            assert [(await reader.next()).name for _ in range(2)] == ["message", "run"]
            await reader.next()
            await reader.next()
        (key,) = await api.shop.read(lambda tx: tx.api_keys.of_name("web"))
        await keys.revoke(key.id, by=HOST)
        assert await theirs.rest() == []
        await turn(api, await api.customer(name="web"), here=here)
        assert (await ours.next()).name == "message"


async def test_a_key_that_somebody_changed_in_the_database_closes_what_it_has_open(api, address):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    async with reading(address, f"/v1/conversations/{here}/events", who) as reader:
        for _ in range(4):
            await reader.next()
        (key,) = await api.shop.read(lambda tx: tx.api_keys.of_name("web"))
        await api.shop.write(
            lambda tx: tx.api_keys.put(replace(key, expires_at=TODAY + timedelta(days=9_999)))
        )

        assert await reader.rest() == []


async def test_a_stream_lives_as_long_as_the_token_of_its_customer(api, address):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    soon = {**who, "Support-Agent-Customer-Token": customer_token("C001", lives_s=1)}
    async with reading(address, f"/v1/conversations/{here}/events", soon) as reader:
        events = await asyncio.wait_for(reader.rest(), 5)

    assert len(events) == 4


async def test_a_conversation_that_is_erased_is_told_no_further(api, address):
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]
    async with reading(address, f"/v1/conversations/{here}/events", who) as reader:
        for _ in range(4):
            await reader.next()
        await api.shop.container.privacy().erase("C001", by=HOST)

        assert await reader.rest() == []


async def test_what_says_nothing_is_kept_alive(api, address):
    api.app.state.streams.keep_alive_s = 0.05
    who, gate = await api.customer(), Gate(is_open=False)
    run_id = (await begun(api, who, gate))["run_id"]
    async with reading(address, f"/v1/runs/{run_id}/events", who) as reader:
        asyncio.get_running_loop().call_later(0.3, gate.open.set)
        events = await reader.rest()

    assert len(reader.comments) > 2
    assert [event.name for event in events] == ["step", "done"]


async def test_more_streams_than_are_allowed_are_told_to_come_later(shop_url):
    async with opened_api(shop_url, api={**FAST, "max_streams": 1}) as api, served(api.app) as at:
        api.shop.model.model = Gate()
        who = await api.customer()
        here = (await turn(api, who))["conversation_id"]
        path = f"/v1/conversations/{here}/events"
        async with reading(at, path, who) as reader:
            await reader.next()
            full = await api.client.get(path, headers=who)
        await eventually(lambda: not open_streams(api))
        async with reading(at, path, who) as reader:
            assert (await reader.next()).name == "message"

    assert (full.status_code, full.json()["code"]) == (503, "TOO_MANY_STREAMS")
    assert full.headers["retry-after"] == "5"


async def test_a_reader_that_does_not_read_is_let_go(api):
    api.app.state.streams.send_s = 0.3
    who = await api.customer()
    here = (await turn(api, who))["conversation_id"]

    def write(tx):
        for _ in range(600):  # more than the buffers of two sockets hold
            tx.conversations.append(
                here, author=Author.NOTICE, text="ồ" * 10_000, at=TODAY, run_id=None
            )

    await api.shop.write(write)
    async with served(api.app, unread_s=0.5) as address:
        at = urlsplit(address)
        reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=1)
        head = [f"GET /v1/conversations/{here}/events HTTP/1.1", "Host: api"]
        head += [f"{name}: {value}" for name, value in who.items()]
        writer.write("\r\n".join([*head, "", ""]).encode())
        await eventually(lambda: open_streams(api))
        await eventually(lambda: not open_streams(api))
        # Not only the stream: the server would wait for the connection when it stops.
        stopping = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - stopping < 4
    writer.transport.abort()
    assert not reader.at_eof()


async def test_streams_end_when_the_process_stops_and_the_turn_goes_on_after_it(shop_url):
    gate = Gate(is_open=False)
    stops = {"queue": {"shutdown_seconds": 0.1}, "api": FAST}
    async with opened_api(shop_url, **stops) as api:
        who = await api.customer()
        async with served(api.app) as address:
            run_id = (await begun(api, who, gate))["run_id"]
            async with reading(address, f"/v1/runs/{run_id}/events", who) as reader:
                await eventually(lambda: open_streams(api))
                api.app.state.background.stop.ask()
                assert await reader.rest() == []
    async with opened_api(shop_url, api=FAST) as api, served(api.app) as address:
        api.shop.model.model = Gate()
        working = asyncio.create_task(
            api.shop.container.agent().work(await _conversation_of(api, who, run_id))
        )
        events = await heard(address, f"/v1/runs/{run_id}/events", who)
        await working

    assert [event.name for event in events] == ["step", "done"]
    assert events[-1].data["answer"] == "Vâng."


async def _conversation_of(api, who, run_id):
    return (await api.client.get(f"/v1/runs/{run_id}", headers=who)).json()["conversation_id"]

"""The API before a queue and its workers, and before a server that goes away for a while."""

import asyncio
from typing import Any

import pytest

from support_agent.domain.access import Scope
from support_agent.domain.conversation import Author
from tests.api_kit import Api, opened_api
from tests.cut_line import line_to
from tests.kit import TODAY
from tests.queue_kit import PROCRASTINATE, Gate, eventually, open_with, working
from tests.sse_kit import heard, open_streams, reading, served

WAIT = {"Prefer": "wait=20"}
FAST = {"stream_poll_seconds": 0.05}


@pytest.fixture
async def gate() -> Gate:
    return Gate()


@pytest.fixture
async def api(queue_url: str):
    """A process that serves and does not work."""
    async with opened_api(queue_url, queue=PROCRASTINATE, api=FAST) as opened:
        yield opened


@pytest.fixture
async def worker(queue_url: str, gate: Gate):
    """Another one that works."""
    async with open_with(queue_url, gate, queue=PROCRASTINATE) as shop, working(shop.container):
        yield shop


async def said(api: Api, who: dict[str, str], text: str, *, here: str | None = None) -> Any:
    path = "/v1/conversations" if here is None else f"/v1/conversations/{here}/messages"
    response = await api.client.post(path, json={"text": text}, headers=who)
    assert response.status_code in {200, 202}, response.text
    return response


async def test_workers_answer_what_the_api_takes_in(api, worker):
    who = await api.customer()
    answered = await said(api, who | WAIT, "Chào shop")
    here = answered.json()["conversation_id"]
    taken, again = [
        await api.client.post(
            f"/v1/conversations/{here}/messages",
            json={"text": "Còn hàng không?", "message_id": "m-2"},
            headers=who,
        )
        for _ in range(2)
    ]
    async with served(api.app) as address:
        path = f"/v1/conversations/{here}/events"
        async with reading(address, path, who) as reader:
            told = [await reader.next() for _ in range(8)]

    assert (answered.status_code, answered.json()["answer"]) == (200, "Vâng.")
    assert (taken.status_code, taken.json()["run"]) == (202, None)
    assert again.json()["message"]["seq"] == taken.json()["message"]["seq"] == 3
    assert taken.headers["location"] == f"/v1/conversations/{here}/messages"
    assert [event.name for event in told] == ["message", "run"] * 4
    assert api.shop.model.requests == []


async def test_a_run_that_a_worker_has_is_called_off_from_the_api(api, worker, gate):
    gate.open.clear()
    who = await api.customer()
    here = (await said(api, who, "Chào shop")).json()["conversation_id"]
    await eventually(lambda: gate.waiting)
    (run,) = await api.shop.read(
        lambda tx: tx.runs.list(conversation_id=here, limit=2, before=None)
    )

    cancelled = await api.client.post(f"/v1/runs/{run.id}/cancel", headers=who)
    gate.open.set()
    await eventually(lambda: not gate.waiting)
    next_one = await said(api, who | WAIT, "Alo?", here=here)

    messages = (await api.client.get(f"/v1/conversations/{here}/messages", headers=who)).json()
    assert cancelled.json()["stop_reason"] == "cancelled"
    assert next_one.json()["answer"] == "Vâng."
    authors = [message["author"] for message in messages["data"]]
    assert authors == ["customer", "agent", "customer", "agent"]


async def test_a_run_is_resumed_by_the_api_itself(api, worker, gate):
    gate.open.clear()
    api.shop.model.model = Gate()
    who = await api.customer()
    here = (await said(api, who, "Chào shop")).json()["conversation_id"]
    await eventually(lambda: gate.waiting)
    (run,) = await api.shop.read(
        lambda tx: tx.runs.list(conversation_id=here, limit=2, before=None)
    )
    await api.client.post(f"/v1/runs/{run.id}/cancel", headers=who)
    manager = await api.staff(Scope.RUNS_MANAGE, Scope.CONVERSATIONS_READ, name="desk")
    resumed = await api.client.post(f"/v1/runs/{run.id}/resume", headers=manager)
    async with served(api.app) as address:
        events = await heard(address, f"/v1/runs/{run.id}/events", manager)
    gate.open.set()

    assert resumed.status_code == 202
    assert events[-1].data["answer"] == "Vâng."
    assert events[-1].data["operator"] == "desk"


async def test_messages_that_come_close_together_are_one_turn(queue_url, gate):
    queue = PROCRASTINATE | {"debounce_seconds": 0.5}
    async with (
        opened_api(queue_url, queue=queue) as api,
        open_with(queue_url, gate, queue=queue) as shop,
        working(shop.container),
    ):
        who = await api.customer()
        first = await said(api, who, "Chào shop")
        here = first.json()["conversation_id"]
        second = await said(api, who | WAIT, "cho mình hỏi", here=here)
        messages = (await api.client.get(f"/v1/conversations/{here}/messages", headers=who)).json()

    assert second.json()["answer"] == "Vâng."
    assert {m["run_id"] for m in messages["data"]} == {second.json()["run_id"]}


async def test_a_stream_outlives_a_database_that_is_away(postgres_shop_url):
    async with (
        line_to(postgres_shop_url) as (way, line),
        opened_api(way, api=FAST) as api,
        served(api.app) as address,
        open_with(postgres_shop_url) as other,
    ):
        api.shop.model.model = Gate()
        who = await api.customer()
        here = (await said(api, who | WAIT, "Chào shop")).json()["conversation_id"]
        async with reading(address, f"/v1/conversations/{here}/events", who) as reader:
            seen = [await reader.next() for _ in range(4)]
            line.cut()
            away = await api.client.get(f"/v1/conversations/{here}", headers=who)
            await asyncio.sleep(0.2)  # until a look has failed; too short, and the test passes
            await other.write(lambda tx: _noted(tx, here))
            await line.mend()
            told = await reader.next()
            assert open_streams(api) == 1

    assert [event.name for event in seen] == ["message", "run"] * 2
    assert (away.status_code, away.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert (told.name, told.data["text"]) == ("message", "Đã hoàn tiền")


def _noted(tx: Any, here: str) -> None:
    tx.conversations.append(here, author=Author.NOTICE, text="Đã hoàn tiền", at=TODAY, run_id=None)


async def test_lists_and_pages_are_the_same_on_a_server(postgres_shop_url):
    async with opened_api(postgres_shop_url) as api:
        api.shop.model.model = Gate()
        who = await api.customer()
        staff = await api.staff(Scope.CONVERSATIONS_READ)
        here = [(await said(api, who | WAIT, "Chào")).json()["conversation_id"] for _ in range(3)]

        async def ids(headers: dict[str, str], **params: Any) -> list[str]:
            response = await api.client.get("/v1/conversations", headers=headers, params=params)
            assert response.status_code == 200, response.text
            return [one["id"] for one in response.json()["data"]]

        assert await ids(who, limit=2) == here[:0:-1]
        assert await ids(who, cursor=here[1]) == here[:1]
        assert await ids(staff, customer_id="\0") == []
        page = await api.client.get(
            f"/v1/conversations/{here[0]}/messages", headers=who, params={"limit": 1}
        )
        assert page.json()["next_cursor"] == "1"

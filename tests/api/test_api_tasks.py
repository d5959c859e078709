"""Staff tasks by HTTP."""

from datetime import timedelta

import pytest

from support_agent.domain.access import Scope
from support_agent.ports.storage import Task
from tests.api_kit import opened_api
from tests.heart import calls, events
from tests.kit import TODAY


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


@pytest.fixture
async def staff(api):
    return await api.staff(Scope.TASKS_READ, Scope.TASKS_WRITE, name="help-desk")


async def add_tasks(api, count: int = 1) -> list[str]:
    tasks = [
        Task(
            id=f"task_{number}",
            kind="pay_by_hand",
            subject=f"req_{number}",
            conversation_id=None,
            created_at=TODAY + timedelta(minutes=number),
            due_at=TODAY + timedelta(hours=1),
        )
        for number in range(count)
    ]
    for task in tasks:
        await api.shop.write(lambda tx, task=task: tx.tasks.add(task))
    return [task.id for task in tasks]


def code_of(response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    return response.status_code, response.json()["code"]


async def test_they_are_listed_the_oldest_first_by_pages(api, staff):
    ids = await add_tasks(api, 3)

    first = (await api.client.get("/v1/tasks?limit=2", headers=staff)).json()
    params = {"limit": 2, "cursor": first["next_cursor"]}
    second = (await api.client.get("/v1/tasks", params=params, headers=staff)).json()

    assert [task["id"] for page in (first, second) for task in page["data"]] == ids
    assert (first["has_more"], second["has_more"]) == (True, False)


async def test_one_is_shown_and_told_late_when_it_is(api, staff):
    (task,) = await add_tasks(api)
    url = f"/v1/tasks/{task}"

    early = (await api.client.get(url, headers=staff)).json()
    api.shop.clock.set(TODAY + timedelta(hours=2))
    late = (await api.client.get(url, headers=staff)).json()

    assert early == {
        "id": task,
        "kind": "pay_by_hand",
        "subject": "req_0",
        "conversation_id": None,
        "created_at": "2026-10-13T02:00:00Z",
        "due_at": "2026-10-13T03:00:00Z",
        "overdue": False,
        "done_at": None,
        "done_by": None,
    }
    assert late == early | {"overdue": True}


async def test_one_is_done_once_by_whose_key_it_is(api, staff):
    (task,) = await add_tasks(api)
    url = f"/v1/tasks/{task}/done"

    first, again = [await api.client.post(url, headers=staff) for _ in range(2)]

    assert (first.status_code, first.json()["done_by"]) == (200, "help-desk")
    assert code_of(again) == (409, "TASK_ALREADY_DONE")
    assert (again.json()["by"], again.json()["at"]) == ("help-desk", "2026-10-13T02:00:00Z")
    (event,) = await events(api.shop, "task.done")
    assert (event.actor.id, event.actor.via) == ("help-desk", "api")
    assert (await api.client.get("/v1/tasks", headers=staff)).json()["data"] == []
    every = await api.client.get("/v1/tasks?every=true", headers=staff)
    assert [one["id"] for one in every.json()["data"]] == [task]


async def test_a_hand_off_that_is_done_gives_its_conversation_back(api, staff):
    said = await api.shop.say(
        "Cho tôi gặp nhân viên", calls("hand_off", reason="asked"), {"answer": "Vâng."}
    )
    (task,) = (await api.client.get("/v1/tasks", headers=staff)).json()["data"]
    assert (task["kind"], task["conversation_id"]) == ("hand_off", said.conversation_id)

    await api.client.post(f"/v1/tasks/{task['id']}/done", headers=staff)

    conversation = await api.shop.read(lambda tx: tx.conversations.get(said.conversation_id))
    assert not conversation.handed_off


async def test_a_key_that_reads_ends_none(api):
    (task,) = await add_tasks(api)
    reader = await api.staff(Scope.TASKS_READ)

    assert code_of(await api.client.post(f"/v1/tasks/{task}/done", headers=reader)) == (
        403,
        "SCOPE_MISSING",
    )


async def test_an_unknown_one_is_not_found(api, staff):
    for unknown in ("task_unknown", "..%2fx", "%00", "x" * 300):
        for answer in (
            await api.client.get(f"/v1/tasks/{unknown}", headers=staff),
            await api.client.post(f"/v1/tasks/{unknown}/done", headers=staff),
        ):
            assert code_of(answer)[0] == 404, unknown


async def test_a_cursor_that_was_not_handed_out_is_refused(api, staff):
    for cursor in ("made-up", "\0", "x" * 501):
        answer = await api.client.get("/v1/tasks", params={"cursor": cursor}, headers=staff)

        assert code_of(answer) == (422, "INVALID_INPUT"), cursor

"""Whatever goes wrong is a problem+json with an id to name."""

import pytest

from support_agent.domain.access import Scope
from tests.api_kit import opened_api


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


def is_problem(response, status: int, code: str) -> None:
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert body["request_id"] == response.headers["x-request-id"] != ""
    assert body["detail"]
    assert body["title"]


async def test_an_address_that_is_none_is_a_problem(api):
    is_problem(await api.client.get("/v1/nothing"), 404, "NOT_FOUND")


async def test_a_method_that_is_not_taken_is_a_problem(api):
    is_problem(await api.client.put("/openapi.json"), 405, "METHOD_NOT_ALLOWED")


async def test_a_new_key_is_proved_and_a_changed_one_is_not(api):
    text = await api.key(Scope.TASKS_READ)
    keys = api.shop.container.api_keys()

    assert (await keys.authenticate(text)).scopes == {Scope.TASKS_READ}


async def test_without_a_key_nothing_is_told(api):
    response = await api.client.get("/v1/tasks")

    is_problem(response, 401, "NOT_AUTHENTICATED")
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_a_key_that_may_do_other_things_is_told_what_it_needs(api):
    response = await api.client.get("/v1/tasks", headers=await api.staff(Scope.REFUNDS_READ))

    is_problem(response, 403, "SCOPE_MISSING")
    assert "tasks:read" in response.json()["detail"]


async def test_a_wrong_parameter_is_named(api):
    headers = await api.staff(Scope.TASKS_READ)
    response = await api.client.get("/v1/tasks", params={"limit": "many"}, headers=headers)

    is_problem(response, 422, "INVALID_INPUT")
    assert response.json()["errors"][0]["pointer"] == "query:limit"


async def test_tasks_are_listed(api):
    response = await api.client.get("/v1/tasks", headers=await api.staff(Scope.TASKS_READ))

    assert response.json() == {"data": [], "has_more": False, "next_cursor": None}


async def test_no_cache_on_the_way_keeps_an_answer(shop_url):
    async with opened_api(shop_url) as api:
        request = await api.shop.filed("A100")
        who = await api.decider()
        answers = [
            await api.client.get(path, headers=who)
            for path in (f"/v1/approvals/{request.id}", "/v1/refunds", "/nothing")
        ]

    assert [one.status_code for one in answers] == [200, 403, 404]
    assert {one.headers["cache-control"] for one in answers} == {"no-store"}


async def test_a_body_full_of_wrong_fields_is_answered_shortly(shop_url):
    many = {f"{number:x}": 1 for number in range(7_000)} | {"~/" * 2_000: 1}
    async with opened_api(shop_url) as api:
        who = await api.customer()
        answer = await api.client.post("/v1/conversations", json=many, headers=who)
        long = await api.client.post("/v1/conversations", json={"~/" * 9_000: 1}, headers=who)

    assert (answer.status_code, long.status_code) == (422, 422)
    assert len(answer.content) < 10_000
    assert len(long.content) < 2_000


async def test_its_own_id_is_not_taken_for_a_refund_requests(api):
    answer = await api.client.get("/v1/none")

    assert answer.headers["x-request-id"] == answer.json()["request_id"]
    assert not answer.json()["request_id"].startswith("req_")


async def test_a_fault_of_ours_is_a_problem_without_its_words(api):
    async def broken():
        raise RuntimeError("the secret of somebody")

    api.app.add_api_route("/v1/broken", broken)

    response = await api.client.get("/v1/broken")

    is_problem(response, 500, "INTERNAL")
    assert "secret" not in response.text

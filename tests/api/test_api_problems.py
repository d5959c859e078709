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

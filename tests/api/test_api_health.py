"""Alive is not ready: what is missing is named, without what only operators may know."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support_agent.api.probing import Probe
from tests.api_kit import opened_api
from tests.kit import make_database


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url) as opened:
        yield opened


async def test_a_shop_that_is_set_up_is_ready(api):
    response = await api.client.get("/readyz")

    assert (response.status_code, response.json()) == (200, {"status": "ready"})


async def test_some_monitors_ask_for_the_head_alone(api):
    for path in ("/healthz", "/readyz"):
        response = await api.client.head(path)

        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


async def test_without_a_policy_it_is_alive_and_not_ready(tmp_path: Path):
    async with opened_api(make_database(tmp_path / "empty.db")) as api:
        assert (await api.client.get("/healthz")).status_code == 200
        await is_not_ready(api, "policy")


async def test_a_schema_of_another_version_is_not_ready(api, shop_url):
    path = shop_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    await is_not_ready(api, "schema")


async def test_about_to_stop_it_takes_no_more(api):
    api.app.state.background.closing.set()

    await is_not_ready(api, "stopping")


async def is_not_ready(api, what: str):
    response = await api.client.get("/readyz")
    problem = response.json()
    assert (response.status_code, problem["code"]) == (503, "NOT_READY")
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["errors"][0]["pointer"] == what
    return problem


class Hanging:
    """Looks that hang until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.let_go = asyncio.Event()

    async def __call__(self) -> int:
        self.begun += 1
        await self.let_go.wait()
        return self.begun


async def test_nobody_waits_for_a_look_that_hangs_and_no_second_one_is_begun():
    look = Hanging()
    probe = Probe(look, within_s=0.01)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await probe()

    assert look.begun == 1
    look.let_go.set()
    assert await probe() == 1


async def test_what_was_found_serves_for_a_moment_and_not_for_long():
    look = Hanging()
    look.let_go.set()
    lasting, fleeting = Probe(look, keep_s=60), Probe(look, keep_s=0)

    assert [await lasting() for _ in range(3)] == [1, 1, 1]
    assert [await fleeting() for _ in range(3)] == [2, 3, 4]


async def test_a_look_that_fails_when_nobody_waits_any_more_is_no_news():
    let_go = asyncio.Event()

    async def fail() -> None:
        await let_go.wait()
        raise ValueError("too late")

    probe = Probe(fail, within_s=0.01)
    with pytest.raises(TimeoutError):
        await probe()
    let_go.set()
    with pytest.raises(ValueError, match="too late"):
        await probe()

"""Health and numbers of a serving process whose PostgreSQL is gone, or does not answer."""

import asyncio
import time

import psycopg
import pytest

from tests.api_kit import opened_api
from tests.cut_line import line_to

LONGEST_S = 4.0  # that whoever asks has to wait


@pytest.fixture
def url(queue_url: str) -> str:
    return queue_url


def plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


async def asked(api, path: str) -> tuple[int, str, float]:
    began = time.monotonic()
    response = await api.client.get(path)
    return response.status_code, response.text, time.monotonic() - began


async def test_a_queue_without_its_tables_is_not_ready(url):
    async with opened_api(url, queue={"kind": "procrastinate"}) as api:
        assert (await asked(api, "/readyz"))[0] == 200
        async with await psycopg.AsyncConnection.connect(plain(url), autocommit=True) as other:
            await other.execute("DELETE FROM queue_schema")
        await asyncio.sleep(0.6)  # what was found before serves for a moment
        status, text, _ = await asked(api, "/readyz")

    assert (status, '"pointer":"queue"' in text) == (503, True), text


async def test_a_server_that_is_gone_is_told_within_seconds(url):
    async with line_to(url) as (way, line), opened_api(way, api={"public_metrics": True}) as api:
        line.cut()
        status, text, took_s = await asked(api, "/readyz")
        alive, _, _ = await asked(api, "/healthz")
        counted, numbers, numbers_took_s = await asked(api, "/metrics")
        await line.mend()

    assert (status, '"pointer":"database"' in text) == (503, True), text
    assert (alive, counted) == (200, 200)
    assert "support_agent_database_up 0.0" in numbers
    assert max(took_s, numbers_took_s) < LONGEST_S


async def test_a_server_that_hangs_keeps_nobody_waiting(url):
    everything = "policies, alembic_version, tasks"
    async with (
        opened_api(url, api={"public_metrics": True}) as api,
        await psycopg.AsyncConnection.connect(plain(url)) as other,
    ):
        await other.execute(f"LOCK TABLE {everything} IN ACCESS EXCLUSIVE MODE")
        answers = await asyncio.gather(
            *(asked(api, "/readyz") for _ in range(20)), asked(api, "/metrics")
        )
        await other.rollback()

    assert [status for status, _, _ in answers] == [503] * 20 + [200]
    assert "support_agent_database_up 0.0" in answers[-1][1]
    assert max(took_s for _, _, took_s in answers) < LONGEST_S


async def test_numbers_are_read_of_a_server_too(url):
    async with opened_api(url, api={"public_metrics": True}) as api:
        await api.shop.filed("A100")
        status, numbers, _ = await asked(api, "/metrics")

    assert status == 200
    assert "support_agent_approvals_pending 1.0" in numbers
    assert 'support_agent_payouts{status="IN_DOUBT"} 0.0' in numbers

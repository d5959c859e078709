"""Numbers for Prometheus: by route and not by id, per application, and from the database."""

import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support_agent.domain.access import Scope
from support_agent.resources import resource_dir
from tests.api_kit import opened_api
from tests.queue_kit import post


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url, api={"public_metrics": True}) as opened:
        yield opened


async def numbers(api) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""
    response = await api.client.get("/metrics")
    assert response.status_code == 200, response.text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def test_requests_are_counted_by_the_template_of_their_route(api):
    headers = await api.staff(Scope.TASKS_READ)
    await api.client.get("/v1/tasks", headers=headers)
    await api.client.get("/v1/tasks", params={"limit": 0}, headers=headers)
    await api.client.get("/v1/tasks")
    await api.client.get("/v1/refunds/ref_1", headers=headers)
    await api.client.get("/v1/who/knows")

    found = await numbers(api)

    counts = {labels[1:]: n for labels, n in found.items() if "requests_total" in labels[0]}
    assert counts[("GET", "/v1/tasks", "200")] == 1
    assert counts[("GET", "/v1/tasks", "422")] == 1
    assert counts[("GET", "/v1/tasks", "401")] == 1
    assert counts[("GET", "/v1/refunds/{request_id}", "403")] == 1
    assert counts[("GET", "none", "404")] == 1
    assert found[("support_agent_http_request_seconds_count", "GET", "/v1/tasks")] == 3
    assert found[("support_agent_http_requests_under_way",)] == 1  # this one
    assert not [name for labels in found for name in labels if "ref_1" in name or "knows" in name]


async def test_a_method_that_somebody_made_up_is_no_label(api):
    await api.client.request("BREW", "/v1/tasks")

    assert any(labels[1:2] == ("OTHER",) for labels in await numbers(api))


async def test_two_applications_of_one_process_share_no_numbers(api, template, tmp_path):
    await api.client.get("/healthz")
    other_url = f"sqlite:///{tmp_path / 'other.db'}"
    (tmp_path / "other.db").write_bytes(template.read_bytes())
    async with opened_api(other_url, api={"public_metrics": True}) as other:
        theirs = await numbers(other)

    assert ("support_agent_http_requests_total", "GET", "/healthz", "200") not in theirs


async def test_what_waits_in_the_database_is_told(api):
    await api.shop.filed("A100")
    await post(api.shop)
    api.shop.clock.advance(timedelta(hours=30))

    found = await numbers(api)

    assert found[("support_agent_database_up",)] == 1
    assert found[("support_agent_approvals_pending",)] == 1
    assert found[("support_agent_approvals_overdue",)] == 1
    assert found[("support_agent_approvals_oldest_seconds",)] == 30 * 3600
    assert found[("support_agent_conversations_unread",)] == 1
    assert found[("support_agent_runs_running",)] == 0
    assert found[("support_agent_payouts", "IN_DOUBT")] == 0
    assert found[("support_agent_outbox_undelivered",)] >= 1
    assert found[("support_agent_webhooks_pending",)] == 0


async def test_tasks_and_payouts_in_doubt_are_told(api):
    request = await api.shop.filed("A100")
    with closing(sqlite3.connect(api.shop.url.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            "UPDATE refund_requests SET status = 'IN_DOUBT' WHERE id = ?", (request.id,)
        )
        connection.commit()

    found = await numbers(api)

    assert found[("support_agent_payouts", "IN_DOUBT")] == 1
    assert found[("support_agent_approvals_pending",)] == 0


async def test_without_a_setting_a_key_with_its_scope_is_needed(shop_url):
    async with opened_api(shop_url) as api:
        assert (await api.client.get("/metrics")).status_code == 401
        wrong = await api.staff(Scope.TASKS_READ)
        assert (await api.client.get("/metrics", headers=wrong)).status_code == 403
        right = await api.staff(Scope.METRICS_READ)
        response = await api.client.get("/metrics", headers=right)

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")


async def test_the_operations_page_names_them_all(api):
    page = (resource_dir() / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.split("| metric (")[1].split("\n\n")[0]
    told = set(re.findall(r"`([a-z_]+)(?:\{status=…\})?`", table)) - {"support_agent_"}
    text = (await api.client.get("/metrics")).text
    ours = re.findall(r"^# TYPE support_agent_(\w+) (\w+)$", text, re.MULTILINE)
    # Of a counter or a histogram without a sample yet there is its name; `_created` is the library's.
    assert told == {name for name, _ in ours if not name.endswith("_created")}

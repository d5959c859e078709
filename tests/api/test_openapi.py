"""The description that integrators generate clients from: committed, whole, and true to itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from support_agent.api.app import bare_app
from support_agent.api.description import as_text
from tests.api_kit import opened_api

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "openapi.json"
OPEN = {"get_health", "get_readiness", "receive_provider_event"}  # no key is asked for


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(as_text(bare_app().openapi()))
    return described


@pytest.fixture(scope="module")
def operations(found) -> dict[str, dict[str, Any]]:
    """By their ids."""
    every = [one for path in found["paths"].values() for one in path.values()]
    named = {one["operationId"]: one for one in every}
    assert len(named) == len(every)  # what generated clients call them
    return named


def test_the_committed_description_is_that_of_the_routes(found):
    """Renew it with `make openapi`, and look at what changed: it is a contract."""
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == found, "run: make openapi"


def test_it_is_the_same_in_every_process(found, tmp_path):
    path = tmp_path / "openapi.json"
    command = (sys.executable, "-m", "support_agent.api.description", str(path))
    subprocess.run(  # noqa: S603 - our own command
        command, check=True, env={**os.environ, "PYTHONHASHSEED": "7"}, cwd=ROOT
    )

    assert path.read_text(encoding="utf-8") == as_text(found)


async def test_it_is_served_to_anybody_as_it_is_committed(shop_url, found):
    async with opened_api(shop_url) as api:
        response = await api.client.get("/openapi.json")

    assert response.status_code == 200
    assert response.json() == found


def test_it_says_nothing_of_where_it_is_served(found):
    assert found["openapi"].startswith("3.1")
    assert "servers" not in found
    assert set(found["components"]["securitySchemes"]) == {"key"}


def test_every_operation_says_who_may_and_what_goes_wrong(operations):
    for name, one in operations.items():
        assert one["description"], name
        assert one["tags"], name
        assert ("security" not in one) == (name in OPEN), name
        needed = set() if name in OPEN else {"401", "403", "422", "429", "503"}
        assert needed <= set(one["responses"]), name


def test_every_error_is_a_problem(operations):
    for name, one in operations.items():
        for status, response in one["responses"].items():
            assert response["description"], (name, status)
            if status >= "400":
                assert set(response["content"]) == {"application/problem+json"}, (name, status)


def test_who_speaks_for_customers_is_told_how(operations):
    for name, one in operations.items():
        acts = {"key": ["customers:act"]} in one.get("security", ())
        told = {parameter["name"] for parameter in one.get("parameters", ())}
        assert ("Support-Agent-Customer-Token" in told) == acts, name


def test_what_changes_something_may_be_sent_again(found):
    for path, methods in found["paths"].items():
        for method, one in methods.items():
            told = {parameter["name"] for parameter in one.get("parameters", ())}
            changes = method != "get" and one["operationId"] not in OPEN
            assert ("Idempotency-Key" in told) == changes, (method, path)


def test_every_example_is_one(found):
    checked = 0
    for pointer, schema in _schemas(found, "#"):
        checker = jsonschema_rs.Draft202012Validator({**found, "$ref": pointer})
        for example in schema.get("examples", ()):
            checker.validate(example)
            checked += 1

    assert checked


def _schemas(node: Any, pointer: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every place that has examples."""
    if isinstance(node, dict):
        if isinstance(node.get("examples"), list):
            yield pointer, node
        for name, inner in node.items():
            escaped = quote(str(name).replace("~", "~0").replace("/", "~1"))
            yield from _schemas(inner, f"{pointer}/{escaped}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from _schemas(inner, f"{pointer}/{number}")

"""Every route, by every key, for every customer: who gets what is one table, and nothing beside it.

A route that is not in the table fails here until somebody has said who may use it.
"""

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from support_agent.domain.access import Scope
from tests.api_kit import opened_api
from tests.matrix_kit import (
    MARKS,
    OTHER,
    OTHER_KEYS,
    OTHERS,
    OWN,
    TARGET,
    World,
    begun,
    made_world,
    routes_of,
)
from tests.queue_kit import Gate

ACT, SEES, RUNS = Scope.CUSTOMERS_ACT, Scope.CONVERSATIONS_READ, Scope.RUNS_MANAGE
QUEUE, DECIDES, REFUNDS = Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE, Scope.REFUNDS_READ
TASKS, DOES = Scope.TASKS_READ, Scope.TASKS_WRITE
HOOKS, HOOKS_MANAGE, METRICS = Scope.WEBHOOKS_READ, Scope.WEBHOOKS_MANAGE, Scope.METRICS_READ
TELLS_TEXTS = {SEES, QUEUE}  # staff who may read what customers wrote
ANYBODY: tuple[Scope, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """Who may use a route.

    Attributes:
        scopes: one of them opens it; none at all: it is open, or proves its sender itself.
        ok: what it answers to who may, about something of their own.
        of: what its path names.
        flows: what it answers does not end by itself.
        shared: a customer sees it by way of any key, not only the one that it came by.
    """

    scopes: tuple[Scope, ...]
    ok: tuple[int, ...] = (200,)
    of: tuple[str, ...] = ()
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    flows: bool = False
    shared: bool = False


LISTENS = {"url": TARGET, "events": ["refund.failed"]}
SAYS = {"text": "Xin chào shop"}
SEEN = {"If-Match": '"1"'}

TABLE: Mapping[str, Row] = {
    "GET /openapi.json": Row(scopes=ANYBODY),
    "GET /healthz": Row(scopes=ANYBODY),
    "GET /readyz": Row(scopes=ANYBODY),
    "GET /metrics": Row(scopes=(METRICS,)),
    "GET /v1/conversations": Row(scopes=(ACT, SEES)),
    "POST /v1/conversations": Row(scopes=(ACT,), body=SAYS, ok=(202,)),
    "GET /v1/conversations/{conversation_id}": Row(scopes=(ACT, SEES), of=("conversation",)),
    "GET /v1/conversations/{conversation_id}/messages": Row(
        scopes=(ACT, SEES), of=("conversation",)
    ),
    "POST /v1/conversations/{conversation_id}/messages": Row(
        scopes=(ACT,), of=("conversation",), body=SAYS, ok=(202,)
    ),
    "GET /v1/conversations/{conversation_id}/events": Row(
        scopes=(ACT, SEES), of=("conversation",), flows=True
    ),
    "GET /v1/runs/{run_id}": Row(scopes=(ACT, SEES), of=("run",)),
    "GET /v1/runs/{run_id}/steps": Row(scopes=(ACT, SEES), of=("run",)),
    "GET /v1/runs/{run_id}/events": Row(scopes=(ACT, SEES), of=("run",), flows=True),
    "POST /v1/runs/{run_id}/cancel": Row(scopes=(ACT, RUNS), of=("run",), ok=(409,)),
    "POST /v1/runs/{run_id}/resume": Row(scopes=(ACT, RUNS), of=("run",), ok=(409,)),
    "GET /v1/approvals": Row(scopes=(QUEUE,)),
    "GET /v1/approvals/{request_id}": Row(scopes=(QUEUE,), of=("request",)),
    "POST /v1/approvals/{request_id}/decision": Row(
        scopes=(DECIDES,),
        of=("request",),
        body={"decision": "ask", "question": "Bạn gửi ảnh được không?"},
        headers=SEEN,
        ok=(200, 409, 412),
    ),
    "GET /v1/refunds": Row(scopes=(REFUNDS, ACT)),
    "GET /v1/refunds/{request_id}": Row(scopes=(REFUNDS, ACT), of=("request",), shared=True),
    "POST /v1/refunds/{request_id}/cancel": Row(
        scopes=(ACT,), of=("request",), ok=(200, 409), shared=True
    ),
    "GET /v1/tasks": Row(scopes=(TASKS,)),
    "GET /v1/tasks/{task_id}": Row(scopes=(TASKS,), of=("task",)),
    "POST /v1/tasks/{task_id}/done": Row(scopes=(DOES,), of=("task",), ok=(200, 409)),
    "GET /v1/webhook-endpoints": Row(scopes=(HOOKS, HOOKS_MANAGE)),
    "POST /v1/webhook-endpoints": Row(scopes=(HOOKS_MANAGE,), body=LISTENS, ok=(201,)),
    "GET /v1/webhook-endpoints/{endpoint_id}": Row(scopes=(HOOKS, HOOKS_MANAGE), of=("endpoint",)),
    "PATCH /v1/webhook-endpoints/{endpoint_id}": Row(
        scopes=(HOOKS_MANAGE,), of=("endpoint",), body={"state": "enabled"}
    ),
    "GET /v1/webhook-endpoints/{endpoint_id}/secret": Row(scopes=(HOOKS_MANAGE,), of=("endpoint",)),
    "POST /v1/webhook-endpoints/{endpoint_id}/rotate": Row(
        scopes=(HOOKS_MANAGE,), of=("endpoint",)
    ),
    "GET /v1/webhook-endpoints/{endpoint_id}/deliveries": Row(
        scopes=(HOOKS, HOOKS_MANAGE), of=("endpoint",)
    ),
    "POST /v1/webhook-endpoints/{endpoint_id}/deliveries/{delivery_id}/redeliver": Row(
        scopes=(HOOKS_MANAGE,), of=("endpoint", "delivery"), ok=(202,)
    ),
    "DELETE /v1/webhook-endpoints/{endpoint_id}": Row(
        scopes=(HOOKS_MANAGE,), of=("endpoint",), ok=(204,)
    ),
    "POST /v1/provider-events/{gateway}": Row(scopes=ANYBODY, of=("gateway",), body={}),
}
GARBAGE = (
    "../x",
    "..",
    "nothing",
    "x\0y",
    "a" * 300,
    "🧡" * 40,
    "' OR 1=1 --",
    "%",
    "\u202e\u0301",
    " ",
    "ref_01KZ\n",
)


@asynccontextmanager
async def world_on(url: str) -> AsyncIterator[World]:
    plenty = {"rate_per_minute": 1_000_000, "customer_rate_per_minute": 1_000_000}
    async with opened_api(url, api=plenty, webhooks={"private_targets": "127.0.0.1"}) as api:
        world = await made_world(api)
        api.shop.model.model = Gate()  # from here on it says one thing
        yield world


async def asked(
    world: World, route: str, who: Mapping[str, str], ids: Mapping[str, str], address: str = "1"
) -> httpx2.Response:
    """The route about these ids, from an address of its own so that no refusal counts for others."""
    method, _, template = route.partition(" ")
    path = template
    for kind, one in zip(TABLE[route].of, _names(template), strict=True):
        path = path.replace(f"{{{one}}}", quote(ids[kind], safe=""))
    row = TABLE[route]
    if row.flows:
        return await begun(world.api.app, path, {**row.headers, **who}, address)
    transport = httpx2.ASGITransport(app=world.api.app, client=(address, 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
        return await client.request(method, path, json=row.body, headers={**row.headers, **who})


def _names(template: str) -> list[str]:
    return [part[1:-1] for part in template.split("/") if part.startswith("{")]


def ids_of(world: World, route: str, whose: str) -> dict[str, str] | None:
    """Ids of that one, if there are any of each kind that the path names."""
    kinds = TABLE[route].of
    if not all(whose in world.ids[kind] for kind in kinds):
        return None
    return {kind: world.ids[kind][whose] for kind in kinds}


def tables(url: str) -> Mapping[str, str]:
    """What each table holds, by a hash; without the audit, where a refused look is noted."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: hashlib.sha256(
                repr(connection.execute(f"SELECT * FROM {name}").fetchall()).encode()  # noqa: S608
            ).hexdigest()
            for (name,) in names
            if not name.startswith("audit_")
        }


class Faults(list[str]):
    """All that was not as the table says, so that one run shows all of it."""

    def expect(self, response: httpx2.Response, *statuses: int, about: object) -> None:
        if response.status_code not in statuses:
            self.append(f"{about}: {response.status_code}, not {statuses}: {response.text[:200]}")
        if response.status_code >= 400:
            self._expect_problem(response, about)

    def _expect_problem(self, response: httpx2.Response, about: object) -> None:
        kind = response.headers["content-type"]
        if kind != "application/problem+json" or not response.json()["request_id"]:
            self.append(f"{about}: no problem+json but {kind}")

    def expect_nothing_of_others(self, response: httpx2.Response, about: object) -> None:
        told = json.dumps(response.text, ensure_ascii=False)
        self += [f"{about}: tells {mark}" for mark in (*MARKS, OTHER) if mark in told]


@pytest.fixture
async def world(shop_url: str) -> AsyncIterator[World]:
    async with world_on(shop_url) as made:
        yield made


async def test_the_table_has_every_route(world):
    assert sorted(routes_of(world.api.app)) == sorted(TABLE)


async def test_no_route_opens_to_a_key_that_is_none_was_revoked_or_expired(world):
    faults = Faults()
    for number, route in enumerate(TABLE):
        ids = ids_of(world, route, OWN)
        for name, headers in world.refused.items():
            response = await asked(world, route, headers, ids, address=f"{number}.{name}")
            if TABLE[route].scopes:
                faults.expect(response, 401, about=(route, name))
    assert not faults


async def test_a_scope_opens_the_routes_of_the_table_and_no_other(world):
    faults = Faults()
    for route, row in TABLE.items():
        ids = ids_of(world, route, OWN)
        for scope, headers in world.keys.items():
            if not row.scopes:
                continue
            response = await asked(world, route, headers, ids)
            expected = row.ok if scope in row.scopes else (403,)
            faults.expect(response, *expected, about=(route, str(scope)))
            if scope not in TELLS_TEXTS:
                told = [mark for mark in MARKS if mark in response.text]
                faults += [f"{(route, str(scope))}: tells {mark}" for mark in told]
    assert not faults


async def test_a_key_for_customers_has_to_say_for_which(world):
    faults = Faults()
    bare = {"Authorization": world.keys[ACT]["Authorization"]}
    for route, row in TABLE.items():
        if ACT in row.scopes:
            response = await asked(world, route, bare, ids_of(world, route, OWN))
            faults.expect(response, 400, about=route)
            if response.json()["code"] != "CUSTOMER_NEEDED":
                faults.append(f"{route}: {response.json()['code']}")
    assert not faults


@pytest.mark.parametrize("whose", [OTHERS, OTHER_KEYS])
async def test_what_is_anothers_is_answered_as_what_is_not_there(world, whose):
    faults = Faults()
    for route, row in TABLE.items():
        ids = ids_of(world, route, whose)
        if not row.of or not ids or ACT not in row.scopes:
            continue
        if row.shared and whose == OTHER_KEYS:
            continue
        unknown = {kind: f"{one[:-4]}zzzz" for kind, one in ids.items()}
        theirs = await asked(world, route, world.keys[ACT], ids)
        nobodys = await asked(world, route, world.keys[ACT], unknown)
        faults.expect(theirs, 404, about=(route, whose))
        faults.expect_nothing_of_others(theirs, (route, whose))
        if plain(theirs, ids) != plain(nobodys, unknown):
            faults.append(f"{route}: {theirs.text} is not {nobodys.text}")
    assert not faults


def plain(response: httpx2.Response, ids: Mapping[str, str]) -> str:
    """Without what is of this request alone."""
    text = response.text.replace(response.json()["request_id"], "REQUEST")
    for kind, one in ids.items():
        text = text.replace(one, kind)
    return text


async def test_lists_and_looks_of_a_customer_hold_nothing_of_others(world):
    faults = Faults()
    for route, row in TABLE.items():
        if ACT in row.scopes and route.startswith("GET"):
            for ids in (ids_of(world, route, OWN), ids_of(world, route, OTHERS)):
                response = await asked(world, route, world.keys[ACT], ids or {})
                faults.expect_nothing_of_others(response, route)
    assert not faults


async def test_staff_sees_what_is_anybodys(world):
    faults = Faults()
    for route, row in TABLE.items():
        ids = ids_of(world, route, OTHERS)
        for scope in set(row.scopes) - {ACT}:
            if row.of and ids:
                response = await asked(world, route, world.keys[scope], ids)
                faults.expect(response, *row.ok, about=(route, str(scope)))
    assert not faults


async def test_the_marks_are_there_for_who_may_see_them(world):
    """Else nobody would notice that they are not told."""
    messages = "GET /v1/conversations/{conversation_id}/messages"
    for mark, whose in zip(MARKS, (OTHERS, OTHER_KEYS), strict=True):
        for route in (messages, messages.replace("/messages", "/events")):
            response = await asked(world, route, world.keys[SEES], ids_of(world, route, whose))
            assert mark in response.text, route


async def test_looking_changes_nothing(world):
    before = tables(world.api.shop.url)
    for route, row in TABLE.items():
        if route.startswith("GET"):
            for scope in row.scopes or (SEES,):
                for whose in (OWN, OTHERS, OTHER_KEYS):
                    if (ids := ids_of(world, route, whose)) is not None:
                        await asked(world, route, world.keys[scope], ids)

    assert tables(world.api.shop.url) == before


@pytest.fixture(params=["shop_url", "queue_url"])
def place(request: pytest.FixtureRequest) -> str:
    """A shop in SQLite, and one in PostgreSQL, which takes fewer characters."""
    return str(request.getfixturevalue(request.param))


async def test_an_id_that_is_none_is_not_found_whatever_it_is(place):
    faults = Faults()
    async with world_on(place) as world:
        for route, row in TABLE.items():
            for garbage in GARBAGE if row.of else ():
                ids = dict.fromkeys(row.of, garbage)
                for scope in row.scopes or (SEES,):
                    response = await asked(world, route, world.keys[scope], ids)
                    faults.expect(response, 404, 422, about=(route, str(scope), garbage))
                    if "\0" in response.text or "\u202e" in response.text:
                        faults.append(f"{route}: gives {garbage!r} back as it came")
    assert not faults

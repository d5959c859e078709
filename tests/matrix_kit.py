"""The shop that the matrix of routes is asked in: what is one's own, and what is somebody else's."""

import asyncio
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import httpx2
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from support_agent.agent.turns import Incoming, TurnResult
from support_agent.domain.access import API_CHANNEL, VIA, Scope
from support_agent.domain.conversation import Assurance
from support_agent.domain.people import customer_principal
from support_agent.domain.webhooks import EventType
from support_agent.ports.storage import Task
from support_agent.services.conversations import Binding
from tests.api_kit import HOST, Api, customer_token
from tests.kit import Shop

KEY_NAME = "web"  # of the key that speaks for customers; the account of its conversations
OWNER, OTHER = "C001", "C002"
# Words of another customer, and of the same one by way of another key: no answer may hold them.
MARKS = ("DẤU-CỦA-KHÁCH-KHÁC-7391", "DẤU-CỦA-KÊNH-KHÁC-5520")
TARGET = "http://127.0.0.1:9/events"  # nothing is sent in these tests
OWN, OTHERS, OTHER_KEYS = "own", "others", "other_keys"


@dataclass
class World:
    """`ids` by kind, and by whose they are."""

    api: Api
    ids: dict[str, dict[str, str]] = field(default_factory=dict)
    keys: dict[Scope, Mapping[str, str]] = field(default_factory=dict)
    refused: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def note(self, whose: str, **ids: str) -> None:
        for kind, one in ids.items():
            self.ids.setdefault(kind, {})[whose] = one


def routes_of(app: FastAPI) -> Iterator[str]:
    """`GET /v1/tasks` for each route there is, whoever added it."""
    for context in iter_route_contexts(app.routes):
        for method in sorted((context.methods or set()) - {"HEAD"}):
            yield f"{method} {context.path}"


async def talk(
    shop: Shop,
    text: str,
    *script: Mapping[str, Any],
    customer: str,
    account: str = KEY_NAME,
    conversation: str | None = None,
) -> TurnResult:
    """A message as it comes by way of a key."""
    shop.model.play(*(script or ({"answer": "Vâng."},)))
    binding = Binding(
        channel=API_CHANNEL,
        account=account,
        external_contact=customer,
        customer_id=customer,
        assurance=Assurance.VERIFIED,
        principal=customer_principal(customer, via=VIA),
    )
    incoming = Incoming(text=text, binding=binding, conversation_id=conversation)
    return await shop.container.agent().take(incoming)


async def _lived(shop: Shop, order: str, mark: str, **who: str) -> dict[str, str]:
    """A conversation in which a refund was asked for; what came to be in it."""
    quote = {"tool": "quote_refund", "arguments": {"order_id": order}}
    quoted = await talk(shop, f"hoàn tiền {order} {mark}", quote, {"answer": f"Nhé {mark}?"}, **who)
    file = {"tool": "request_refund", "arguments": {"quote_id": quoted.quotes[0].id}}
    filed = await talk(
        shop, "đồng ý", file, {"answer": mark}, conversation=quoted.conversation_id, **who
    )
    return {
        "conversation": filed.conversation_id,
        "run": filed.run_id,
        "request": filed.requests[0].id,
    }


async def made_world(api: Api) -> World:
    """The shop, its keys and everybody's conversations."""
    shop, world = api.shop, World(api)
    endpoint, _ = await shop.container.webhooks().create(
        url=TARGET, events=tuple(EventType), by=HOST
    )
    world.note(OWN, **await _lived(shop, "A100", "của tôi", customer=OWNER))
    world.note(OTHERS, **await _lived(shop, "A205", MARKS[0], customer=OTHER))
    world.note(OTHER_KEYS, **await _lived(shop, "A102", MARKS[1], customer=OWNER, account="app"))
    world.note(OWN, gateway="stripe")
    world.note(OWN, task=await _task(shop, world.ids["conversation"][OWN]))
    world.note(OWN, endpoint=endpoint.id, delivery=await _delivery(shop, endpoint.id))
    for scope in Scope:
        world.keys[scope] = await _headers(api, scope)
    world.refused = await _refused(api)
    return world


async def _task(shop: Shop, conversation_id: str) -> str:
    task = Task(
        id=shop.container.ids().new("task"),
        kind="look_into",
        subject=conversation_id,
        conversation_id=conversation_id,
        created_at=shop.clock.now(),
        due_at=None,
        done_at=None,
    )
    await shop.write(lambda tx: tx.tasks.add(task))
    return task.id


async def _delivery(shop: Shop, endpoint_id: str) -> str:
    """One of what is on its way to the endpoint by now."""
    await next(chore for chore in shop.container.chores() if chore.name == "fanned").run()
    page = await shop.container.webhooks().deliveries(endpoint_id, state=None, limit=1, cursor=None)
    return page.data[0].id


async def _headers(api: Api, scope: Scope) -> Mapping[str, str]:
    """Of a key with exactly this scope."""
    if scope is Scope.CUSTOMERS_ACT:
        return await api.customer(OWNER, name=KEY_NAME)
    if scope is Scope.APPROVALS_DECIDE:
        return await api.staff(scope, name="desk-lan", approver="lan")
    return await api.staff(scope)


async def _refused(api: Api) -> dict[str, Mapping[str, str]]:
    """Headers that open nothing, by why."""
    keys = api.shop.container.api_keys()
    every = frozenset(Scope) - {Scope.CUSTOMERS_ACT}
    made = {}
    for name, lives in (("revoked", timedelta(days=1)), ("expired", timedelta(microseconds=1))):
        key, text = await keys.create(name=name, scopes=every, by=HOST, approver="lan", lives=lives)
        if name == "revoked":
            await keys.revoke(key.id, by=HOST)
        made[name] = text
    wrong = made["revoked"][:-3] + "abc"
    texts = made | {"wrong": wrong, "garbage": "sak_", "another's": "sk_live_0123456789"}
    found: dict[str, Mapping[str, str]] = {
        name: {"Authorization": f"Bearer {text}"} for name, text in texts.items()
    }
    forged = {"Support-Agent-Customer-Token": customer_token(OTHER)}
    return {"none": {}, "only a customer's token": forged, **found}


async def begun(
    app: FastAPI, path: str, headers: Mapping[str, str], address: str
) -> httpx2.Response:
    """A GET up to its first words; then the client is gone. For what does not end by itself."""
    came, status, told, text = asyncio.Event(), 0, httpx2.Headers(), b""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": (address, 1),
        "server": ("api", 80),
    }
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if asked:
            return asked.pop()
        await came.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, told, text
        if message["type"] == "http.response.start":
            status, told = message["status"], httpx2.Headers(message["headers"])
            return
        text += message.get("body", b"")
        if b"data:" in text or not message.get("more_body"):
            came.set()

    await asyncio.wait_for(app(scope, receive, send), 10)
    return httpx2.Response(status, headers=told, content=text)

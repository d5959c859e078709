"""Customers, approvers and readers who all come at once, and try again whatever goes away."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.api_kit import customer_token

PATIENCE_S = 30.0
GONE = (httpx2.TransportError, TimeoutError)
PASSING = {"IDEMPOTENCY_IN_FLIGHT", "RUN_BUSY"}  # refusals that are not for long
Headers = Mapping[str, str]


@dataclass(kw_only=True)
class Shore:
    """Where everybody asks: any of the servers. `seen` is how often each answer was given."""

    servers: Sequence[str]
    dice: random.Random
    seen: Counter[str] = field(default_factory=Counter)

    def server(self) -> str:
        return self.dice.choice(self.servers)

    async def ask(self, method: str, path: str, who: Headers, **rest: Any) -> httpx2.Response:
        """Its answer, sent again until there is one. Some clients do not wait for it at first."""
        hurry = self.dice.random() < 0.3
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(*GONE):
                    within_s = self.dice.choice((0.02, 0.1)) if hurry else PATIENCE_S
                    async with httpx2.AsyncClient(base_url=self.server(), timeout=within_s) as web:
                        answer = await web.request(method, path, headers=dict(who), **rest)
                    self.seen[f"{answer.status_code}"] += 1
                    code = answer.json()["code"] if answer.is_error else ""
                    if answer.status_code != 503 and code not in PASSING:
                        return answer
                hurry = hurry and self.dice.random() < 0.5
                await asyncio.sleep(self.dice.uniform(0.02, 0.2))

    async def given(self, method: str, path: str, who: Headers, **rest: Any) -> Any:
        """What a success says."""
        answer = await self.ask(method, path, who, **rest)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json()


@dataclass(kw_only=True)
class Talk:
    """A customer's conversation, and what was heard of it by its stream of events."""

    shore: Shore
    customer: str
    key: Headers
    id: str | None = None
    sent: list[tuple[int, str]] = field(default_factory=list)
    heard: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    reached: bool = False  # a server, by the last try to read
    over: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Task[None] | None = None

    @property
    def who(self) -> dict[str, str]:
        return {**self.key, "Support-Agent-Customer-Token": customer_token(self.customer)}

    async def say(self, text: str) -> Any:
        """The finished turn. Sent several times, at once too, it is one message."""
        where = f"/{self.id}/messages" if self.id else ""
        path, named = f"/v1/conversations{where}", f"{self.customer}-{len(self.sent)}"
        body, key = {"text": text, "message_id": named}, {"Idempotency-Key": named}
        times = self.shore.dice.choice((1, 2))
        sendings = (self.shore.given("POST", path, self.who | key, json=body) for _ in range(times))
        taken = {
            (one["conversation_id"], one["message"]["seq"])
            for one in await asyncio.gather(*sendings)
        }
        ((self.id, seq),) = taken
        self.sent.append((seq, text))
        turn = {"run_id": None}
        while "answer" not in turn:
            waits = {"Prefer": "wait=3"}
            turn = await self.shore.given("POST", path, self.who | waits, json=body)
            assert (turn["conversation_id"], turn["message"]["seq"]) in taken
        return turn

    async def messages(self) -> list[dict[str, Any]]:
        path = f"/v1/conversations/{self.id}/messages"
        page = await self.shore.given("GET", path, self.who, params={"limit": 100})
        assert not page["has_more"]
        found: list[dict[str, Any]] = page["data"]
        return found

    def follow(self) -> None:
        """Read its events beside everything else."""
        self.reading = self.reading or asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        """From server to server, until all is over and nothing more comes."""
        while True:
            was_over, before, self.reached = self.over.is_set(), len(self.heard), False
            with suppress(*GONE):
                async with asyncio.timeout(1 if was_over else self.shore.dice.uniform(0.1, 1.5)):
                    await self._read()
            if was_over and self.reached and len(self.heard) == before:
                return
            await asyncio.sleep(0.05)

    async def _read(self) -> None:
        last = {"Last-Event-ID": self.heard[-1][0]} if self.heard else {}
        path = f"/v1/conversations/{self.id}/events"
        async with (
            httpx2.AsyncClient(base_url=self.shore.server(), timeout=PATIENCE_S) as web,
            web.stream("GET", path, headers=self.who | last) as answer,
        ):
            assert answer.status_code in {200, 503}, await answer.aread()
            rest = b""
            async for chunk in answer.aiter_raw():
                self.reached = True
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    fields = dict(
                        line.split(": ", 1) for line in block.decode().split("\n") if line
                    )
                    if "data" in fields:
                        told = (fields["id"], fields["event"], json.loads(fields["data"]))
                        self.heard.append(told)


async def decide(
    shore: Shore, request_id: str, approvers: Mapping[str, Headers]
) -> list[httpx2.Response]:
    """Two approvers at once, one of them twice, on the version that both saw."""
    path = f"/v1/approvals/{request_id}"
    first = next(iter(approvers.values()))
    tag = {"If-Match": (await shore.ask("GET", path, first)).headers["etag"]}
    say = {"decision": shore.dice.choice(("approve", "approve", "reject"))}
    every = (*approvers.items(), next(iter(approvers.items())))
    return await asyncio.gather(
        *(
            shore.ask(
                "POST",
                f"{path}/decision",
                {**who, **tag, "Idempotency-Key": f"{name}-{request_id}"},
                json=say,
            )
            for name, who in every
        )
    )

"""What tests of queues and workers share: posting, and a worker that runs beside the test."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import psycopg

from support_agent.agent.turns import Incoming, Posted
from support_agent.container import Container, open_container
from support_agent.domain.runs import FinalAnswer, Usage
from support_agent.ports.model import ModelReply, ModelRequest
from support_agent.services.chores import ANSWERED, Chore
from support_agent.services.workers import Stop
from support_agent.testing.clock import FixedClock
from tests.kit import TODAY, Shop, binding_of, settings_for

PATIENCE_S = 20.0
HELLO = "Xin chào shop"
PROCRASTINATE = {"kind": "procrastinate", "poll_seconds": 0.2, "shutdown_seconds": 5}
INLINE = {"kind": "inline", "poll_seconds": 0.05, "shutdown_seconds": 5}


@asynccontextmanager
async def open_with(
    url: str, model: Any | None = None, *, now: datetime = TODAY, **sections: Any
) -> AsyncIterator[Shop]:
    """The shop of a seeded database with a model of one's own; by itself it only says yes."""
    clock, model = FixedClock(now), model or Gate()
    overrides = {"clock": clock, "model": model}
    async with open_container(settings_for(url, **sections), overrides=overrides) as container:
        yield Shop(container=container, clock=clock, model=model, url=url)


async def post(
    shop: Shop, text: str = HELLO, *, customer: str = "C001", conversation: str | None = None
) -> Posted:
    incoming = Incoming(text=text, binding=binding_of(customer), conversation_id=conversation)
    return await shop.container.agent().post(incoming)


def chores_of(container: Container) -> Sequence[Chore]:
    """What `support-agent worker` does beside answering."""
    return [chore for chore in container.chores() if chore.name != ANSWERED]


@asynccontextmanager
async def working(container: Container, *, chores: Sequence[Chore] = ()) -> AsyncIterator[Stop]:
    """A worker beside the block; stopped at its end, if it was not before."""
    stop = Stop()
    task = asyncio.create_task(container.worker(chores=chores).run(stop))
    try:
        yield stop
    finally:
        if not stop.asked.is_set():
            stop.ask()
        await asyncio.wait_for(task, PATIENCE_S)


async def eventually(look: Callable[[], Any], *, within_s: float = PATIENCE_S) -> Any:
    """What `look` gives once it is something; it may be awaitable."""
    async with asyncio.timeout(within_s):
        while True:
            found = look()
            if hasattr(found, "__await__"):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


async def authors(shop: Shop, conversation_id: str) -> list[str]:
    """Who wrote each message of a conversation, in order."""
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation_id))
    return [str(message.author) for message in messages]


async def answered(shop: Shop, conversation_id: str, *, times: int = 1) -> bool:
    """So many answers are there, and nothing is left to answer."""
    wrote = await authors(shop, conversation_id)
    return wrote.count("agent") >= times and not await shop.read(
        lambda tx: tx.conversations.due(limit=1)
    )


def jobs(url: str) -> list[tuple[Any, ...]]:
    """Every wake-up of the queue: task, arguments, status."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT task_name, args::text, status::text FROM procrastinate_jobs "
            "WHERE task_name NOT LIKE 'chore.%' ORDER BY id"
        ).fetchall()
    return [(task, json.loads(arguments), status) for task, arguments, status in found]


class Gate:
    """A model that says one thing: when it is let to, and it counts who waits for that."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.waiting = 0
        self.most = 0
        self.asked: list[ModelRequest] = []
        self.open = asyncio.Event()
        if is_open:
            self.open.set()

    async def decide(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.open.wait()
        finally:
            self.waiting -= 1
        usage = Usage(requests=1, input_tokens=1, output_tokens=1)
        return ModelReply(decision=FinalAnswer(text="Vâng."), usage=usage)

    async def aclose(self) -> None:
        pass

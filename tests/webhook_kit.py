"""Receivers of webhooks on this machine, which verify as an integrator does, and what sends them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from standardwebhooks import Webhook

from support_agent.adapters.db.tables import metadata
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.webhooks import EventType, WebhookEndpoint
from tests.kit import Shop

DELIVERIES = metadata.tables["webhook_deliveries"]
ENDPOINTS = metadata.tables["webhook_endpoints"]
LOCAL = {"private_targets": "127.0.0.1", "timeout_seconds": 2.0}
STAFF = Principal(
    kind=PrincipalKind.STAFF, id="host", person_id=None, proof=Proof.SYSTEM, via="test"
)
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"


def status(code: int, *headers: str) -> bytes:
    """A whole answer with this status."""
    lines = "".join(f"{header}\r\n" for header in ("Content-Length: 0", *headers))
    return f"HTTP/1.1 {code} Because\r\n{lines}\r\n".encode()


@dataclass(frozen=True)
class Came:
    """One request as it came over the wire."""

    line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def payload(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told

    def verified(self, secret: str) -> dict[str, Any]:
        """The payload, by the library that a receiver would use.

        Raises:
            WebhookVerificationError: not signed with the secret.
        """
        told: dict[str, Any] = Webhook(secret).verify(self.body, dict(self.headers))
        return told


@dataclass
class Receiver:
    """An endpoint of somebody else's. `answer` gives the bytes for a request; None hangs."""

    answer: Callable[[Came], bytes | None] = lambda _: TAKEN
    came: list[Came] = field(default_factory=list)
    url: str = ""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    serving: set[asyncio.Task[Any]] = field(default_factory=set)
    busy: int = 0
    most_busy: int = 0

    @property
    def types(self) -> list[str]:
        return [one.payload["type"] for one in self.came]

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.came]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self.connections += 1
        self.serving.add(this)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
                while True:
                    await self._one(reader, writer)
        finally:
            writer.transport.abort()
            self.serving.discard(this)

    async def end(self) -> None:
        """Cut every connection."""
        self.closing.set()
        for task in tuple(self.serving):
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)
        await asyncio.sleep(0)  # for what was cut to be closed

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in rest)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        came = Came(line=line, headers=headers, body=body)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            answer = self.answer(came)
            self.came.append(came)
            self.news.set()
            if answer is None:
                waits = [
                    asyncio.create_task(self.closing.wait()),
                    asyncio.create_task(reader.read(1)),
                ]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()
                raise ConnectionError
            writer.write(answer)
            await writer.drain()
        finally:
            self.busy -= 1


@asynccontextmanager
async def receiving(
    answer: Callable[[Came], bytes | None] | None = None, *, tls: Any = None
) -> AsyncIterator[Receiver]:
    """A receiver that listens for the time of the block."""
    receiver = Receiver() if answer is None else Receiver(answer=answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/events?from=agent"
    try:
        yield receiver
    finally:
        server.close()
        await receiver.end()
        await server.wait_closed()


async def endpoint(
    shop: Shop, receiver: Receiver, *events: EventType
) -> tuple[WebhookEndpoint, str]:
    """An endpoint at this receiver, of these events or of all, and its secret."""
    return await shop.container.webhooks().create(
        url=receiver.url, events=events or tuple(EventType), by=STAFF
    )


async def fan_out(shop: Shop) -> int:
    return await shop.container.webhook_fan_out().run()


async def send(shop: Shop) -> int:
    return await shop.container.webhook_sending().run()


async def tell(shop: Shop) -> int:
    """Everything that is due, out."""
    await fan_out(shop)
    return await send(shop)


async def later(shop: Shop) -> None:
    """When every pause and every lease is over."""
    over = sa.update(DELIVERIES).values(retry_at=0)
    await shop.container.database().run_write(lambda connection: connection.execute(over))


async def deliveries(shop: Shop) -> list[Any]:
    read = sa.select(DELIVERIES).order_by(DELIVERIES.c.id)
    return await shop.container.database().run_read(lambda c: list(c.execute(read)))


async def tasks(shop: Shop, kind: str) -> list[Any]:
    every = await shop.read(lambda tx: tx.tasks.list(open_only=True, limit=100))
    return [task for task in every if task.kind == kind]

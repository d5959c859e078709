"""Streams of events over real sockets: a server beside the test, and a client that reads them."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import httpx2
from fastapi import FastAPI
from uvicorn import Server

from support_agent.api.connections import ServerConfig
from tests.api_kit import Api

PATIENCE_S = 15.0


class _Server(Server):
    def __init__(self, config: ServerConfig) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
        return nullcontext()


@asynccontextmanager
async def served(app: FastAPI, *, unread_s: float = 60) -> AsyncIterator[str]:
    """The application on a port of its own; stopped as a serving process stops."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_000)
    listener.setblocking(False)
    config = ServerConfig(app, head_s=10, shutdown_s=5)
    config.unread_s = unread_s
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await server.listening.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        app.state.background.stop.asked.set()
        server.should_exit = True
        await serving
        listener.close()


@dataclass(frozen=True, kw_only=True)
class Heard:
    """One event as it came."""

    id: str
    name: str
    data: dict[str, Any]
    raw: bytes


class Reader:
    """Reads a stream; `comments` are what kept it alive."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self._lines = self._read()
        self._text = b""

    async def _read(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self.response.aiter_raw():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line
        assert rest == b"", "it broke off within a line"

    async def next(self) -> Heard | None:
        """The next event; None when the stream has ended."""
        fields: dict[str, bytes] = {}
        raw = b""
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                raw += line + b"\n"
                if line.startswith(b":"):
                    self.comments.append(line.decode())
                elif line:
                    name, _, value = line.partition(b": ")
                    fields[name.decode()] = value
                elif "data" in fields:
                    return Heard(
                        id=fields["id"].decode(),
                        name=fields["event"].decode(),
                        data=json.loads(fields["data"]),
                        raw=raw,
                    )
                else:
                    fields, raw = {}, b""
        return None

    async def rest(self) -> list[Heard]:
        """Everything until the stream ends."""
        found = []
        while (heard := await self.next()) is not None:
            found.append(heard)
        return found


@asynccontextmanager
async def reading(
    address: str, path: str, who: dict[str, str], *, after: str | None = None
) -> AsyncIterator[Reader]:
    """An open stream, in a connection of its own."""
    headers = {**who, **({"Last-Event-ID": after} if after else {})}
    async with (
        httpx2.AsyncClient(base_url=address, timeout=PATIENCE_S) as client,
        client.stream("GET", path, headers=headers) as response,
    ):
        assert response.status_code == 200, await response.aread()
        yield Reader(response)


async def heard(
    address: str, path: str, who: dict[str, str], *, after: str | None = None
) -> list[Heard]:
    """All of a stream that ends."""
    async with reading(address, path, who, after=after) as reader:
        return await reader.rest()


def open_streams(api: Api) -> int:
    """How many the application has."""
    return len(api.app.state.streams._open)

"""An HTTP server on the loopback address that passes requests on, and breaks down where told to."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as it came over the wire; header names are in lower case."""

    method: str
    target: str  # path and query
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(document: Any, status: int = 200) -> HttpReply:  # noqa: ANN401 - any JSON value
    """A reply with this JSON in it."""
    return HttpReply(status=status, body=json.dumps(document).encode())


class Fault(Enum):
    """What happens to a request instead of its answer."""

    DROP_BEFORE = auto()  # the connection breaks, nothing was passed on
    DROP_RESPONSE = auto()  # passed on, and the connection breaks before the answer
    HANG_BEFORE = auto()  # nothing passed on, and silence
    HANG_AFTER = auto()  # passed on, and silence
    ERROR_BEFORE = auto()  # 500, nothing passed on
    ERROR_AFTER = auto()  # passed on, and answered 500
    CUT = auto()  # passed on, and the connection breaks inside the answer


_BEFORE = frozenset({Fault.DROP_BEFORE, Fault.HANG_BEFORE, Fault.ERROR_BEFORE})
_DROPS = frozenset({Fault.DROP_BEFORE, Fault.DROP_RESPONSE})
_HANGS = frozenset({Fault.HANG_BEFORE, Fault.HANG_AFTER})
_BROKEN = HttpReply(status=500, body=b'{"error": {"type": "api_error", "message": "simulated"}}')

# Answers a request; a server behind the proxy, or a function that stands in for one.
Backend = Callable[[HttpRequest], Awaitable[HttpReply]]


class FaultProxy:
    """In front of a backend, on a free port of 127.0.0.1; use it as an async context manager.

    Faults are for requests that change something: the k-th POST meets the k-th of them. Leaving it
    ends what hangs.

    Example:
        async with FaultProxy(forward_to(port)) as proxy:
            proxy.will(Fault.DROP_RESPONSE)  # the next POST; the ones after it are answered
    """

    def __init__(self, backend: Backend, *, answers: Mapping[str, HttpReply] | None = None) -> None:
        """`answers` are given by `"METHOD /path"` without asking the backend."""
        self._backend = backend
        self._answers = dict(answers or {})
        self._faults: deque[Fault | HttpReply] = deque()
        self._open: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.requests: list[HttpRequest] = []
        self.hangs = asyncio.Event()  # set once a request got no answer and never will

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the proxy is not open")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def posts(self) -> tuple[HttpRequest, ...]:
        """Every request that could change something, in order."""
        return tuple(request for request in self.requests if request.method == "POST")

    def will(self, *faults: Fault | HttpReply) -> None:
        """What the next POSTs meet, one each; a reply is given in the backend's place."""
        self._faults.extend(faults)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        try:
            while (request := await _read_request(reader)) is not None:
                answer, whole = await self._answer(request)
                writer.write(answer)
                await writer.drain()
                if not whole:
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the proxy is closing
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, request: HttpRequest) -> tuple[bytes, bool]:
        """What is written for a request, and whether it is whole; else the connection breaks."""
        self.requests.append(request)
        fault = self._faults.popleft() if request.method == "POST" and self._faults else None
        if isinstance(fault, HttpReply):
            return _written(fault), True
        reply = _BROKEN if fault in _BEFORE else await self._reply(request)
        if fault in _HANGS:
            self.hangs.set()
            await asyncio.Event().wait()
        written = _written(_BROKEN if fault is Fault.ERROR_AFTER else reply)
        if fault in _DROPS:
            return b"", False
        if fault is Fault.CUT:
            return written[: len(written) - len(reply.body) // 2], False
        return written, True

    async def _reply(self, request: HttpRequest) -> HttpReply:
        known = self._answers.get(f"{request.method} {request.path}")
        return await self._backend(request) if known is None else known


def forward_to(port: int) -> Backend:
    """A server on this machine as the backend; each request takes a connection of its own."""

    async def forward(request: HttpRequest) -> HttpReply:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            kept = {
                name: value
                for name, value in request.headers.items()
                if name not in {"connection", "accept-encoding", "host", "content-length"}
            }
            headers = {
                **kept,
                "host": f"127.0.0.1:{port}",
                "connection": "close",
                "content-length": str(len(request.body)),
            }
            first = f"{request.method} {request.target} HTTP/1.1"
            writer.write(_head(first, headers) + request.body)
            await writer.drain()
            return await _read_reply(reader)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    return forward


async def _read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    try:
        first, headers = await _read_head(reader)
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = first.split(" ", 2)
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return HttpRequest(method=method, target=target, headers=headers, body=body)


async def _read_reply(reader: asyncio.StreamReader) -> HttpReply:
    first, headers = await _read_head(reader)
    length = headers.get("content-length")
    body = await (reader.read() if length is None else reader.readexactly(int(length)))
    kept = {name: value for name, value in headers.items() if name.startswith("request-id")}
    return HttpReply(status=int(first.split(" ", 2)[1]), body=body, headers=kept)


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return first, {name.strip().lower(): value.strip() for name, value in pairs}


def _written(reply: HttpReply) -> bytes:
    headers = {
        "content-type": "application/json",
        "content-length": str(len(reply.body)),
        **reply.headers,
    }
    return _head(f"HTTP/1.1 {reply.status} Simulated", headers) + reply.body


def _head(first: str, headers: Mapping[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")

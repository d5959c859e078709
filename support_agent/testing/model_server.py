"""A real model server on the loopback address that answers, and fails, to a script."""

import json
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from types import TracebackType
from typing import Any, Literal, Self

Fault = Literal["hang", "reset", "cut", "stall"]

CHAT_PATH = "/v1/chat/completions"
MESSAGES_PATH = "/v1/messages"
_JSON = "application/json"
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReply:
    """What one request is answered with.

    `chunks` are sent one by one in place of `body`, with a pause after each. A `fault` stands in
    for it: "hang" keeps silent, "reset" breaks the connection off before an answer, "cut" in the
    middle of the body, "stall" keeps silent from there on.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    chunks: tuple[bytes, ...] = ()
    pause_s: float = 0.0

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The body as it goes over the wire: chunks framed, or all of it in one."""
        if not self.chunks:
            return (self.body,)
        return (*(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in self.chunks), b"0\r\n\r\n")

    @property
    def first_half(self) -> tuple[bytes, ...]:
        if not self.chunks:
            return (self.body[: len(self.body) // 2],)
        return self.pieces[: len(self.chunks) // 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """A request as it came over the wire; header names are in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401 - any JSON value
        return json.loads(self.body)


def answer(text: str, *, usage: Mapping[str, int] | None = None) -> ServerReply:
    """A completion with text for the customer."""
    return completion({"role": "assistant", "content": text}, usage=usage)


def calls(
    *called: tuple[str, str],
    ids: Sequence[str | None] | None = None,
    content: str | None = None,
    usage: Mapping[str, int] | None = None,
) -> ServerReply:
    """A completion with tool calls: pairs of name and arguments text. A None id is left out."""
    names = ids or [f"call_{index}" for index in range(len(called))]
    entries: list[dict[str, Any]] = [
        {"type": "function", "function": {"name": name, "arguments": arguments}}
        | ({} if call_id is None else {"id": call_id})
        for call_id, (name, arguments) in zip(names, called, strict=True)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": entries}
    return completion(message, finish_reason="tool_calls", usage=usage)


def completion(
    message: Mapping[str, Any],
    *,
    finish_reason: str = "stop",
    usage: Mapping[str, int] | None = None,
) -> ServerReply:
    """A completion around any message, odd ones included."""
    document: dict[str, Any] = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
    }
    if usage is not None:
        document["usage"] = usage
    return ServerReply(body=json.dumps(document, ensure_ascii=False).encode())


def failure(status: int, *, code: str = "", **headers: str) -> ServerReply:
    """An error status; `retry_after="2"` becomes the header Retry-After."""
    body = {"error": {"message": "scripted failure", "code": code or None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ServerReply(status=status, body=json.dumps(body).encode(), headers=named)


class ModelServer:
    """Answers the k-th request with the k-th reply; use it as a context manager.

    It runs in threads of its own, so an event loop under test never serves itself, and it is
    gone with all of them on leaving. A request beyond the script gets HTTP 500 and is listed in
    `requests` like the others. So is one for a path that is none of `paths`: it gets HTTP 404 and
    uses no reply up. With a `certificate` (a PEM file that holds its key too) it speaks TLS.
    """

    def __init__(
        self,
        replies: Iterable[ServerReply] = (),
        *,
        paths: Iterable[str] = (CHAT_PATH, MESSAGES_PATH),
        certificate: Path | None = None,
    ) -> None:
        self._script = _Script(list(replies), frozenset(paths))
        self._server = _Server(self._script, _tls(certificate))
        self._scheme = "https" if certificate else "http"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def base_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        with self._script.news:
            return tuple(self._script.requests)

    @property
    def connections(self) -> int:
        """How many have been made so far."""
        with self._script.news:
            return self._script.connections_made

    def add(self, *replies: ServerReply) -> None:
        with self._script.news:
            self._script.replies += replies

    def wait_for_requests(self, count: int) -> None:
        """Block until `count` requests have come; AssertionError when they do not."""
        requests, news = self._script.requests, self._script.news
        with news:
            if not news.wait_for(lambda: len(requests) >= count, _PATIENCE_S):
                raise AssertionError(f"{len(requests)} requests came, not {count}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._script.end()
        self._server.server_close()
        self._thread.join()


class _Script:
    """What the server's threads share, under one lock."""

    def __init__(self, replies: list[ServerReply], paths: frozenset[str]) -> None:
        self.replies = replies
        self.requests: list[ReceivedRequest] = []
        self._paths = paths
        self._taken = 0
        self.connections_made = 0
        self.news = threading.Condition()
        self.ended = threading.Event()
        self._connections: set[socket.socket] = set()

    def take(self, request: ReceivedRequest) -> ServerReply:
        with self.news:
            self.requests.append(request)
            self.news.notify_all()
            if request.path.partition("?")[0] not in self._paths:
                return failure(404, code="no_such_path")
            self._taken += 1
            if self._taken <= len(self.replies):
                return self.replies[self._taken - 1]
        return failure(500, code="script_at_its_end")

    def connected(self, connection: socket.socket) -> None:
        with self.news:
            self.connections_made += 1
            self._connections.add(connection)
            if self.ended.is_set():
                _shut(connection)

    def disconnected(self, connection: socket.socket) -> None:
        with self.news:
            self._connections.discard(connection)

    def end(self) -> None:
        with self.news:
            self.ended.set()
            for connection in self._connections:
                _shut(connection)


def _shut(connection: socket.socket) -> None:
    # One that is kept alive would hold its thread in a read for ever.
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _tls(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


class _Server(ThreadingTCPServer):
    daemon_threads = False  # so that server_close() joins them
    request_queue_size = 64

    def __init__(self, script: _Script, tls: ssl.SSLContext | None) -> None:
        self.script = script
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            # The handshake is left to the thread of the connection: one that fails ends only that.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as inherited
        # A client that goes away in the middle is what some tests are about.
        if not isinstance(sys.exception(), (ConnectionError, ssl.SSLError)):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a pause between chunks is the script's own
    server: _Server
    connection: socket.socket

    def setup(self) -> None:
        super().setup()
        self.server.script.connected(self.connection)

    def finish(self) -> None:
        self.server.script.disconnected(self.connection)
        super().finish()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(length)
        reply = self.server.script.take(ReceivedRequest(path=self.path, headers=headers, body=body))
        self._answer(reply)

    def _answer(self, reply: ServerReply) -> None:
        match reply.fault:
            case "hang":
                self._keep_silent()
            case "reset":
                self._reset()
            case "cut":
                self._send(reply, reply.first_half)
                self.close_connection = True
            case "stall":
                self._send(reply, reply.first_half)
                self._keep_silent()
            case None:
                self._send(reply, reply.pieces)

    def _send(self, reply: ServerReply, pieces: tuple[bytes, ...]) -> None:
        if not reply.pause_s:
            # In one write: two would wait for each other's acknowledgement.
            self.wfile.write(_head(reply) + b"".join(pieces))
            return
        self.wfile.write(_head(reply))
        for piece in pieces:
            self.wfile.write(piece)
            if self.server.script.ended.wait(reply.pause_s):
                break

    def _keep_silent(self) -> None:
        self.server.script.ended.wait()
        self.close_connection = True

    def _reset(self) -> None:
        at_once = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        os.close(self.connection.detach())
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        """Tests read `requests`; nothing is printed."""


def _head(reply: ServerReply) -> bytes:
    framing = (
        {"Transfer-Encoding": "chunked"}
        if reply.chunks
        else {"Content-Length": str(len(reply.body))}
    )
    headers = {"Content-Type": reply.content_type, **framing, **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")

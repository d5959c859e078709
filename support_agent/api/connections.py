"""How the server takes connections: its limits, its log, and requests that are no HTTP."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import structlog
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from support_agent.api.problems import MEDIA_TYPE, Problem

HEAD_BYTES = 32_768  # of a request: a key, a customer's token and what proxies add
BACKLOG = 512  # connections that wait to be taken
UNFINISHED = "ASGI callable returned without completing response."  # a stream that nobody reads
UNREAD_S = 60.0  # that a client may leave unread what was sent to it; then the system hangs up
KEEP_S = 15.0  # a connection without a request; longer than most clients keep theirs
ANSWERING = (h11.SEND_RESPONSE, h11.SEND_BODY)

log = structlog.get_logger(__name__)


class Connection(H11Protocol):
    """Also closes a connection whose next request does not say in time what it wants.

    And one that is too many: what is left of the process's files is for those that are served.
    """

    _due: asyncio.TimerHandle | None = None
    config: "ServerConfig"

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as h11's
        super().connection_made(transport)
        if len(self.connections) > self.config.most:
            transport.abort()
            return
        _give_up_unread(transport, within_s=self.config.unread_s)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_more_due()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.our_state in ANSWERING:
            self._no_more_due()
        elif self._due is None:
            self._await_head()

    def on_response_complete(self) -> None:
        self._no_more_due()  # the rest of a body came late; from here on keep-alive counts
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as HTTP is answered in the form of every other error."""
        problem = Problem(
            title="Bad Request",
            status=400,
            detail="this is not a request in HTTP/1.1, or its head is too large",
            code="BAD_REQUEST",
            request_id="",  # no request came to be
        )
        body = problem.model_dump_json().encode()
        head = (
            "HTTP/1.1 400 Bad Request\r\n"
            f"content-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _await_head(self) -> None:
        self._due = self.loop.call_later(self.config.head_s, self._too_slow)

    def _no_more_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _too_slow(self) -> None:
        self._due = None
        if not self.transport.is_closing():
            self.transport.close()


def _give_up_unread(transport: asyncio.Transport, *, within_s: float) -> None:
    """A client that stops reading would hold its connection, and what is to be sent, for good."""
    sock = transport.get_extra_info("socket")
    if hasattr(socket, "TCP_USER_TIMEOUT") and sock.family != socket.AF_UNIX:  # Linux has it
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(within_s * 1_000))


class ServerConfig(Config):
    """One process, HTTP/1.1, nothing believed of proxies, nothing told of the software."""

    def __init__(
        self, app: ASGIApp, *, head_s: float, shutdown_s: float, most: int = 10_000
    ) -> None:
        """`most`: connections at once; `head_s`: how long the head of a request may take."""
        super().__init__(
            app,
            http=Connection,
            loop="none",  # whoever serves has one
            ws="none",
            lifespan="off",  # the container is opened and closed around the server
            log_config=None,
            access_log=False,  # it would tell ids and tokens
            proxy_headers=False,
            server_header=False,
            interface="asgi3",
            backlog=BACKLOG,
            timeout_keep_alive=round(KEEP_S),
            timeout_graceful_shutdown=max(1, round(shutdown_s)),
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        self.head_s = head_s
        self.most = most
        self.unread_s = UNREAD_S


class _Bridge(logging.Handler):
    """The server's own messages in our log. What a client alone can cause is no warning."""

    def emit(self, record: logging.LogRecord) -> None:
        raised = record.exc_info[1] if record.exc_info else None
        text = record.getMessage().strip()
        is_cut = isinstance(raised, asyncio.CancelledError) or text == UNFINISHED
        if record.levelno >= logging.ERROR and not is_cut:
            log.error("server.failed", said=text, **_raised(raised))
        else:
            log.info("server.said", said=text)


def _raised(error: BaseException | None) -> dict[str, Any]:
    return {} if error is None else {"exc_info": error}


@contextmanager
def server_logged() -> Iterator[None]:
    """Within the block what uvicorn says goes to structlog, and nowhere else."""
    logger, bridge = logging.getLogger("uvicorn"), _Bridge()
    speaker = logging.getLogger("uvicorn.error")  # whose level another server may have set
    propagates, levels = logger.propagate, (logger.level, speaker.level)
    logger.addHandler(bridge)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    speaker.setLevel(logging.NOTSET)
    try:
        yield
    finally:
        logger.removeHandler(bridge)
        logger.propagate = propagates
        logger.setLevel(levels[0])
        speaker.setLevel(levels[1])

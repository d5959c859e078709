"""Serving the API from this process, with a worker beside it, until it is told to stop."""

import asyncio
import errno
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import structlog
from uvicorn import Server

from support_agent.api.app import create_app, worker_beside
from support_agent.api.background import Background
from support_agent.api.connections import BACKLOG, ServerConfig, server_logged
from support_agent.container import Container
from support_agent.domain.errors import InvalidInput, SupportAgentError
from support_agent.services.workers import Stop, called_off

log = structlog.get_logger(__name__)
REQUESTS_BESIDE = 1_024  # connections beside streams
FILES_BESIDE = 256  # that are open beside connections: the database, models, the gateway
Announce = Callable[[str], None]


class WorkerEnded(SupportAgentError):
    """The worker of this process is gone, which nobody asked it to."""

    def __init__(self) -> None:
        super().__init__("the worker ended by itself; the log has more")


async def serve(
    container: Container,
    *,
    host: str,
    port: int,
    work: bool,
    stop: Stop,
    listening: Announce,
) -> None:
    """Serve until it is told to stop; `listening` is told the address once there is one.

    Told to stop it takes no new connections, ends streams and gives requests and turns
    QUEUE__SHUTDOWN_SECONDS; told twice it lets go at once. What is not done then is left to the
    next process, as after a crash.

    Raises:
        InvalidInput: there is no such address, or it is taken.
        ConfigurationError: something that is needed to answer is missing.
        WorkerEnded: it did.
    """
    settings = container.settings()
    container.agent()  # says at once what is missing, a model's key too
    worker = worker_beside(container) if work else None
    app = create_app(container)
    background: Background = app.state.background
    shutdown_s = settings.queue.shutdown_seconds
    config = ServerConfig(
        app,
        head_s=settings.api.body_seconds,
        shutdown_s=shutdown_s,
        most=_allow_files(settings.api.max_streams + REQUESTS_BESIDE),
    )
    with _bound(host, port) as listener, server_logged():
        server = _Server(config, listening=lambda: listening(_address(listener)))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        working = background.work(worker) if worker is not None else None
        try:
            await _until_one_ends(serving, working, stop)
            ended_by_itself = not stop.asked.is_set() and not serving.done()
            server.should_exit = True
            await _closed(server, serving, background, stop, within_s=shutdown_s)
        finally:
            serving.cancel()
            await background.aclose(within_s=0)
    if ended_by_itself:
        raise WorkerEnded


class _Server(Server):
    """Signals are ours; what it says when it listens is ours, too."""

    def __init__(self, config: ServerConfig, *, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]  # as narrow as it needs
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    def cut(self) -> None:
        """Let go of every connection."""
        self.force_exit = True
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        for task in tuple(self.server_state.tasks):
            task.cancel()


async def _until_one_ends(
    serving: asyncio.Task[None], working: asyncio.Task[None] | None, stop: Stop
) -> None:
    asked = asyncio.create_task(stop.asked.wait())
    tasks = {serving, asked, *({working} if working is not None else ())}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()


async def _closed(
    server: _Server,
    serving: asyncio.Task[None],
    background: Background,
    stop: Stop,
    *,
    within_s: float,
) -> None:
    """The requests end first, as they may wait for turns; then what is left behind them."""
    over = time.monotonic() + within_s
    background.stop.asked.set()

    async def hurry() -> None:
        await stop.at_once.wait()
        background.stop.at_once.set()
        server.cut()

    hurrying = asyncio.create_task(hurry())
    try:
        await serving
        await called_off(tuple(server.server_state.tasks))  # of requests that took too long
        await background.aclose(within_s=max(0.0, over - time.monotonic()))
    finally:
        hurrying.cancel()


@contextmanager
def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that has the address; one of a name that has several."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host,
            port,
            type=socket.SOCK_STREAM,
            proto=socket.IPPROTO_TCP,
            flags=socket.AI_PASSIVE,
        )[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput("--host", f"{host!r} is no address of this machine") from error
    # With its protocol: of a socket without one asyncio does not know that it is TCP, and lets the
    # body of each answer wait for the client's word that the head has come (Nagle), 40 ms.
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            raise _refused(error, host, port) from error
        yield listener


def _refused(error: OSError, host: str, port: int) -> InvalidInput:
    match error.errno:
        case errno.EADDRINUSE:
            return InvalidInput("--port", f"{port} is taken by another server; choose another")
        case errno.EACCES:
            return InvalidInput("--port", f"{port} needs rights that this process has not")
        case errno.EADDRNOTAVAIL:
            return InvalidInput("--host", f"{host!r} is no address of this machine")
    return InvalidInput("--host", f"{host!r} cannot be listened at: {error.strerror}")


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _allow_files(connections: int) -> int:
    """How many of the connections may be open at once, each of which is an open file.

    Shells allow 1,024 files where the system has many more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_BESIDE
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("server.few_files", allowed=allowed, wanted=wanted)
    return max(1, allowed - FILES_BESIDE)

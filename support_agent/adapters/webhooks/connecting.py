"""Connections to addresses that were looked at: a name is resolved, checked, then connected to."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpcore2

from support_agent.domain.webhook_targets import is_public

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
MOST_ADDRESSES = 4  # of one name that are tried
MOST_QUESTIONS = 32  # at once, each of another name


class AddressRefused(Exception):
    """The name leads to an address where no event may go."""


class Unresolved(Exception):
    """The name leads nowhere, or its servers did not say."""


class Names:
    """Every address of a name, as this machine resolves it.

    A question cannot be called off: it keeps its thread until the name's servers answer, or the
    machine gives them up. So the threads are ours, not those on which the rest of the process
    resolves, and a name that is being asked for is not asked for again.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST_QUESTIONS, thread_name_prefix="webhook-names")
        self._asked: dict[tuple[str, int], asyncio.Future[Sequence[str]]] = {}

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """As `Resolve`.

        Raises:
            OSError, UnicodeError: it leads nowhere, or is no name.
        """
        question = (host, port)
        answer = self._asked.get(question)
        if answer is None:
            loop = asyncio.get_running_loop()
            answer = loop.run_in_executor(self._threads, _addresses, host, port)
            self._asked[question] = answer
            answer.add_done_callback(partial(self._answered, question))
        return await asyncio.shield(answer)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _answered(self, question: tuple[str, int], answer: "asyncio.Future[Sequence[str]]") -> None:
        del self._asked[question]
        if not answer.cancelled():
            answer.exception()  # maybe nobody waits for it any more


def _addresses(host: str, port: int) -> Sequence[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))


async def allowed_addresses(
    host: str, port: int, *, resolve: Resolve, private_hosts: frozenset[str]
) -> Sequence[str]:
    """Where a connection to the host may go, which is nowhere if one of its addresses is inside.

    Raises:
        AddressRefused, Unresolved: see there.
    """
    try:
        ipaddress.ip_address(host)
        addresses: Sequence[str] = (host,)
    except ValueError:
        try:
            addresses = await resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Unresolved(host) from error
    if not addresses:
        raise Unresolved(host)
    if host not in private_hosts and not all(map(_is_public, addresses)):
        raise AddressRefused(host)
    return addresses[:MOST_ADDRESSES]


def _is_public(address: str) -> bool:
    try:
        return is_public(ipaddress.ip_address(address))
    except ValueError:  # with a zone: of this machine's own networks
        return False


class _ClosedStream(httpcore2.AsyncNetworkStream):
    """A connection that is closed also when it is called off in the middle of the TLS greeting."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - the interface's
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the interface's
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            await self._stream.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the interface's
        return self._stream.get_extra_info(info)


class CheckedConnections(httpcore2.AsyncNetworkBackend):
    """Resolves by itself and connects to exactly what it checked.

    Whoever answers for the name cannot say one thing to the check and another to the connection.
    TLS and the Host header keep to the name.
    """

    def __init__(self, *, resolve: Resolve, private_hosts: frozenset[str]) -> None:
        self._resolve = resolve
        self._private_hosts = private_hosts
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first of its addresses that answers.

        Raises:
            AddressRefused, Unresolved: see there.
            httpcore2.ConnectError, httpcore2.ConnectTimeout: none of them answered.
        """
        addresses = await allowed_addresses(
            host, port, resolve=self._resolve, private_hosts=self._private_hosts
        )
        *others, last = addresses
        # A part of the time for each: one that swallows everything must not use up the others'.
        part = None if timeout is None else timeout / len(addresses)
        for address in others:
            with contextlib.suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await self._connected(address, port, part, local_address, socket_options)
        return await self._connected(last, port, part, local_address, socket_options)

    async def _connected(self, *where: Any) -> httpcore2.AsyncNetworkStream:  # noqa: ANN401 - as given
        return _ClosedStream(await self._network.connect_tcp(*where))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface's
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise AddressRefused(path)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

"""Signs events by Standard Webhooks and sends them; bounded in time, size and direction."""

import asyncio
import contextlib
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from support_agent.domain.errors import ConfigurationError, InvalidInput
from support_agent.domain.webhook_targets import FIELD, Target, not_public, parse_target
from support_agent.ports.webhooks import Answer, ToEndpoint

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from support_agent.adapters.webhooks.connecting import Names, Resolve

MOST_BYTES = 65_536  # that are read of an answer, which says nothing to us
READ_S = 1.0  # for them: the status is the answer
MOST_CONNECTIONS = 100
_WAITING = frozenset({429, 503})  # statuses whose Retry-After counts
_LONGEST_NUMBER = 9


class HttpWebhookSender:
    """POSTs to https addresses of the open internet, and to the hosts that are listed beside it.

    One pool of connections a process, made when it is first needed. It takes nothing from the
    environment but the certificates of authorities, and follows no redirect.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        private_hosts: frozenset[str] = frozenset(),
        resolve: "Resolve | None" = None,
        tls: "ssl.SSLContext | None" = None,
    ) -> None:
        self._timeout_s = timeout_s
        self._private_hosts = private_hosts
        self._own_resolve = resolve
        self._tls = tls
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._names: Names | None = None

    async def check(self, url: str) -> None:
        from support_agent.adapters.webhooks.connecting import (
            AddressRefused,
            Unresolved,
            allowed_addresses,
        )

        target = parse_target(url, private_hosts=self._private_hosts)
        try:
            async with asyncio.timeout(self._timeout_s):
                await allowed_addresses(
                    target.host,
                    target.port,
                    resolve=self._resolve,
                    private_hosts=self._private_hosts,
                )
        except AddressRefused as error:
            raise InvalidInput(FIELD, not_public(target.host)) from error
        except (Unresolved, TimeoutError) as error:
            raise InvalidInput(FIELD, "has a host that cannot be found") from error

    async def send(self, message: ToEndpoint) -> Answer:
        import httpcore2

        from support_agent.adapters.webhooks.connecting import AddressRefused, Unresolved

        try:
            # Again: the row may be older than the setting, or written by somebody else than us.
            target = parse_target(message.url, private_hosts=self._private_hosts)
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._post(target, message, limit)
        except (AddressRefused, InvalidInput):
            return Answer(error="address_refused")
        except Unresolved:
            return Answer(error="host_not_found")
        except (TimeoutError, httpcore2.TimeoutException):
            return Answer(error="timeout")
        except httpcore2.ConnectError as error:
            return Answer(error="tls" if _is_tls(error) else "not_connected")
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError):
            return Answer(error="no_answer")

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()
            self._pool = None
        if self._names is not None:
            self._names.close()
            self._names = None

    async def _post(self, target: Target, message: ToEndpoint, limit: asyncio.Timeout) -> Answer:
        import httpcore2

        url = httpcore2.URL(
            scheme=target.scheme, host=target.host, port=target.port, target=target.path
        )
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)
        async with self._connections.stream(
            "POST",
            url,
            headers=[(b"Host", target.authority.encode()), *_headers(message)],
            content=message.body.encode(),
            extensions={"timeout": limits},
        ) as response:
            wait_s = None
            if response.status in _WAITING:
                wait_s = _retry_after(response.headers, message.at)
            # The answer came in time, and is not to be lost over what follows it.
            limit.reschedule(asyncio.get_running_loop().time() + 2 * READ_S)
            await _read_away(response)
            return Answer(status=response.status, wait_s=wait_s)

    @property
    def _resolve(self) -> "Resolve":
        if self._own_resolve is not None:
            return self._own_resolve
        if self._names is None:
            from support_agent.adapters.webhooks.connecting import Names

            self._names = Names()
        return self._names.resolve

    @property
    def _connections(self) -> "httpcore2.AsyncConnectionPool":
        if self._pool is None:
            import httpcore2
            import httpx2

            from support_agent.adapters.webhooks.connecting import CheckedConnections

            self._pool = httpcore2.AsyncConnectionPool(
                # An operator's own certificates all the same, by SSL_CERT_FILE or SSL_CERT_DIR.
                ssl_context=self._tls or httpx2.create_ssl_context(),
                max_connections=MOST_CONNECTIONS,
                keepalive_expiry=self._timeout_s,
                network_backend=CheckedConnections(
                    resolve=self._resolve, private_hosts=self._private_hosts
                ),
            )
        return self._pool


def _headers(message: ToEndpoint) -> list[tuple[bytes, bytes]]:
    headers = {
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": "support-agent",
        "webhook-id": message.id,
        "webhook-timestamp": str(math.floor(message.at.timestamp())),
        "webhook-signature": _signatures(message),
    }
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _signatures(message: ToEndpoint) -> str:
    """One of each secret, the newest first, with blanks between."""
    try:
        from standardwebhooks import Webhook
    except ImportError as error:
        raise ConfigurationError(
            "webhooks need an extra: pip install 'support-agent[api]'"
        ) from error
    at = message.at.astimezone(UTC)
    signed = (Webhook(secret).sign(message.id, at, message.body) for secret in message.secrets)
    return " ".join(signed)


async def _read_away(response: "httpcore2.Response") -> None:
    """What is short is read, so that the connection can be used again; more of it is cut off."""
    import httpcore2

    size = 0
    cut_off = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError)
    with contextlib.suppress(TimeoutError, *cut_off):
        async with asyncio.timeout(READ_S):
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > MOST_BYTES:
                    break


def _retry_after(headers: list[tuple[bytes, bytes]], now: datetime) -> float | None:
    """Seconds or a date (RFC 9110, 10.2.3); None when it is neither."""
    given = next((value for name, value in headers if name.lower() == b"retry-after"), b"")
    text = given.decode("ascii", errors="replace").strip()
    if text.isascii() and text.isdigit():
        return float(text[:_LONGEST_NUMBER])
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())


def _is_tls(error: BaseException) -> bool:
    import ssl

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False

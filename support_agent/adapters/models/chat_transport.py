"""The HTTP client under the vendor's: aiohttp where the extra is installed, httpx2 otherwise."""

import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import httpx2

Transport = Literal["aiohttp", "httpx2"]

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # an operator's own


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """A client, with what it raises.

    `failures` are all its ways to fail; `unsent` those of them that come before anything was sent.
    """

    client: "httpx2.AsyncClient"
    failures: tuple[type[Exception], ...]
    unsent: tuple[type[Exception], ...]


def http_client(transport: Transport | None, **options: Any) -> HttpClient:  # noqa: ANN401 - passed on
    """The client of a transport; None takes the cheapest that is installed."""
    import httpx2
    import openai

    # A client raises its own errors, the vendor's around them, and plain ones of the socket.
    failures = (httpx2.RequestError, openai.APIConnectionError, OSError)
    own = tuple(map(os.environ.get, _CERTIFICATES))
    options = {"verify": _trusted(own), **options}
    if (transport or _cheapest()) == "httpx2":
        return HttpClient(
            client=openai.DefaultAsyncHttpxClient(**options),
            failures=failures,
            unsent=(
                httpx2.ConnectError,
                httpx2.ConnectTimeout,
                httpx2.PoolTimeout,
                httpx2.ProxyError,
            ),
        )
    import aiohttp

    return HttpClient(
        client=openai.DefaultAioHttpClient(**options),
        # The vendor's bridge cannot take a reason phrase that is not UTF-8.
        failures=(*failures, aiohttp.ClientError, UnicodeError),
        # The vendor maps a connection that breaks off to httpx2.ConnectTimeout, so only aiohttp's
        # own errors tell.
        unsent=(
            aiohttp.ClientConnectorError,
            aiohttp.ConnectionTimeoutError,
            aiohttp.ClientHttpProxyError,
        ),
    )


@cache
def _trusted(own: tuple[str | None, ...]) -> ssl.SSLContext:  # noqa: ARG001 - the key
    """The certificates to trust: read once, as it takes longer than all the rest of a client."""
    import httpx2

    return httpx2.create_ssl_context()


def _cheapest() -> Transport:
    return "aiohttp" if find_spec("aiohttp") else "httpx2"


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, down to the first."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def tls_problem(error: BaseException) -> ssl.SSLError | None:
    """Why no encrypted connection came about, if that is why."""
    problems = [cause for cause in causes(error) if isinstance(cause, ssl.SSLError)]
    return problems[-1] if problems else None  # aiohttp's own, around it, has no reason

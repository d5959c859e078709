"""The official Stripe package, spoken over one asyncio connection pool and without its retries."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import stripe

# What the package measures of this machine and its last requests; not needed to refund anything.
_TELEMETRY = frozenset({"x-stripe-client-user-agent", "x-stripe-client-telemetry"})


class Transport(stripe.HTTPClient):
    """Carries the package's requests; each takes `timeout_s` at most, from first to last byte."""

    name = "httpx2"

    def __init__(self, *, timeout_s: float, loopback: bool) -> None:
        super().__init__()
        self._timeout_s = timeout_s
        # A proxy of the environment is for the world outside, not for a server on this machine.
        # One deadline for all of a request; one that ended a TLS greeting would leave its socket
        # open, which the client closes only when it gives up by itself.
        limits = httpx2.Timeout(None, connect=timeout_s * 0.9)
        self._client = httpx2.AsyncClient(timeout=limits, trust_env=not loopback)

    async def request_async(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        post_data: Any = None,  # noqa: ANN401 - as inherited
    ) -> tuple[bytes, int, Mapping[str, str]]:
        sent = {name: value for name, value in headers.items() if name.lower() not in _TELEMETRY}
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._client.request(method, url, headers=sent, content=post_data)
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
            # The package's own error: whoever calls it needs to know no other.
            told = f"no answer: {type(error).__name__}"
            raise stripe.APIConnectionError(told) from error  # type: ignore[no-untyped-call] # theirs
        return answer.content, answer.status_code, answer.headers

    async def close_async(self) -> None:
        await self._client.aclose()


def open_client(*, key: str, url: str | None, timeout_s: float) -> tuple[Any, Transport]:
    """A client with a key, an address and a pool of its own; nothing of the package is global."""
    transport = Transport(timeout_s=timeout_s, loopback=url is not None)
    client = stripe.StripeClient(
        key,
        base_addresses={"api": url} if url else {},
        max_network_retries=0,  # our own services resend, after they have looked
        http_client=transport,
    )
    return client, transport

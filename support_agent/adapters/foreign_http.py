"""How foreign systems are asked over HTTP: bounded, and never sent anywhere else."""

from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

GREETING = 0.9  # the part of the time that connecting may take


class TooLong(Exception):
    """An answer has more bytes than any that is meant."""


def open_client(
    *, headers: Mapping[str, str], timeout_s: float, limits: "httpx2.Limits", verify: bool = True
) -> "httpx2.AsyncClient":
    """A client that follows no redirect, keeps no cookie and uses no proxy of the environment's.

    The deadline is the caller's, for all of a request and not for each byte.
    """
    import httpx2

    return httpx2.AsyncClient(
        # What is compressed may be any size once it is not.
        headers={"accept": "application/json", "accept-encoding": "identity", **headers},
        follow_redirects=False,
        trust_env=False,  # no proxy and no password of the environment's
        # An operator's own certificates all the same, by SSL_CERT_FILE or SSL_CERT_DIR.
        verify=verify and httpx2.create_ssl_context(),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # keeps none
        # A deadline that ended a TLS greeting would leave its socket open: the client closes it
        # only when it gives up by itself.
        timeout=httpx2.Timeout(None, connect=timeout_s * GREETING),
        limits=limits,
    )


async def read_at_most(answer: "httpx2.Response", most: int) -> bytes:
    """The body as it was sent.

    Raises:
        TooLong: it is longer.
    """
    body = bytearray()
    async for chunk in answer.aiter_raw():
        body += chunk
        if len(body) > most:
            raise TooLong
    return bytes(body)

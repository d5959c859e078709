"""Asking a shop's API: bounded in time and size, and never sent anywhere else."""

import asyncio
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

from support_agent.adapters.foreign_http import TooLong, open_client, read_at_most
from support_agent.adapters.foreign_json import no_constant, once_each
from support_agent.domain.errors import OrdersUnavailable

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 1_048_576
_MOST_CONNECTIONS = 10


class ShopHttp:
    """GETs JSON. Whatever is no answer is OrdersUnavailable, without the secret or the answer.

    One client a process, made when it is first needed; it follows no redirect and takes nothing
    from the environment, so that the headers reach the asked host alone.
    """

    def __init__(
        self, *, headers: Mapping[str, str], timeout_s: float, most_bytes: int = MOST_BYTES
    ) -> None:
        self._headers = headers
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._client: httpx2.AsyncClient | None = None

    async def get(self, url: str) -> object:
        """The JSON behind an address; None when the shop has nothing there.

        Numbers with a point are Decimal.

        Raises:
            OrdersUnavailable: no answer in time, or none that can be read.
        """
        import httpx2

        client = self._open()
        try:
            async with asyncio.timeout(self._timeout_s), client.stream("GET", url) as response:
                if response.status_code == 404:
                    return None
                _check(response)
                return read_json(await read_at_most(response, self._most_bytes))
        except TooLong:
            _no_answer(f"sent more than {self._most_bytes} bytes")
        except TimeoutError as error:
            seconds = f"{self._timeout_s:g}"
            raise OrdersUnavailable(
                f"the shop's order system did not answer within {seconds} s"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            kind = type(error).__name__
            raise OrdersUnavailable(
                f"the shop's order system cannot be reached ({kind})"
            ) from error

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _open(self) -> "httpx2.AsyncClient":
        import httpx2

        if self._client is None:
            self._client = open_client(
                headers=self._headers,
                timeout_s=self._timeout_s,
                limits=httpx2.Limits(max_connections=_MOST_CONNECTIONS),
            )
        return self._client


def _check(response: "httpx2.Response") -> None:
    status = response.status_code
    if 300 <= status < 400:
        _no_answer(f"answered {status}; redirects are not followed, write the address itself")
    if status in {401, 403}:
        _no_answer(f"answered {status}: it does not accept ORDERS__AUTH")
    if status != 200:
        _no_answer(f"answered {status}")
    kind, _, parameters = response.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        _no_answer("answered something else than JSON")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if "charset=" in charset and "charset=utf-8" not in charset.split(";"):
        _no_answer("answered JSON that is not in UTF-8")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        _no_answer("answered what is compressed, which was not asked for")


def read_json(body: bytes) -> object:
    """Strict JSON in UTF-8: each key once, no NaN, numbers with a point as Decimal.

    Raises:
        OrdersUnavailable: it is not, or it is nested too deeply.
    """
    try:
        return json.loads(
            body.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=no_constant,
            object_pairs_hook=once_each,
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        kind = type(error).__name__
        raise OrdersUnavailable(
            f"the shop's order system answered no JSON that can be read ({kind})"
        ) from error


def _no_answer(what: str) -> NoReturn:
    raise OrdersUnavailable(f"the shop's order system {what}")

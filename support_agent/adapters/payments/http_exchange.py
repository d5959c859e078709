"""One signed POST to the shop's refund endpoint, and its answer: whole, in time, or none."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from support_agent.adapters.foreign_http import TooLong, open_client, read_at_most
from support_agent.adapters.payments.http_answers import Json, error_code, read_object
from support_agent.adapters.payments.http_errors import meaning
from support_agent.adapters.payments.http_signing import Signing
from support_agent.domain.errors import PaymentDeclined, PaymentOutcomeUnknown

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 1024 * 1024
_JSON = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json", re.IGNORECASE)


class Exchange:
    """Asks, with `timeout_s` for all of it, from the first byte to the last.

    No text raised here repeats the address, a secret or the server's own words.
    """

    def __init__(self, *, url: str, signing: Signing, timeout_s: float) -> None:
        self._url = url
        self._signing = signing
        self._timeout_s = timeout_s
        self._opened: httpx2.AsyncClient | None = None

    async def ask(self, question: Mapping[str, Any], *, key: str | None = None) -> Json:
        """The answer to a question. The same question is always sent as the same bytes.

        Raises:
            PaymentDeclined: nothing was sent, as the question cannot be written down.
            PaymentError: what else than an answer came; see `http_errors`.
        """
        import httpx2

        body = json.dumps(question, ensure_ascii=False, separators=(",", ":"))
        try:
            content = body.encode("utf-8")
        except UnicodeEncodeError as error:  # half a surrogate pair: no id of any payment
            raise PaymentDeclined("payment_unknown") from error
        headers = {**self._signing.headers(body), **({"idempotency-key": key} if key else {})}
        client = self._client  # made before the time runs: reading certificates takes a while
        try:
            async with asyncio.timeout(self._timeout_s):
                status, told = await self._post(client, content, headers)
        except TooLong as error:
            raise PaymentOutcomeUnknown("the refund endpoint's answer does not end") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            # OSError is TimeoutError as well.
            raise PaymentOutcomeUnknown(f"no answer: {type(error).__name__}") from error
        if status != 200:
            raise meaning(status, error_code(told))
        return read_object(told)

    async def _post(
        self, client: "httpx2.AsyncClient", content: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Status and body; of what is no JSON there is no body."""
        async with client.stream("POST", self._url, content=content, headers=headers) as answer:
            kind = answer.headers.get("content-type", "").partition(";")[0].strip()
            packed = answer.headers.get("content-encoding", "identity") != "identity"
            readable = _JSON.fullmatch(kind) is not None and not packed
            return answer.status_code, await read_at_most(answer, MOST_BYTES) if readable else b""

    @property
    def _client(self) -> "httpx2.AsyncClient":
        if self._opened is None:
            import httpx2

            self._opened = open_client(
                headers={"content-type": "application/json", "user-agent": "support-agent"},
                timeout_s=self._timeout_s,
                # A connection that idled may be closed by now, which would look like a lost answer.
                limits=httpx2.Limits(max_keepalive_connections=0),
                # Certificates take a while to read, and http:// to this machine needs none.
                # A scheme may be written HTTPS; whatever is not plain is verified.
                verify=urlsplit(self._url).scheme != "http",
            )
        return self._opened

    async def aclose(self) -> None:
        if self._opened is not None:
            await self._opened.aclose()

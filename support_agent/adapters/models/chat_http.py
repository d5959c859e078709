"""One POST to a chat-completion server: the vendor's client, our limits and our errors."""

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from support_agent.adapters.models.chat_address import URL_SETTING, ChatAddress
from support_agent.adapters.models.chat_errors import http_failure
from support_agent.adapters.models.chat_reading import ReplyReader
from support_agent.adapters.models.chat_replies import Completion
from support_agent.adapters.models.chat_transport import Transport, http_client
from support_agent.adapters.models.http_failures import no_answer
from support_agent.adapters.models.http_limits import LONGEST_ERROR, read_limited
from support_agent.domain.prices import Price

if TYPE_CHECKING:
    import httpx2

_CONNECT_S = 5.0
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def encoded(value: object) -> bytes:
    """A value as JSON in UTF-8, never escaped."""
    # Half a surrogate pair in a customer's text must not stop the conversation: it becomes ?.
    return _ENCODER.encode(value).encode("utf-8", "replace")


class ChatHttp:
    """Sends bodies to `/chat/completions`; the vendor's client is built once and kept.

    No text raised here repeats the key or a server's own words.
    """

    def __init__(
        self,
        address: ChatAddress,
        *,
        price: Price | None = None,
        transport: Transport | None = None,
    ) -> None:
        import httpx2
        import openai

        self._openai = openai
        self._httpx2 = httpx2
        self._price = price
        self._http = http_client(
            transport,
            event_hooks={"response": [_refuse_failure]},
            follow_redirects=False,
            trust_env=not address.is_loopback,  # no proxy on the way to this machine
        )
        # Without retries: a wrapper asks again, so that budget, deadline and record see each call.
        self._client = openai.AsyncOpenAI(
            api_key=address.api_key,
            base_url=address.base_url,
            max_retries=0,
            http_client=self._http.client,
        )
        # Whole, so that it is not put together anew for each request.
        self._url = f"{address.base_url.rstrip('/')}/chat/completions"
        # What the vendor's client reads from the environment by itself would go to any address, a
        # fallback's too, and may replace its key.
        self._client.organization = self._client.project = None
        self._client._custom_headers = {}  # noqa: SLF001 - there is no other way to say none

    async def post(self, body: Mapping[str, Any] | bytes, *, timeout_s: float) -> Completion:
        """The answer to a body, or to its JSON, whole or streamed, within `timeout_s` in all.

        Raises:
            ContextTooLong: the body is.
            ModelUnavailable: no answer, not in time, or one that broke off.
            ModelReplyInvalid: the answer is no completion.
            ConfigurationError: key, model or address are refused.
        """
        sent = body if isinstance(body, bytes) else encoded(body)
        reader = ReplyReader(sent=sent, price=self._price, failures=self._http.failures)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(sent, reader, timeout_s)
        except self._http.failures as failure:  # OSError is one, and TimeoutError one of its kind
            raise no_answer(
                failure,
                client=self._http,
                url_setting=URL_SETTING,
                timeout_s=timeout_s,
                lost=reader.estimate,
            ) from None

    async def _post(self, sent: bytes, reader: ReplyReader, timeout_s: float) -> Completion:
        connect_s = min(_CONNECT_S, timeout_s)
        response = cast(
            "httpx2.Response",
            await self._client.post(
                self._url,
                cast_to=self._httpx2.Response,
                content=sent,
                options={"timeout": self._httpx2.Timeout(timeout_s, connect=connect_s)},
                stream=True,  # the body is left unread, so that it can be read with a limit
                stream_cls=self._openai.AsyncStream[object],
            ),
        )
        try:
            return await reader.read(response)
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        await self._client.close()


async def _refuse_failure(response: "httpx2.Response") -> None:
    """Raise our error for any status but success, a redirect included: none is followed.

    A hook of the HTTP client, because the vendor's client reads the body of a failure whole,
    however long it is, and puts it into its message.
    """
    if not response.is_success:
        body = await read_limited(response, LONGEST_ERROR)
        raise http_failure(response.status_code, response.headers, body)

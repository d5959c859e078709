"""One POST to the Messages API: the vendor's client, our limits and our errors."""

import asyncio
from typing import TYPE_CHECKING, cast

from support_agent.adapters.models.anthropic_errors import ANTHROPIC, PATH, http_failure
from support_agent.adapters.models.anthropic_replies import Answer
from support_agent.adapters.models.chat_address import ChatAddress
from support_agent.adapters.models.chat_transport import Transport, http_client
from support_agent.adapters.models.chat_usage import estimated_usage
from support_agent.adapters.models.http_failures import no_answer
from support_agent.adapters.models.http_limits import (
    LONGEST_ERROR,
    LONGEST_REPLY,
    media_type,
    read_limited,
)
from support_agent.domain.errors import ConfigurationError, ModelReplyInvalid
from support_agent.domain.prices import Price
from support_agent.domain.runs import Usage

if TYPE_CHECKING:
    import httpx2

_CONNECT_S = 5.0


class AnthropicHttp:
    """Sends bodies to `/v1/messages`; the vendor's client is built once and kept.

    No text raised here repeats the key or a server's own words.

    Raises:
        ConfigurationError: the extra is not installed; at construction.
    """

    def __init__(
        self, address: ChatAddress, *, price: Price | None, transport: Transport | None = None
    ) -> None:
        try:
            import anthropic
        except ImportError:
            raise ConfigurationError(
                "is anthropic, which needs the extra: pip install 'support-agent[anthropic]'",
                setting="SUPPORT_AGENT_MODEL__KIND",
            ) from None
        import httpx2

        self._anthropic = anthropic
        self._httpx2 = httpx2
        self._price = price
        self._http = http_client(
            transport,
            event_hooks={"response": [_refuse_failure]},
            follow_redirects=False,
            trust_env=not address.is_loopback,  # no proxy on the way to this machine
        )
        # OSError is one of them, and so is TimeoutError, which is of its kind.
        self._failures: tuple[type[Exception], ...] = (
            *self._http.failures,
            anthropic.APIConnectionError,
        )
        self._client = anthropic.AsyncAnthropic(
            api_key=address.api_key,
            base_url=address.base_url,
            max_retries=0,  # a wrapper asks again, so that each attempt is counted
            open_telemetry=False,  # what customers write goes to the model and nowhere else
            http_client=self._http.client,
        )
        # What the vendor's client reads from the environment by itself would go to any address.
        self._client._custom_headers = {}  # noqa: SLF001 - there is no other way to say none

    async def post(self, content: bytes, *, timeout_s: float) -> Answer:
        """The server's answer, of any shape, within `timeout_s` in all.

        Raises:
            ContextTooLong: the server does not take that much.
            ModelUnavailable: no answer, or not in time; has what it may have cost.
            ModelReplyInvalid: the answer is too long to be one.
            ConfigurationError: key, model or address are refused.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(content, timeout_s)
        except self._failures as failure:
            raise no_answer(
                failure,
                client=self._http,
                url_setting=ANTHROPIC.url_setting,
                timeout_s=timeout_s,
                lost=lambda: self._lost(content),
            ) from None

    async def _post(self, content: bytes, timeout_s: float) -> Answer:
        connect_s = min(_CONNECT_S, timeout_s)
        response = cast(
            "httpx2.Response",
            await self._client.post(
                PATH,
                cast_to=self._httpx2.Response,
                content=content,
                options={"timeout": self._httpx2.Timeout(timeout_s, connect=connect_s)},
                stream=True,  # the body is left unread, so that it can be read with a limit
                stream_cls=self._anthropic.AsyncStream[object],
            ),
        )
        try:
            body = await read_limited(response, LONGEST_REPLY)
        finally:
            await response.aclose()
        if len(body) > LONGEST_REPLY:
            raise ModelReplyInvalid(
                f"the reply is longer than {LONGEST_REPLY} bytes", usage=self._lost(content)
            )
        return Answer(sent=content, body=body, media_type=media_type(response.headers))

    def _lost(self, content: bytes) -> Usage:
        """What a request may have cost that brought no whole answer."""
        return estimated_usage(content, {}, self._price)

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

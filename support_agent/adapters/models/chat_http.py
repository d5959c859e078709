"""One POST to a chat-completion server: the vendor's client, our limits and our errors."""

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from support_agent.adapters.models.chat_address import (
    KEY_SETTING,
    NAME_SETTING,
    URL_SETTING,
    ChatAddress,
)
from support_agent.adapters.models.chat_replies import error_code
from support_agent.domain.errors import (
    ConfigurationError,
    ModelReplyInvalid,
    ModelUnavailable,
    SupportAgentError,
)

if TYPE_CHECKING:
    import httpx2

_LONGEST_REPLY = 4 * 1024 * 1024
_LONGEST_ERROR = 64 * 1024
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
# A wrong setting must not look like an outage.
_WRONG_SETTING: Mapping[int, tuple[str, str]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: (
            KEY_SETTING,
            f"the model server does not accept the key; see also {URL_SETTING}",
        ),
        HTTPStatus.FORBIDDEN: (
            KEY_SETTING,
            f"the key may not use this model or server; see also {NAME_SETTING}, {URL_SETTING}",
        ),
        HTTPStatus.NOT_FOUND: (
            NAME_SETTING,
            f"the server has no such model or no chat completions; see also {URL_SETTING}",
        ),
    }
)


class ChatHttp:
    """Sends bodies to `/chat/completions`; the vendor's client is built once and kept.

    No text raised here repeats the key or a server's own words.
    """

    def __init__(self, address: ChatAddress) -> None:
        import httpx2
        import openai

        self._openai = openai
        self._httpx2 = httpx2
        # Without retries: the loop retries, so that budget, deadline and record see each attempt.
        self._client = openai.AsyncOpenAI(
            api_key=address.api_key,
            base_url=address.base_url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [_refuse_failure]},
                trust_env=not address.is_loopback,  # no proxy on the way to this machine
            ),
        )

    async def post(self, body: Mapping[str, Any], *, timeout_s: float) -> bytes:
        """The body of the server's answer, of any shape, within `timeout_s` in all.

        Raises:
            ModelUnavailable: no answer, or not in time.
            ModelReplyInvalid: the answer is too long to be one.
            ConfigurationError: key, model or address are refused.
        """
        # Half a surrogate pair in a customer's text must not stop the conversation: it becomes ?.
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        try:
            async with asyncio.timeout(timeout_s):
                return await self._post(content.encode("utf-8", "replace"), timeout_s)
        except (TimeoutError, self._openai.APITimeoutError, self._httpx2.TimeoutException):
            raise ModelUnavailable(f"the model gave no answer in {timeout_s:g} s") from None
        except self._httpx2.DecodingError:
            raise ModelReplyInvalid("the reply is not what its Content-Encoding says") from None
        except (self._openai.APIConnectionError, self._httpx2.RequestError) as error:
            cause = type(error.__cause__ or error).__name__
            raise ModelUnavailable(f"no connection to the model server ({cause})") from None

    async def _post(self, content: bytes, timeout_s: float) -> bytes:
        response = cast(
            "httpx2.Response",
            await self._client.post(
                "/chat/completions",
                cast_to=self._httpx2.Response,
                content=content,
                options={"timeout": timeout_s},
                stream=True,  # the body is left unread, so that it can be read with a limit
                stream_cls=self._openai.AsyncStream[object],
            ),
        )
        try:
            body = await _read(response, _LONGEST_REPLY)
        finally:
            await response.aclose()
        if len(body) > _LONGEST_REPLY:
            raise ModelReplyInvalid(f"the reply is longer than {_LONGEST_REPLY} bytes")
        return body

    async def aclose(self) -> None:
        await self._client.close()


async def _refuse_failure(response: "httpx2.Response") -> None:
    """Raise our error for any status but success, a redirect included: none is followed.

    A hook of the HTTP client, because the vendor's client reads the body of a failure whole,
    however long it is, and puts it into its message.
    """
    if not response.is_success:
        body = await _read(response, _LONGEST_ERROR)
        raise _failure(response.status_code, response.headers, error_code(body))


async def _read(response: "httpx2.Response", limit: int) -> bytes:
    """The body, or a little more than `limit` bytes of it."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


def _failure(status: int, headers: Mapping[str, str], code: str | None) -> SupportAgentError:
    what = f"HTTP {status}, {code}" if code else f"HTTP {status}"
    if status in _WRONG_SETTING:
        setting, problem = _WRONG_SETTING[status]
        return ConfigurationError(f"{problem} ({what})", setting=setting)
    if status < HTTPStatus.BAD_REQUEST:
        return ConfigurationError(
            f"the server points elsewhere ({what}); name that address itself", setting=URL_SETTING
        )
    # Any other 4xx is this one conversation's trouble (too long, filtered): there is no answer,
    # and telling the model about it would not help.
    return ModelUnavailable(
        f"the model server refused the request ({what})", retry_after=_retry_after(headers)
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a number or an HTTP date (RFC 9110, 10.2.3); None when it says neither."""
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    then = _http_date(value)
    if then is None:
        return None
    # Against the server's own clock where it names it: ours may be wrong.
    now = _http_date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (then - now).total_seconds())


def _http_date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

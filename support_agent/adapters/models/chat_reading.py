"""Reads what a chat-completion server answers under HTTP 200: JSON or a stream, within limits."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from support_agent.adapters.models.chat_address import URL_SETTING
from support_agent.adapters.models.chat_errors import told_failure
from support_agent.adapters.models.chat_replies import Completion
from support_agent.adapters.models.chat_stream import ChatStream
from support_agent.adapters.models.chat_usage import counted_usage, estimated_usage
from support_agent.adapters.models.http_limits import (
    LONGEST_REPLY,
    may_be_json,
    media_type,
    read_limited,
)
from support_agent.domain.errors import ModelReplyInvalid, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.domain.runs import Usage

if TYPE_CHECKING:
    import httpx2

_LONGEST_STREAM = 4 * LONGEST_REPLY  # each word comes in an envelope of its own
_LINGER_S = 0.2  # for what may follow a stream's end, so that the connection can be used again
_STREAM_TYPE = "text/event-stream"


class ReplyReader:
    """Reads the answer to one request; keeps in mind what was sent, as it may have to be paid."""

    def __init__(
        self, *, sent: bytes, price: Price | None, failures: tuple[type[Exception], ...]
    ) -> None:
        self._sent = sent
        self._price = price
        self._failures = failures
        self._stream = ChatStream()

    def estimate(self) -> Usage:
        """What the request may cost although its answer did not come, or not all of it."""
        return estimated_usage(self._sent, self._stream.message, self._price)

    async def read(self, response: "httpx2.Response") -> Completion:
        """The answer as one document.

        Raises:
            ModelReplyInvalid: it is no completion.
            ModelUnavailable: it says that the server failed, broke off, or is no model server's.
        """
        labelled = media_type(response.headers)
        if labelled == _STREAM_TYPE:
            document = await self._read_stream(response)
        else:
            document = self._document(await read_limited(response, LONGEST_REPLY), labelled)
        message = _first_message(document)
        usage = counted_usage(
            document.get("usage"), sent=self._sent, message=message, price=self._price
        )
        return Completion(document=document, usage=usage)

    def _document(self, body: bytes, labelled: str) -> Mapping[str, Any]:
        if len(body) > LONGEST_REPLY:
            raise self._too_long(LONGEST_REPLY)
        try:
            document = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            if not may_be_json(labelled):
                raise ModelUnavailable(
                    f"the server answered with {labelled}, not with JSON; see {URL_SETTING}",
                    may_pass=False,
                ) from None
            raise self._invalid("the reply is not JSON in UTF-8") from None
        if not isinstance(document, dict):
            raise self._invalid("the reply is not a chat completion")
        failure = told_failure(document)
        if failure is not None:
            raise failure
        return document

    async def _read_stream(self, response: "httpx2.Response") -> Mapping[str, Any]:
        chunks = response.aiter_bytes()
        try:
            await self._feed(chunks)
        except ModelReplyInvalid as error:
            error.usage = self.estimate()
            raise
        except ModelUnavailable as error:
            if self._stream.message:  # it had begun to answer
                error.usage = self.estimate()
            raise
        if not self._stream.is_complete:
            raise ModelUnavailable("the reply broke off", usage=self.estimate())
        with suppress(*self._failures):  # what goes wrong after the end is no loss
            async with asyncio.timeout(_LINGER_S):
                await anext(chunks, None)
        return self._stream.document()

    async def _feed(self, chunks: AsyncIterator[bytes]) -> None:
        length = 0
        async for chunk in chunks:
            length += len(chunk)
            if length > _LONGEST_STREAM:
                raise self._too_long(_LONGEST_STREAM)
            self._stream.feed(chunk)
            if self._stream.is_done:
                return
        self._stream.end()

    def _too_long(self, limit: int) -> ModelReplyInvalid:
        return self._invalid(f"the reply is longer than {limit} bytes")

    def _invalid(self, problem: str) -> ModelReplyInvalid:
        return ModelReplyInvalid(problem, usage=self.estimate())


def _first_message(document: Mapping[str, Any]) -> object:
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first.get("message") if isinstance(first, dict) else None

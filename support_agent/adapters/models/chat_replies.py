"""The body of a chat completion as a decision and what it cost."""

import json
import re
from collections.abc import Mapping
from typing import Any

from support_agent.adapters.prices import Price
from support_agent.domain.errors import ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply

_MOST_TOKENS = 10**12  # more is a broken counter, and would not fit a database column
# Words or an HTTP status: a server that echoes the API key as a code does not get it logged.
_ERROR_CODE = re.compile(r"[a-z_]{3,48}|\d{3}")
# Half a surrogate pair or a NUL cannot be stored, so such a reply could not be committed.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def read_reply(body: bytes, *, call_prefix: str, price: Price | None) -> ModelReply:
    """Judge a body that came with HTTP 200; `call_prefix` is `run_id:step`.

    Raises:
        ModelReplyInvalid: it is no chat completion or holds no decision; has what it cost.
        ModelUnavailable: it says that the server failed.
    """
    completion = _completion(body)
    usage = _usage(completion.get("usage"), price)
    try:
        return ModelReply(decision=_decision(completion, call_prefix), usage=usage)
    except ModelReplyInvalid as error:
        error.usage = usage
        raise


def error_code(body: bytes) -> str | None:
    """The short code of a server's error body. Its message is foreign text and stays out."""
    try:
        return _code(json.loads(body))
    except (ValueError, RecursionError):
        return None


def _completion(body: bytes) -> Mapping[str, Any]:
    try:
        completion = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ModelReplyInvalid("the reply is not JSON in UTF-8") from None
    if not isinstance(completion, dict):
        raise ModelReplyInvalid("the reply is not a chat completion")
    if completion.get("error") and not completion.get("choices"):
        code = _code(completion) or "no code"
        raise ModelUnavailable(f"the model server answered with an error ({code})")
    return completion


def _code(document: object) -> str | None:
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return None
    named = (error.get(key) for key in ("code", "type"))
    return next((str(name) for name in named if _ERROR_CODE.fullmatch(str(name or ""))), None)


def _usage(counts: object, price: Price | None) -> Usage:
    counts = counts if isinstance(counts, dict) else {}
    input_tokens = _count(counts.get("prompt_tokens"))
    output_tokens = _count(counts.get("completion_tokens"))
    return Usage(
        requests=1,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_micros=price.cost_micros(input_tokens, output_tokens) if price else 0,
    )


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0


def _decision(completion: Mapping[str, Any], call_prefix: str) -> Decision:
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelReplyInvalid("the reply is not a chat completion: it has no message")
    text = _text(message.get("content"))
    calls = message.get("tool_calls")
    if calls:
        return CallTools(calls=_calls(calls, call_prefix), thought=text)
    if text:
        return FinalAnswer(text=text)
    raise ModelReplyInvalid(_why_empty(message, choice.get("finish_reason")))


def _why_empty(message: Mapping[str, Any], finish_reason: object) -> str:
    if message.get("refusal"):
        return "the reply is a refusal: answer the customer in text, or call a tool"
    if finish_reason == "length":
        return "the reply was cut off at the output limit before any text or call: be brief"
    if finish_reason == "content_filter":
        return "the reply was withheld by the provider's content filter"
    return "the reply is empty: answer the customer in text, or call a tool"


def _text(content: object) -> str:
    if isinstance(content, list):
        content = "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    if content is None:
        return ""
    return _storable(content, "text").strip()


def _calls(entries: object, call_prefix: str) -> tuple[ToolCall, ...]:
    if not isinstance(entries, list):
        raise ModelReplyInvalid("the tool calls of the reply are not a list")
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for index, entry in enumerate(entries):
        call = _call(entry, f"{call_prefix}:{index}", taken)
        taken.add(call.provider_id)
        calls.append(call)
    return tuple(calls)


def _call(entry: object, call_id: str, taken: set[str]) -> ToolCall:
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(function, dict):
        raise ModelReplyInvalid("a tool call of the reply names no function")
    name = _storable(function.get("name"), "function name")
    if not name:
        raise ModelReplyInvalid("a tool call of the reply names no function")
    provider_id = entry.get("id")
    return ToolCall(
        id=call_id,
        provider_id=_provider_id(provider_id, taken) or f"call_{call_id}",
        name=name,
        arguments=_arguments(function.get("arguments")),
    )


def _provider_id(value: object, taken: set[str]) -> str | None:
    if not isinstance(value, str) or not value or value in taken:
        return None
    return None if _UNSTORABLE.search(value) else value


def _arguments(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _storable(value, "arguments")
    # Some servers send the object itself in place of its text.
    return _storable(json.dumps(value, ensure_ascii=False), "arguments")


def _storable(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ModelReplyInvalid(f"the {what} of the reply is not a string")
    if _UNSTORABLE.search(value):
        raise ModelReplyInvalid(f"the {what} of the reply is not valid Unicode text")
    return value

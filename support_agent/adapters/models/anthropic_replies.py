"""The body of a message of the Messages API as a decision and what it cost."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from support_agent.adapters.models.anthropic_errors import ANTHROPIC, told_failure
from support_agent.adapters.models.chat_replies import CUT_OFF
from support_agent.adapters.models.chat_usage import estimated_usage
from support_agent.adapters.models.http_limits import may_be_json
from support_agent.adapters.models.reply_values import (
    made_up_id,
    storable,
    token_count,
    usable_id,
)
from support_agent.adapters.models.written_calls import written_decision
from support_agent.domain.errors import ContextTooLong, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.domain.runs import CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply

Blocks = list[dict[str, Any]]

_NO_TEXT = {
    "max_tokens": "the reply was cut off at the output limit before any text or call: be brief",
    "pause_turn": "the reply stopped in the middle: answer the customer in text, or call a tool",
}
_EMPTY = "the reply is empty: answer the customer in text, or call a tool"
_REFUSED = "the reply is a refusal: answer the customer in text, or call a tool"
_HALF_A_CALL = "the reply was cut off at the output limit in the middle of a call: be brief"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came with HTTP 200, and what it answers."""

    sent: bytes
    body: bytes
    media_type: str


def read_message(
    answer: Answer,
    *,
    call_prefix: str,
    tool_names: frozenset[str],
    price: Price | None,
    state: Callable[[Blocks], str],
) -> ModelReply:
    """Judge an answer.

    `call_prefix` is `run_id:step`; `state` makes the text to keep of a reply's content.

    Raises:
        ContextTooLong: the reply does not fit behind so long a request.
        ModelReplyInvalid: it is no message or holds no decision; has what it cost.
        ModelUnavailable: it says that the server failed.
    """
    message: Mapping[str, Any] = {}
    try:
        message = _message(answer)
        return ModelReply(
            decision=_decision(message, call_prefix, tool_names, state),
            usage=_usage_of(message, answer.sent, price),
        )
    except (ModelReplyInvalid, ContextTooLong) as error:
        error.usage = _usage_of(message, answer.sent, price)
        raise


def _message(answer: Answer) -> Mapping[str, Any]:
    try:
        message = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError):
        if not may_be_json(answer.media_type):
            raise ModelUnavailable(
                f"the server answered with {answer.media_type}, not with JSON; "
                f"see {ANTHROPIC.url_setting}",
                may_pass=False,
            ) from None
        raise ModelReplyInvalid("the reply is not JSON in UTF-8") from None
    if not isinstance(message, dict):
        raise ModelReplyInvalid("the reply is not a message")
    failure = told_failure(message)
    if failure is not None:
        raise failure
    return message


def _usage_of(message: Mapping[str, Any], sent: bytes, price: Price | None) -> Usage:
    """As the server counted; estimated where it did not, so that a budget holds."""
    counted = _usage(message.get("usage"), price)
    return counted or estimated_usage(sent, {"content": message.get("content")}, price)


def _usage(counts: object, price: Price | None) -> Usage | None:
    """What was counted, None when nothing was.

    What is kept in the server's cache was sent like the rest; it costs a quarter more to keep and
    a tenth to read.
    """
    counted = counts if isinstance(counts, dict) else {}
    sent = token_count(counted.get("input_tokens"))
    kept = token_count(counted.get("cache_creation_input_tokens"))
    read = token_count(counted.get("cache_read_input_tokens"))
    output = token_count(counted.get("output_tokens"))
    if not (sent or kept or read):
        return None
    billed = sent + kept + -(-kept // 4) + -(-read // 10)
    return Usage(
        requests=1,
        input_tokens=sent + kept + read,
        output_tokens=output,
        cost_micros=price.cost_micros(billed, output) if price else 0,
    )


def _content(content: object) -> Blocks:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise ModelReplyInvalid("the reply is not a message: it has no content")
    return content


def _decision(
    message: Mapping[str, Any],
    call_prefix: str,
    tool_names: frozenset[str],
    state: Callable[[Blocks], str],
) -> Decision:
    content, stop = _content(message.get("content")), message.get("stop_reason")
    if stop == "model_context_window_exceeded":
        raise ContextTooLong("the reply did not fit into the model's window")
    if stop == "refusal":
        raise ModelReplyInvalid(_REFUSED)
    text = _text(content)
    calls = [block for block in content if block.get("type") == "tool_use"]
    if calls:
        if stop == "max_tokens" and content[-1] is calls[-1]:
            # What there is of its input may read like a whole one.
            raise ModelReplyInvalid(_HALF_A_CALL)
        return CallTools(
            calls=_calls(calls, call_prefix), thought=text, provider_state=state(content)
        )
    if not text or stop == "pause_turn":
        raise ModelReplyInvalid(_NO_TEXT.get(str(stop), _EMPTY))
    decision = written_decision(text, tool_names=tool_names, call_prefix=call_prefix)
    if stop == "max_tokens" and isinstance(decision, FinalAnswer):
        return replace(decision, text=f"{decision.text} {CUT_OFF}")
    return decision


def _text(content: Blocks) -> str:
    parts = (block.get("text") for block in content if block.get("type") == "text")
    return "".join(storable(part, "text") for part in parts).strip()


def _calls(blocks: Sequence[Mapping[str, Any]], call_prefix: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for index, block in enumerate(blocks):
        call_id = f"{call_prefix}:{index}"
        name = storable(block.get("name"), "tool name")
        if not name:
            raise ModelReplyInvalid("a tool call of the reply names no tool")
        provider_id = usable_id(block.get("id"), taken) or made_up_id(call_id)
        taken.add(provider_id)
        arguments = _arguments(block.get("input"))
        calls.append(ToolCall(id=call_id, provider_id=provider_id, name=name, arguments=arguments))
    return tuple(calls)


def _arguments(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):  # some compatible servers send text in place of the object
        return storable(value, "arguments")
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ModelReplyInvalid("the arguments of the reply are nested too deeply") from None
    return storable(text, "arguments")

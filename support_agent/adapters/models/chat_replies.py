"""A chat completion as a decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from support_agent.adapters.models.chat_stream import arguments_text, joined_text
from support_agent.adapters.models.reply_values import made_up_id, storable, usable_id
from support_agent.adapters.models.written_calls import written_decision
from support_agent.domain.errors import ModelReplyInvalid
from support_agent.domain.runs import CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply

CUT_OFF = "[…]"  # after an answer that the output limit broke off


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a server answered with HTTP 200, put together if it was streamed, and its cost."""

    document: Mapping[str, Any]
    usage: Usage


def read_reply(
    completion: Completion, *, call_prefix: str, tool_names: frozenset[str]
) -> ModelReply:
    """Judge an answer; `call_prefix` is `run_id:step`.

    Raises:
        ModelReplyInvalid: it is no chat completion or holds no decision; has what it cost.
    """
    try:
        decision = _decision(completion.document, call_prefix, tool_names)
    except ModelReplyInvalid as error:
        error.usage = completion.usage
        raise
    return ModelReply(decision=decision, usage=completion.usage)


def first_message(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], object]:
    """The message of the first choice, and why it ends.

    Raises:
        ModelReplyInvalid: there is none.
    """
    choices = document.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelReplyInvalid("the reply is not a chat completion: it has no message")
    return message, choice.get("finish_reason")


def message_text(message: Mapping[str, Any]) -> str:
    """What is said beside calls or in place of them; a refusal is said to the customer too.

    Raises:
        ModelReplyInvalid: it is no text that can be stored.
    """
    said = joined_text(message.get("content"))
    text = "" if said is None else storable(said, "text").strip()
    refusal = message.get("refusal")
    return text or (storable(refusal, "refusal").strip() if refusal else "")


def _decision(
    document: Mapping[str, Any], call_prefix: str, tool_names: frozenset[str]
) -> Decision:
    message, finish_reason = first_message(document)
    is_cut = finish_reason == "length"
    text = message_text(message)
    entries = _entries(message)
    if entries:
        calls = _calls(entries, call_prefix)
        if is_cut and not calls[-1].arguments.strip():
            # No arguments would be read as none wanted, and the tool would run.
            raise ModelReplyInvalid("the reply was cut off at the output limit inside a call")
        return CallTools(calls=calls, thought=text)
    if not text:
        raise ModelReplyInvalid(_why_empty(finish_reason))
    decision = written_decision(text, tool_names=tool_names, call_prefix=call_prefix)
    if is_cut and isinstance(decision, FinalAnswer):
        return FinalAnswer(text=f"{decision.text} {CUT_OFF}", thought=decision.thought)
    return decision


def _why_empty(finish_reason: object) -> str:
    if finish_reason == "length":
        return "the reply was cut off at the output limit before any text or call: be brief"
    if finish_reason == "content_filter":
        return "the reply was withheld by the provider's content filter"
    return "the reply is empty: answer the customer in text, or call a tool"


def _entries(message: Mapping[str, Any]) -> list[Any]:
    """The calls as they came; a lone `function_call` is the form of servers before tools."""
    entries = message.get("tool_calls")
    if entries and not isinstance(entries, list):
        raise ModelReplyInvalid("the tool calls of the reply are not a list")
    former = message.get("function_call")
    return entries or ([{"function": former}] if former else [])


def _calls(entries: list[Any], call_prefix: str) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for index, entry in enumerate(entries):
        call = _call(entry, f"{call_prefix}:{index}", taken)
        taken.add(call.provider_id)
        calls.append(call)
    return tuple(calls)


def _call(entry: object, call_id: str, taken: set[str]) -> ToolCall:
    if not isinstance(entry, dict):
        raise ModelReplyInvalid("a tool call of the reply names no function")
    # A custom tool takes plain text. We offer none: the loop tells the model what it got wrong.
    custom = entry.get("custom")
    function = custom if isinstance(custom, dict) else entry.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not name:
        raise ModelReplyInvalid("a tool call of the reply names no function")
    arguments = function.get("input" if function is custom else "arguments")
    return ToolCall(
        id=call_id,
        provider_id=usable_id(entry.get("id"), taken) or made_up_id(call_id),
        name=storable(name, "function name"),
        arguments=storable(arguments_text(arguments), "arguments"),
    )

"""A model request as chat-completion messages that every compatible server accepts."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, assert_never

from support_agent.adapters.models.turn_words import (
    correction_text,
    customer_text,
    echoed_arguments,
    echoed_name,
    recap_text,
)
from support_agent.domain.fencing import inert
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    ModelRequest,
    Recap,
    ToolResult,
    ToolSpec,
    Turn,
)

Message = dict[str, Any]

_REMEMBERED = 2048  # turns: those of the conversations that are answered at one time
_LONGEST_REMEMBERED = 8_000  # characters, so that all of them stay below 20 MB or so


def chat_messages(request: ModelRequest, *, longest_id: int | None = None) -> list[Message]:
    """The system text, then the turns.

    Ids of calls are echoed as they came; those over `longest_id` characters, which another server
    made, stand as short ones.

    Neighbours of one role become one message: many chat templates insist that user and
    assistant alternate. Nothing but the first message is a system message, for the same reason.
    """
    messages: list[Message] = [{"role": "system", "content": request.system}]
    for turn in request.turns:
        message = _message_of(turn, longest_id)
        last = messages[-1]
        if _is_text(last) and _is_text(message) and last["role"] == message["role"]:
            both = f"{last['content']}\n\n{message['content']}"
            messages[-1] = {"role": last["role"], "content": both}
        else:
            messages.append(message)
    return messages


def chat_tools(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    """The tools as function definitions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def _message_of(turn: Turn, longest_id: int | None) -> Message:
    """A turn's message, not to be changed: a run sends the same turns again with every step."""
    remembers = _length(turn) <= _LONGEST_REMEMBERED
    return (_remembered if remembers else _message)(turn, longest_id)


def _length(turn: Turn) -> int:
    match turn:
        case AssistantCalls(calls=calls, thought=thought):
            return len(thought) + sum(len(call.arguments) for call in calls)
        case ToolResult(call=call, content=content):  # it would keep its call in memory
            return len(content) + len(call.arguments)
        case Recap(facts=facts, summary=summary):
            return len(facts) + len(summary)
        case _:
            return len(turn.text)


def _message(turn: Turn, longest_id: int | None) -> Message:
    match turn:
        case CustomerTurn():
            return {"role": "user", "content": customer_text(turn)}
        case AssistantTurn(text=text):
            return {"role": "assistant", "content": inert(text)}
        case AssistantCalls(calls=calls, thought=thought):
            return {
                "role": "assistant",
                "content": inert(thought) or None,
                "tool_calls": [_call(call, longest_id) for call in calls],
            }
        case ToolResult(call=call, content=content):
            call_id = _echoed_id(call, longest_id)
            return {"role": "tool", "tool_call_id": call_id, "content": inert(content)}
        case Correction():
            return {"role": "user", "content": correction_text(turn)}
        case Recap():
            return {"role": "user", "content": recap_text(turn)}
        case other:
            assert_never(other)


_remembered = lru_cache(maxsize=_REMEMBERED)(_message)


def _is_text(message: Message) -> bool:
    return message["role"] in {"user", "assistant"} and "tool_calls" not in message


def _echoed_id(call: ToolCall, longest: int | None) -> str:
    if longest is None or len(call.provider_id) <= longest:
        return call.provider_id
    return hashlib.sha256(call.provider_id.encode()).hexdigest()[:longest]


def _call(call: ToolCall, longest_id: int | None) -> dict[str, Any]:
    return {
        "id": _echoed_id(call, longest_id),
        "type": "function",
        "function": {"name": echoed_name(call.name), "arguments": echoed_arguments(call.arguments)},
    }

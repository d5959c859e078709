"""A model request as chat-completion messages that every compatible server accepts."""

import json
import re
from collections.abc import Iterable
from typing import Any, assert_never

from support_agent.domain.runs import ToolCall
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    ModelRequest,
    ToolResult,
    ToolSpec,
    Turn,
)

Message = dict[str, Any]

_FENCE = re.compile(r"<(?=\s*/?\s*customer_message)", re.IGNORECASE)
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def chat_messages(request: ModelRequest) -> list[Message]:
    """The system text, then the turns.

    Neighbours of one role become one message: many chat templates insist that user and
    assistant alternate. Nothing but the first message is a system message, for the same reason.
    """
    messages: list[Message] = [{"role": "system", "content": request.system}]
    for turn in request.turns:
        message = _message(turn)
        last = messages[-1]
        if _is_text(last) and _is_text(message) and last["role"] == message["role"]:
            last["content"] += "\n\n" + message["content"]
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


def _message(turn: Turn) -> Message:
    match turn:
        case CustomerTurn():
            return {"role": "user", "content": _customer_text(turn)}
        case AssistantTurn(text=text):
            return {"role": "assistant", "content": text}
        case AssistantCalls(calls=calls, thought=thought):
            return {
                "role": "assistant",
                "content": thought or None,
                "tool_calls": [_call(call) for call in calls],
            }
        case ToolResult(call=call, content=content):
            return {"role": "tool", "tool_call_id": call.provider_id, "content": content}
        case Correction(text=text):
            return {"role": "user", "content": f"[system notice] {text}"}
        case other:
            assert_never(other)


def _is_text(message: Message) -> bool:
    return message["role"] in {"user", "assistant"} and "tool_calls" not in message


def _customer_text(turn: CustomerTurn) -> str:
    # A customer who writes the closing tag must not be able to step out of the fence.
    text = _FENCE.sub("‹", turn.text)
    today = turn.today.isoformat()
    return f"Hôm nay / today: {today}\n<customer_message>\n{text}\n</customer_message>"


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.provider_id,
        "type": "function",
        "function": {"name": _echoed_name(call.name), "arguments": _echoed(call.arguments)},
    }


def _echoed_name(name: str) -> str:
    """The model's own misspelling, in the alphabet that servers allow in a history."""
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME] or "unnamed"


def _echoed(arguments: str) -> str:
    """The model's own arguments, wrapped where they are no JSON object.

    Servers parse the arguments in a history; a malformed one would make them refuse each
    further request of the conversation.
    """
    if not arguments.strip():
        return "{}"
    if _is_json_object(arguments):
        return arguments
    return json.dumps({"unreadable_arguments": arguments}, ensure_ascii=False)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

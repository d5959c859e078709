"""The plain protocol of models that have no calls of their own: one JSON object a reply."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from support_agent.adapters.models.turn_words import (
    correction_text,
    customer_text,
    echoed_arguments,
    echoed_name,
    recap_text,
)
from support_agent.domain.fencing import fenced, inert
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    Recap,
    ToolResult,
    ToolSpec,
    Turn,
)

Message = dict[str, str]

_TOOLS = "Tools, each with the JSON schema of its arguments:"
_PROTOCOL = """\
Reply with one JSON object and nothing else. It is one of:
{"type":"tool","tool":NAME,"arguments":{…}} to call a tool. Its result comes in a message that
starts with OBSERVATION; you never write one.
{"type":"ask","question":TEXT} to ask the customer for what only the customer knows.
{"type":"final","answer":TEXT} to answer the customer in words, once each fact in it comes from an
OBSERVATION.
"""
_LONGEST_WORDS = 1200  # characters; a string without a limit may run to the end of the output
_LONGEST_STRING = 500
_MOST_ITEMS = 20
_KEPT = frozenset(
    {"type", "enum", "const", "required", "additionalProperties", "minLength", "minItems"}
)
_TOLD = frozenset({"type", "enum", "const", "required", "description"})


def json_system(system: str, tools: Sequence[ToolSpec]) -> str:
    """The system text with the tools and the protocol behind it; without tools only itself.

    The protocol comes last: before the tools, a model of 1.5B answered without calling one.
    """
    if not tools:
        return system
    listed = "\n".join(
        f"{tool.name}: {tool.description} {_compact(_arguments(tool, _TOLD))}" for tool in tools
    )
    return f"{system.rstrip()}\n\n{_TOOLS}\n{listed}\n\n{_PROTOCOL}"


def json_messages(system: str, turns: Iterable[Turn]) -> list[Message]:
    """The system text, then the turns; neighbours of one role become one message."""
    messages: list[Message] = [{"role": "system", "content": system}]
    for turn in turns:
        role, text = _said(turn)
        if messages[-1]["role"] == role:
            messages[-1]["content"] += f"\n\n{text}"
        else:
            messages.append({"role": role, "content": text})
    return messages


def step_schema(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    """What a reply must look like, for servers that hold a model to a JSON schema."""
    words = {"type": "string", "minLength": 1, "maxLength": _LONGEST_WORDS}
    calls = [
        _form("tool", tool={"const": tool.name}, arguments=_arguments(tool, _KEPT))
        for tool in tools
    ]
    return {"anyOf": [*calls, _form("ask", question=words), _form("final", answer=words)]}


def _said(turn: Turn) -> tuple[str, str]:
    """Who says a turn, and its text: the model's own turns in the form it must keep to."""
    match turn:
        case CustomerTurn():
            return "user", customer_text(turn)
        case AssistantTurn(text=text):
            return "assistant", _compact({"type": "final", "answer": inert(text)})
        case AssistantCalls():
            return "assistant", _calls_text(turn)
        case ToolResult(call=call, content=content):
            result = fenced("tool_result", content)
            return "user", f"OBSERVATION {echoed_name(call.name)}\n{result}"
        case Correction():
            return "user", correction_text(turn)
        case Recap():
            return "user", recap_text(turn)
        case other:
            assert_never(other)


def _calls_text(turn: AssistantCalls) -> str:
    thought = f'"thought":{_compact(inert(turn.thought))},' if turn.thought else ""
    calls = [
        f'"type":"tool","tool":{_compact(echoed_name(call.name))},'
        f'"arguments":{echoed_arguments(call.arguments).strip()}}}'
        for call in turn.calls
    ]
    return "\n".join(
        "{" + (thought if index == 0 else "") + call for index, call in enumerate(calls)
    )


def _form(kind: str, **members: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **members},
        "required": ["type", *members],
        "additionalProperties": False,
    }


def _arguments(tool: ToolSpec, kept: frozenset[str]) -> dict[str, Any]:
    return _plain(tool.parameters, kept) or {"type": "object"}


def _plain(schema: Mapping[str, Any], kept: frozenset[str]) -> dict[str, Any]:
    """A schema in the words that every server knows.

    Patterns, ranges and the like are left out: the tools check their arguments themselves.
    """
    plain: dict[str, Any] = {key: schema[key] for key in schema if key in kept}
    if "properties" in schema:
        plain["properties"] = {
            key: _plain(value, kept) for key, value in schema["properties"].items()
        }
    if "items" in schema:
        plain["items"] = _plain(schema["items"], kept)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            plain["anyOf"] = [_plain(option, kept) for option in schema[key]]
    return plain | (_limits(schema) if kept is _KEPT else {})


def _limits(schema: Mapping[str, Any]) -> dict[str, int]:
    """Nothing may go on for ever."""
    if "enum" in schema or "const" in schema:
        return {}
    match schema.get("type"):
        case "string":
            return {"maxLength": min(schema.get("maxLength", _LONGEST_STRING), _LONGEST_STRING)}
        case "array":
            return {"maxItems": min(schema.get("maxItems", _MOST_ITEMS), _MOST_ITEMS)}
        case _:
            return {}


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

"""The lines of a scripted model: what one may hold, checked with its number in the message."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.runs import Usage
from support_agent.testing.placeholders import misspelt_placeholder

Failure = Literal["timeout", "503", "garbage"]

_MOVES = ("tool", "calls", "answer", "ask", "error")
_CALL_KEYS = frozenset({"tool", "arguments", "raw_arguments"})
_COMMON_KEYS = frozenset({"thought", "usage", "delay_s"})
_USAGE_KEYS = frozenset({"input_tokens", "output_tokens", "cost_micros"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A call to make. `raw` is sent as it is, malformed JSON included; else `arguments` are."""

    tool: str
    arguments: Mapping[str, Any]
    raw: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCalls:
    """The calls of one reply, in order."""

    calls: tuple[ScriptedCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """Words for the customer that end the run."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedQuestion:
    """A question to the customer that ends the run."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFailure:
    """No decision: the server is silent, refuses, or answers nonsense."""

    kind: Failure


Move = ScriptedCalls | ScriptedAnswer | ScriptedQuestion | ScriptedFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptLine:
    """One answer of the scripted model, numbered from 1 for messages to people."""

    number: int
    move: Move
    thought: str
    usage: Usage
    delay_s: float


def script_line(number: int, line: object) -> ScriptLine:
    """Check one line.

    Raises:
        ConfigurationError: names the line and what is wrong with it.
    """
    try:
        return _line(number, line)
    except _Problem as problem:
        raise ConfigurationError(f"line {number}: {problem}") from None


class _Problem(Exception):
    """What is wrong with a line, without its number."""


def _line(number: int, line: object) -> ScriptLine:
    fields = _mapping(line, "a line")
    kinds = [kind for kind in _MOVES if kind in fields]
    if len(kinds) != 1:
        found = f"has {', '.join(kinds)}" if kinds else "has none of them"
        raise _Problem(f"needs exactly one of {', '.join(_MOVES)}; it {found}")
    allowed = _CALL_KEYS if kinds[0] == "tool" else frozenset({kinds[0]})
    _only(fields, allowed | _COMMON_KEYS)
    return ScriptLine(
        number=number,
        move=_move(kinds[0], fields),
        thought=_text(fields.get("thought", ""), "thought", empty=True),
        usage=_usage(fields.get("usage", {})),
        delay_s=_seconds(fields.get("delay_s", 0)),
    )


def _move(kind: str, fields: Mapping[str, Any]) -> Move:
    match kind:
        case "tool":
            return ScriptedCalls(calls=(_call(fields),))
        case "calls":
            return ScriptedCalls(calls=_several_calls(fields["calls"]))
        case "answer":
            return ScriptedAnswer(text=_checked(_text(fields["answer"], "answer")))
        case "ask":
            return ScriptedQuestion(text=_checked(_text(fields["ask"], "ask")))
        case _:
            return ScriptedFailure(kind=_failure(fields["error"]))


def _several_calls(entries: object) -> tuple[ScriptedCall, ...]:
    if not isinstance(entries, (list, tuple)) or not entries:
        raise _Problem("calls must be a list of at least one call")
    calls = [_mapping(entry, "a call") for entry in entries]
    for call in calls:
        _only(call, _CALL_KEYS)
    return tuple(_call(call) for call in calls)


def _call(fields: Mapping[str, Any]) -> ScriptedCall:
    if "tool" not in fields:
        raise _Problem("a call needs a tool")
    if "arguments" in fields and "raw_arguments" in fields:
        raise _Problem("a call has arguments or raw_arguments, not both")
    raw = fields.get("raw_arguments")
    return ScriptedCall(
        tool=_text(fields["tool"], "tool"),
        arguments=_checked(_mapping(fields.get("arguments", {}), "arguments")),
        raw=None if raw is None else _text(raw, "raw_arguments", empty=True),
    )


def _failure(kind: object) -> Failure:
    if kind not in get_args(Failure):
        raise _Problem(f"error must be one of {', '.join(get_args(Failure))}, not {kind!r}")
    return cast("Failure", kind)


def _usage(value: object) -> Usage:
    counts = _mapping(value, "usage")
    _only(counts, _USAGE_KEYS)
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise _Problem(f"usage.{name} must be a whole number from 0, not {count!r}")
    return Usage(requests=1, **counts)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Problem(f"delay_s must be a number of seconds, not {value!r}")
    if not 0 <= value < math.inf:
        raise _Problem(f"delay_s must be a number of seconds from 0, not {value!r}")
    return float(value)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _Problem(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def _text(value: object, what: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise _Problem(f"{what} must be a string, not {type(value).__name__}")
    if not empty and not value.strip():
        raise _Problem(f"{what} must not be empty")
    return value


def _only(fields: Mapping[str, Any], allowed: frozenset[str]) -> None:
    unknown = sorted(str(key) for key in fields if key not in allowed)
    if unknown:
        names = ", ".join(repr(key) for key in unknown)
        raise _Problem(f"unknown key {names}; known here: {', '.join(sorted(allowed))}")


def _checked(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """`value` itself, once its placeholders are known to be well formed."""
    misspelt = misspelt_placeholder(value)
    if misspelt is not None:
        raise _Problem(f"{misspelt!r} is no placeholder; write {{{{tool.field}}}}")
    return value

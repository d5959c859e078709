"""`{{tool.field}}` in a scripted line stands for a field of that tool's last observation."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from support_agent.ports.model import ToolResult, Turn

_BRACES = re.compile(r"\{\{([^{}]*)\}\}")
_PATH = re.compile(r"\s*(\w+(?:\.\w+)+)\s*")


class ScriptError(AssertionError):
    """The script and the conversation do not fit each other."""


class UnresolvedPlaceholder(ScriptError):
    """A line speaks of a field that the tool's last observation does not have."""


def misspelt_placeholder(value: object) -> str | None:
    """The first `{{…}}` in `value` that names no tool and field, None when all do."""
    if isinstance(value, Mapping):
        return next(filter(None, map(misspelt_placeholder, value.values())), None)
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(misspelt_placeholder, value)), None)
    if not isinstance(value, str):
        return None
    found = (match for match in _BRACES.finditer(value) if not _PATH.fullmatch(match[1]))
    return next((match[0] for match in found), None)


def filled(value: Any, turns: Sequence[Turn]) -> Any:  # noqa: ANN401 - any JSON value
    """`value` with its placeholders replaced.

    A string that is one placeholder becomes the field itself: a number stays a number.

    Raises:
        UnresolvedPlaceholder: names the placeholder and what the tool said instead.
    """
    if isinstance(value, Mapping):
        return {key: filled(item, turns) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled(item, turns) for item in value]
    if not isinstance(value, str):
        return value
    whole = _BRACES.fullmatch(value)
    path = whole and _PATH.fullmatch(whole[1])
    return _field(path[1], turns) if path else filled_text(value, turns)


def filled_text(text: str, turns: Sequence[Turn]) -> str:
    """`text` with its placeholders replaced; other braces are left alone."""

    def replace(braces: re.Match[str]) -> str:
        path = _PATH.fullmatch(braces[1])
        if path is None:
            return braces[0]
        field = _field(path[1], turns)
        return field if isinstance(field, str) else json.dumps(field, ensure_ascii=False)

    return _BRACES.sub(replace, text)


def _field(path: str, turns: Sequence[Turn]) -> Any:  # noqa: ANN401 - any JSON value
    tool, *steps = path.split(".")
    content = _last_observation(path, tool, turns)
    try:
        value = json.loads(content)
        for step in steps:
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (ValueError, LookupError, TypeError):
        raise UnresolvedPlaceholder(
            f"{{{{{path}}}}}: the last observation of {tool!r} has no such field; "
            f"it is {content[:300]!r}"
        ) from None
    return value


def _last_observation(path: str, tool: str, turns: Sequence[Turn]) -> str:
    for turn in reversed(turns):
        if isinstance(turn, ToolResult) and turn.call.name == tool:
            return turn.content
    raise UnresolvedPlaceholder(f"{{{{{path}}}}}: {tool!r} has answered nothing so far")

"""Short true digests of tool results, made by code when a view is shortened."""

import json
from collections.abc import Sequence
from typing import Any

from support_agent.agent.weights import result_tokens
from support_agent.domain.memory import shortened
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import AssistantCalls, ToolResult, Turn

NEWER_BELOW = "same call below"  # of a result that the same call told again later
LONGEST_VALUE = 40  # of a text that is kept; names and sentences are longer
MOST_ENTRIES = 10  # of a list
MOST_FIELDS = 24  # of an object
DEEPEST_LIST = 2
LONGEST_ERROR = 60
LONGEST_WORDS = 120
ERROR = "ERROR"
IDS = frozenset({"order_id", "request_id", "quote_id"})  # of what is told of by itself
LEFT_OUT = object()


class Digests:
    """Makes and weighs each digest of a run once."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        self._weights: dict[str, int] = {}

    def of(self, content: str) -> str:
        made = self._made.get(content)
        if made is None:
            made = self._made[content] = digest(content)
        return made

    def weight(self, short: str) -> int:
        """Tokens of a result with this content."""
        weight = self._weights.get(short)
        if weight is None:
            weight = self._weights[short] = result_tokens(short)
        return weight

    def among(self, turns: Sequence[Turn], start: int, end: int) -> dict[int, str]:
        """What the results from `start` up to `end` become, by index; what is no shorter stays.

        A call stands for the same call before it, unless it was refused; so do those of the step at
        `end`, where a run was cut between two of its steps. That depends on turns alone that were
        there when the cut was made, so that another process makes the same of them.
        """
        made: dict[int, str] = {}
        told = _told_next(turns, start, end)
        for index in range(end - 1, start - 1, -1):
            turn = turns[index]
            if not isinstance(turn, ToolResult):
                continue
            what = (turn.call.name, turn.call.arguments)
            short = NEWER_BELOW if what in told else self.of(turn.content)
            if not is_refusal(turn.content):
                told.add(what)
            if len(short) < len(turn.content):
                made[index] = short
        return made


def _told_next(turns: Sequence[Turn], start: int, end: int) -> set[tuple[str, str]]:
    """What the step at `end` asked and was told, if it goes on with the run before it."""
    told: set[tuple[str, str]] = set()
    before = next((t for t in reversed(turns[start:end]) if isinstance(t, ToolResult)), None)
    if before is None or end == len(turns) or not isinstance(turns[end], AssistantCalls):
        return told
    for turn in turns[end + 1 :]:
        if not isinstance(turn, ToolResult) or run_of(turn.call) != run_of(before.call):
            break
        if not is_refusal(turn.content):
            told.add((turn.call.name, turn.call.arguments))
    return told


def run_of(call: ToolCall) -> str:
    """The run that made it: ids of calls are `run_id:step:index`."""
    return call.id.rsplit(":", 2)[0]


def is_refusal(content: str) -> bool:
    """Whether a result is a refusal or a fault, as the tool runner writes them."""
    return content.startswith(ERROR)


def digest(content: str) -> str:
    """The states, ids, dates and amounts of a result, or the code of a refusal.

    `"shortened":true` says that something was left out: the call can be made again.
    """
    if is_refusal(content):
        return content.split(":", 1)[0][:LONGEST_ERROR]
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return shortened(content, LONGEST_WORDS)
    kept = _kept(found, 0)
    if kept is LEFT_OUT:
        return shortened(content, LONGEST_WORDS)
    if isinstance(kept, dict) and kept != found:
        kept["shortened"] = True
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


def _kept(value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON
    """What is kept of a value; LEFT_OUT for long texts and what lies deep."""
    match value:
        case str() if len(value) > LONGEST_VALUE:
            return LEFT_OUT
        case dict() if depth > 1:
            return LEFT_OUT
        case list() if depth > DEEPEST_LIST:
            return LEFT_OUT
        case dict():
            parts = {name: _kept(inner, depth + 1) for name, inner in value.items()}
            kept = [(name, part) for name, part in parts.items() if part is not LEFT_OUT]
            return dict(kept[:MOST_FIELDS])
        case list():
            inside = [inner for inner in value[:MOST_ENTRIES] if not _is_part(inner)]
            entries = [_kept(inner, depth + isinstance(inner, list)) for inner in inside]
            listed = [entry for entry in entries if entry is not LEFT_OUT]
            return listed if listed or not value else LEFT_OUT
    return value


def _is_part(value: object) -> bool:
    """Such as a line of an order: nothing that has an id of its own to ask for."""
    return isinstance(value, dict) and not value.keys() & IDS

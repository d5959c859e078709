"""A model's signed thinking between its replies: kept with the step, shown again unchanged."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from support_agent.adapters.models.reply_values import is_storable

Block = dict[str, Any]

_ADAPTER = "anthropic"
_THINKING = frozenset({"thinking", "redacted_thinking"})


class Prefix:
    """Tells whether what is sent ahead of a reply is still what was sent when it was made.

    Newer models tie their thinking to everything before it and refuse a request in which that
    has changed, as it does when a conversation is shortened: such thinking is left out.
    """

    def __init__(self, *, model: str, fixed: Sequence[object]) -> None:
        self.model = model
        self._fixed = fixed
        self._digest: Any = None
        self._seen = 0

    def mark(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The mark after `messages`, which only grow from call to call."""
        if self._digest is None:
            self._digest = hashlib.sha256(_json(self._fixed).encode("utf-8", "replace"))
        for message in messages[self._seen :]:
            self._digest.update(_json(message).encode("utf-8", "replace"))
        self._seen = len(messages)
        return str(self._digest.copy().hexdigest()[:32])


def thinking_state(content: Sequence[Mapping[str, Any]], *, model: str, after: str) -> str:
    """The reply's blocks in their order as text to store; a call stands as its number.

    Empty for a reply without thinking, and for one that no database could take.
    """
    if not any(_is_thinking(block) for block in content):
        return ""
    kept: list[object] = []
    calls = 0
    for block in content:
        if block.get("type") == "tool_use":
            kept.append(calls)
            calls += 1
        elif _is_thinking(block) or _is_said(block):
            kept.append(block)
    try:
        state = _json({"adapter": _ADAPTER, "model": model, "after": after, "content": kept})
    except RecursionError:
        return ""
    return state if is_storable(state) else ""


def replayed(
    state: str, calls: Sequence[Block], *, prefix: Prefix, messages: Sequence[Mapping[str, Any]]
) -> list[Block] | None:
    """The content of the reply that `state` was kept from, with `calls` in their places.

    None when it is another adapter's or model's, or was made after something else.
    """
    kept = _read(state)
    if kept is None or kept.get("adapter") != _ADAPTER or kept.get("model") != prefix.model:
        return None
    content = kept.get("content")
    if not isinstance(content, list) or not _fits(content, len(calls)):
        return None
    if kept.get("after") != prefix.mark(messages):
        return None
    return [calls[block] if isinstance(block, int) else block for block in content]


def _read(state: str) -> Mapping[str, Any] | None:
    try:
        kept = json.loads(state)
    except (ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) else None


def _fits(content: Sequence[object], calls: int) -> bool:
    """Whether each call has its place, in order, and everything else is a block."""
    numbers = [block for block in content if not isinstance(block, dict)]
    return numbers == list(range(calls))


def _is_thinking(block: Mapping[str, Any]) -> bool:
    return block.get("type") in _THINKING


def _is_said(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return block.get("type") == "text" and isinstance(text, str) and bool(text.strip())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

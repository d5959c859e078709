"""A model request as the messages, system text and tools of the Messages API."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from support_agent.adapters.models.anthropic_thinking import Block, Prefix, replayed
from support_agent.adapters.models.reply_values import made_up_id
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

_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_OPENING = "[earlier in this conversation]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMessages:
    """The messages of a request.

    `prefix` marks a reply's place after them. `thinking_is_whole`: no call of this run is shown
    without its thinking; the API takes a request to think on no other terms.
    """

    messages: list[Message]
    prefix: Prefix
    thinking_is_whole: bool


def write_messages(request: ModelRequest, *, model: str, tools: Sequence[Block]) -> WrittenMessages:
    """The turns; neighbours of one role become one message, since the roles must alternate."""
    prefix = Prefix(model=model, fixed=(request.system, tools))
    writer = _Writer(prefix, _start_of_run(request.turns))
    for index, turn in enumerate(request.turns):
        writer.write(index, turn)
    return WrittenMessages(
        messages=writer.messages, prefix=prefix, thinking_is_whole=writer.thinking_is_whole
    )


def system_blocks(system: str) -> list[Block]:
    """The system text, with the mark up to which tools and text are kept in the server's cache."""
    return [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]


def tool_blocks(tools: Iterable[ToolSpec]) -> list[Block]:
    """The tools as the API defines them."""
    return [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in tools
    ]


def _start_of_run(turns: Sequence[Turn]) -> int:
    """Where the last customer message is: thinking of the runs before it is not shown again."""
    starts = (index for index, turn in enumerate(turns) if isinstance(turn, CustomerTurn))
    return max(starts, default=0)


class _Writer:
    def __init__(self, prefix: Prefix, start_of_run: int) -> None:
        self.messages: list[Message] = []
        self.thinking_is_whole = True
        self._prefix = prefix
        self._start_of_run = start_of_run
        self._ids: dict[str, str] = {}  # ours -> the one on the wire
        self._taken: set[str] = set()

    def write(self, index: int, turn: Turn) -> None:
        match turn:
            case CustomerTurn():
                self._add("user", _text(customer_text(turn)))
            case Correction():
                self._add("user", _text(correction_text(turn)))
            case Recap():
                self._add("user", _text(recap_text(turn)))
            case ToolResult():
                self._add("user", [self._result(turn)])
            case AssistantTurn(text=text):
                self._add("assistant", _text(inert(text)))
            case AssistantCalls():
                self._add("assistant", self._reply(turn, in_run=index > self._start_of_run))
            case _:
                assert_never(turn)

    def _add(self, role: str, content: list[Block]) -> None:
        if not content:
            return
        if not self.messages and role == "assistant":
            self._add("user", _text(_OPENING))  # the API insists that a user begins
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += content
        else:
            self.messages.append({"role": role, "content": content})

    def _reply(self, turn: AssistantCalls, *, in_run: bool) -> list[Block]:
        calls = [self._call(call) for call in turn.calls]
        thinking = None
        # An assistant message that is open already would still change behind its mark.
        if in_run and turn.provider_state and self._is_users_turn_over():
            thinking = replayed(
                turn.provider_state, calls, prefix=self._prefix, messages=self.messages
            )
        if in_run and thinking is None:
            self.thinking_is_whole = False
        return thinking or [*_text(inert(turn.thought)), *calls]

    def _is_users_turn_over(self) -> bool:
        return bool(self.messages) and self.messages[-1]["role"] == "user"

    def _call(self, call: ToolCall) -> Block:
        return {
            "type": "tool_use",
            "id": self._new_id(call),
            "name": echoed_name(call.name),
            "input": json.loads(echoed_arguments(call.arguments)),
        }

    def _result(self, turn: ToolResult) -> Block:
        result: Block = {
            "type": "tool_result",
            "tool_use_id": self._ids[turn.call.id],
            "content": inert(turn.content),
        }
        if turn.content.startswith("ERROR"):
            result["is_error"] = True
        return result

    def _new_id(self, call: ToolCall) -> str:
        """The provider's id where it may stand: one of another server may be repeated or odd."""
        wire_id = call.provider_id
        if not _ID.fullmatch(wire_id) or wire_id in self._taken:
            wire_id = made_up_id(call.id)
        while wire_id in self._taken:
            wire_id += "-"
        self._taken.add(wire_id)
        self._ids[call.id] = wire_id
        return wire_id


def _text(text: str) -> list[Block]:
    """A block, or none: the API refuses one that is blank."""
    return [{"type": "text", "text": text}] if text.strip() else []

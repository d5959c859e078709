"""A model that answers from a script, for tests, demonstrations and bug reports."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from support_agent.domain.errors import ModelError, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.runs import AskCustomer, CallTools, Decision, FinalAnswer, ToolCall, Usage
from support_agent.ports.model import ModelReply, ModelRequest, Turn
from support_agent.testing.placeholders import ScriptError, filled, filled_text
from support_agent.testing.script import (
    Failure,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedCalls,
    ScriptedFailure,
    ScriptedQuestion,
    ScriptLine,
    script_line,
)


class UnexpectedModelCall(ScriptError):
    """The model was called more often than the script has lines."""


class UnconsumedModelSteps(ScriptError):
    """Lines of the script were never asked for."""


class ScriptedModel:
    """Line k answers the k-th model call of a conversation (`ModelRequest.call_index`).

    A line is `{"tool": …, "arguments": {…}}`, `{"calls": [{…}, …]}`, `{"answer": …}`,
    `{"ask": …}` or `{"error": "timeout|503|garbage"}`, each with optional `thought`, `delay_s`
    and `usage` (`input_tokens`, `output_tokens`, `cost_micros`). A call may have `raw_arguments`,
    a string that is sent as it is, in place of `arguments`. `"{{quote_refund.quote_id}}"` stands
    for a field of that tool's last observation.

    What was asked is kept in `requests` for assertions; no answer depends on it.

    Example:
        model = ScriptedModel([
            {"tool": "quote_refund", "arguments": {"order_id": "A100"}},
            {"answer": "Số tiền là {{quote_refund.amount}}."},
        ])

    Raises:
        ConfigurationError: a line is malformed; names it and what is wrong.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any] | ScriptLine]) -> None:
        self._lines = tuple(
            line if isinstance(line, ScriptLine) else script_line(number, line)
            for number, line in enumerate(lines, start=1)
        )
        self._requests: list[ModelRequest] = []

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        return tuple(self._requests)

    async def decide(self, request: ModelRequest) -> ModelReply:
        self._requests.append(request)
        if request.call_index >= len(self._lines):
            raise UnexpectedModelCall(
                f"model call {request.call_index + 1} of conversation "
                f"{request.conversation_id!r}, but the script has {len(self._lines)} line(s)"
            )
        line = self._lines[request.call_index]
        # Even without a delay: every real model gives way to other tasks at least once.
        await asyncio.sleep(line.delay_s)
        return ModelReply(decision=_decision(line, request), usage=line.usage)

    async def aclose(self) -> None:
        """Nothing is held open."""

    def assert_complete(self) -> None:
        """Raise `UnconsumedModelSteps` unless every line was asked for."""
        asked = {request.call_index for request in self._requests}
        unused = [line for index, line in enumerate(self._lines) if index not in asked]
        if unused:
            listed = "; ".join(f"line {line.number}: {line.move}" for line in unused)
            raise UnconsumedModelSteps(f"{len(unused)} line(s) were never asked for: {listed}")


def _decision(line: ScriptLine, request: ModelRequest) -> Decision:
    match line.move:
        case ScriptedCalls(calls=calls):
            return CallTools(calls=_tool_calls(calls, request), thought=line.thought)
        case ScriptedAnswer(text=text):
            return FinalAnswer(text=filled_text(text, request.turns), thought=line.thought)
        case ScriptedQuestion(text=text):
            return AskCustomer(question=filled_text(text, request.turns), thought=line.thought)
        case ScriptedFailure(kind=kind):
            raise _failure(kind, line.usage)
        case other:
            assert_never(other)


def _failure(kind: Failure, usage: Usage) -> ModelError:
    match kind:
        case "timeout":
            return ModelUnavailable("the model timed out (scripted)")
        case "503":
            return ModelUnavailable("the model server answered HTTP 503 (scripted)")
        case "garbage":
            return ModelReplyInvalid("the reply is not a decision (scripted)", usage=usage)


def _tool_calls(calls: Sequence[ScriptedCall], request: ModelRequest) -> tuple[ToolCall, ...]:
    prefix = f"{request.run_id}:{request.step}"
    return tuple(
        ToolCall(
            id=f"{prefix}:{index}",
            provider_id=f"call_{prefix}:{index}",
            name=call.tool,
            arguments=_arguments(call, request.turns),
        )
        for index, call in enumerate(calls)
    )


def _arguments(call: ScriptedCall, turns: Sequence[Turn]) -> str:
    if call.raw is not None:
        return filled_text(call.raw, turns)
    return json.dumps(filled(call.arguments, turns), ensure_ascii=False, separators=(",", ":"))

"""How a run's steps are shown: one line a call, or one object a call."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, assert_never

from support_agent.cli.output import rfc3339
from support_agent.domain.call_arguments import arguments_of
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    FinalAnswer,
    Observation,
    RecordedCall,
    RunStep,
    ToolCall,
)

NOT_ANSWERED = "(not answered: the run was interrupted)"


class Headlines(Protocol):
    """What a tool makes of its own observation in one line."""

    def headline(self, content: Mapping[str, Any]) -> str: ...


class Tools(Protocol):
    def tool(self, name: str) -> Headlines | None: ...


def numbered(steps: Iterable[RunStep]) -> Iterator[tuple[int, RunStep, RecordedCall]]:
    """Every call of a run with its running number."""
    number = 0
    for step in steps:
        for recorded in step.calls:
            number += 1
            yield number, step, recorded


def trace_lines(steps: Sequence[RunStep], tools: Tools) -> list[str]:
    """`[1] lookup_order(A100) -> status=DELIVERED, …`, a line a call."""
    return [
        f"[{number}] {recorded.call.name}({_values(recorded.call)}) -> {_headline(recorded, tools)}"
        for number, _, recorded in numbered(steps)
    ]


def step_objects(steps: Iterable[RunStep]) -> list[dict[str, object]]:
    """The same as objects; the observation is the text the model read."""
    return [_object(number, recorded) for number, _, recorded in numbered(steps)]


def record_objects(steps: Sequence[RunStep]) -> dict[str, object]:
    """The whole record of a run.

    `steps` has the calls as `ask` gives them; `decisions` has everything the model decided, in
    order, the answers and questions too. A decision's `calls` are the `n` of its steps.
    """
    calls = list(numbered(steps))
    return {
        "steps": [
            _object(number, recorded)
            | {
                "step": step.number,
                "thought": step.decision.thought,
                "error_code": recorded.observation.error_code if recorded.observation else None,
            }
            for number, step, recorded in calls
        ],
        "decisions": [
            _decision(step, [number for number, its_step, _ in calls if its_step is step])
            for step in steps
        ],
    }


def _decision(step: RunStep, calls: list[int]) -> dict[str, object]:
    match step.decision:
        case CallTools():
            kind, text = "call", None
        case FinalAnswer(text=answer):
            kind, text = "answer", answer
        case AskCustomer(question=question):
            kind, text = "question", question
        case _:
            assert_never(step.decision)
    return {
        "step": step.number,
        "kind": kind,
        "thought": step.decision.thought,
        "text": text,
        "calls": calls,
        "at": rfc3339(step.at),
    }


def _object(number: int, recorded: RecordedCall) -> dict[str, object]:
    observation = recorded.observation
    return {
        "n": number,
        "tool": recorded.call.name,
        "arguments": arguments_of(recorded.call),
        "ok": observation.ok if observation else None,
        "observation": observation.content if observation else None,
    }


def _values(call: ToolCall) -> str:
    arguments = arguments_of(call)
    if not isinstance(arguments, dict):
        return str(arguments)
    return ", ".join(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in arguments.values()
    )


def _headline(recorded: RecordedCall, tools: Tools) -> str:
    observation = recorded.observation
    if observation is None:
        return NOT_ANSWERED
    tool = tools.tool(recorded.call.name)
    if tool is None or not observation.ok:
        return observation.content
    return tool.headline(_content(observation))


def _content(observation: Observation) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(observation.content)
    return content

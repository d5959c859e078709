"""Runs, steps and tool calls as rows and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from support_agent.adapters.db.prepared import Row
from support_agent.adapters.db.types import made_storable
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import NewerState
from support_agent.domain.runs import (
    STATE_VERSION,
    AskCustomer,
    CallTools,
    Decision,
    FinalAnswer,
    Observation,
    RecordedCall,
    Run,
    RunStatus,
    RunStep,
    StopReason,
    ToolCall,
    Usage,
)


def usage_values(usage: Usage) -> dict[str, int]:
    """The counters of a run or a step."""
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_micros": usage.cost_micros,
    }


def decision_values(decision: Decision) -> Mapping[str, str | None]:
    """What a step decided; its calls are rows of their own."""
    state: str | None = None
    match decision:
        case CallTools(provider_state=given):
            kind, text, state = "call_tools", "", given and made_storable(given)
        case FinalAnswer(text=text):
            kind = "final_answer"
        case AskCustomer(question=text):
            kind = "ask_customer"
        case _:
            assert_never(decision)
    return {
        "kind": kind,
        "thought": made_storable(decision.thought),
        "text": made_storable(text),
        "provider_state": state or None,
    }


def call_values(run_id: str, number: int, position: int, call: ToolCall) -> dict[str, object]:
    """A call that is not answered yet."""
    return {
        "id": call.id,
        "run_id": run_id,
        "step": number,
        "position": position,
        "provider_id": made_storable(call.provider_id),
        "name": made_storable(call.name),
        "arguments": made_storable(call.arguments),
    }


def joined(step_rows: Iterable[Row], call_rows: Iterable[Row]) -> tuple[RunStep, ...]:
    """The steps, each with its calls.

    Raises:
        NewerState: one was recorded by a newer program.
    """
    calls: dict[tuple[str, int], list[RecordedCall]] = {}
    for row in call_rows:
        calls.setdefault((row.run_id, row.step), []).append(_recorded(row))
    return tuple(_step(row, calls.get((row.run_id, row.number), ())) for row in step_rows)


def _recorded(row: Row) -> RecordedCall:
    call = ToolCall(id=row.id, provider_id=row.provider_id, name=row.name, arguments=row.arguments)
    if row.ok is None:
        return RecordedCall(call=call, observation=None)
    observation = Observation(
        ok=row.ok,
        content=row.content,
        error_code=row.error_code,
        quote_ids=tuple(row.quote_ids),
        request_ids=tuple(row.request_ids),
    )
    return RecordedCall(call=call, observation=observation)


def _step(row: Row, calls: Sequence[RecordedCall]) -> RunStep:
    if row.schema_version > STATE_VERSION:
        raise NewerState(row.run_id, found=row.schema_version, known=STATE_VERSION)
    return RunStep(
        run_id=row.run_id,
        number=row.number,
        decision=_decision(row, calls),
        usage=_usage(row),
        at=row.at,
        calls=tuple(calls),
    )


def _decision(row: Row, calls: Sequence[RecordedCall]) -> Decision:
    match row.kind:
        case "call_tools":
            return CallTools(
                calls=tuple(recorded.call for recorded in calls),
                thought=row.thought,
                provider_state=row.provider_state or "",
            )
        case "final_answer":
            return FinalAnswer(text=row.text, thought=row.thought)
        case _:  # a CHECK allows no fourth
            return AskCustomer(question=row.text, thought=row.thought)


def _usage(row: Row) -> Usage:
    return Usage(
        requests=row.requests,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost_micros=row.cost_micros,
    )


def stored_run(row: Row) -> Run:
    """A run as it was stored."""
    return Run(
        id=row.id,
        conversation_id=row.conversation_id,
        trigger_seq=row.trigger_seq,
        status=RunStatus(row.status),
        stop_reason=None if row.stop_reason is None else StopReason(row.stop_reason),
        operator=row.operator,
        assurance=Assurance(row.assurance),
        started_at=row.started_at,
        usage=_usage(row),
        steps=row.steps,
        consecutive_errors=row.consecutive_errors,
        epoch=row.epoch,
        attempts=row.attempts,
        answer_seq=row.answer_seq,
    )

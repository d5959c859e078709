"""Runs, their steps and their tool calls in SQL."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import assert_never

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds
from support_agent.adapters.db.prepared import Prepared, Row
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.tables.talk import RunRow, StepRow, ToolCallRow
from support_agent.adapters.db.types import made_storable
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import OrderNotFound
from support_agent.domain.runs import (
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
from support_agent.ports.storage import RunEnd

runs = table_of(RunRow)
steps = table_of(StepRow)
tool_calls = table_of(ToolCallRow)


def _literal(status: str) -> sa.ColumnElement[str]:
    """Written out in the SQL, or the partial index is not used under a generic plan."""
    return sa.literal_column(f"'{status}'", sa.Text)


def _sum_of_steps(name: str) -> sa.ScalarSelect[int]:
    total = sa.func.coalesce(sa.func.sum(steps.c[name]), 0)
    return sa.select(total).where(steps.c.run_id == runs.c.id).scalar_subquery()


def _larger(one: sa.ColumnElement[int], other: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """GREATEST, which SQLite calls by another name."""
    return sa.case((one > other, one), else_=other)


def _asked() -> sa.Select[tuple[int]]:
    """Per run the larger of what its end reported and what its steps add up to.

    A run's end counts the attempts that led to no step; while it runs only steps are known.
    A step is at least one call, also from a model that counts no requests.
    """
    per_step = sa.case(
        (steps.c.run_id.is_(None), 0), else_=_larger(steps.c.requests, sa.literal(1))
    )
    per_run = (
        sa.select(runs.c.requests, sa.func.sum(per_step).label("by_steps"))
        .select_from(runs.outerjoin(steps, steps.c.run_id == runs.c.id))
        .where(
            runs.c.conversation_id == sa.bindparam("conversation"),
            runs.c.trigger_seq > sa.bindparam("after"),
        )
        .group_by(runs.c.id, runs.c.requests)
        .subquery()
    )
    return sa.select(sa.func.sum(_larger(per_run.c.requests, per_run.c.by_steps)))


# An owner that was overtaken answers nothing: its run was stopped, or goes on in a later epoch.
_OWNED = (
    sa.select(runs.c.id)
    .where(
        runs.c.id == tool_calls.c.run_id,
        runs.c.status == _literal("running"),
        runs.c.epoch == sa.bindparam("epoch_"),
    )
    .with_for_update(read=True)
    .exists()
)
_ANSWER = Prepared(
    sa.update(tool_calls)
    .where(tool_calls.c.id == sa.bindparam("id_"), tool_calls.c.ok.is_(None), _OWNED)
    .values(
        ok=sa.bindparam("ok"),
        content=sa.bindparam("content"),
        error_code=sa.bindparam("error_code"),
        quote_ids=sa.bindparam("quote_ids"),
        request_ids=sa.bindparam("request_ids"),
        answered_at=database_seconds(),
    )
)
_COUNTED = ("requests", "input_tokens", "output_tokens", "cost_micros")
_STEP = ("run_id", "number", "kind", "thought", "text", "provider_state", *_COUNTED, "at")
# An owner that was overtaken decides nothing either.
_ADD_STEP = Prepared(
    sa.insert(steps)
    .inline()
    .from_select(
        _STEP,
        sa.select(*(sa.bindparam(name, type_=steps.c[name].type) for name in _STEP)).where(
            sa.select(runs.c.id)
            .where(
                runs.c.id == sa.bindparam("run_id"),
                runs.c.status == _literal("running"),
                runs.c.epoch == sa.bindparam("epoch_"),
            )
            .with_for_update(read=True)
            .exists()
        ),
        include_defaults=False,
    )
)
_ADD_CALLS = Prepared(
    sa.insert(tool_calls).inline(),
    columns=("id", "run_id", "step", "position", "provider_id", "name", "arguments"),
)
_OF_RUN = steps.c.run_id == runs.c.id
_CLOSE_ORPHAN = Prepared(
    sa.update(runs)
    .where(
        runs.c.conversation_id == sa.bindparam("conversation"), runs.c.status == _literal("running")
    )
    .values(
        status=RunStatus.STOPPED,
        stop_reason=StopReason.CANCELLED,
        ended_at=sa.bindparam("at"),
        # Replies that were no decision made no step, and count for a run that was resumed.
        steps=_larger(
            runs.c.steps,
            sa.select(sa.func.count()).select_from(steps).where(_OF_RUN).scalar_subquery(),
        ),
        **{name: _larger(runs.c[name], _sum_of_steps(name)) for name in _COUNTED},
    )
    .returning(runs.c.id)
)
_END = Prepared(
    sa.update(runs).where(runs.c.id == sa.bindparam("id_"), runs.c.status == _literal("running")),
    columns=(
        *("status", "stop_reason", "ended_at", "steps", "consecutive_errors", "answer_seq"),
        *_COUNTED,
    ),
)
_OTHER = runs.alias()
_REOPEN = Prepared(
    sa.update(runs)
    .where(
        runs.c.id == sa.bindparam("id_"),
        runs.c.status == _literal("stopped"),
        ~sa.exists().where(
            _OTHER.c.conversation_id == runs.c.conversation_id,
            _OTHER.c.status == _literal("running"),
        ),
    )
    .values(status=RunStatus.RUNNING, stop_reason=None, ended_at=None, epoch=sa.bindparam("epoch_"))
)
_GET = Prepared(sa.select(runs).where(runs.c.id == sa.bindparam("id_")))
_STEPS = Prepared(
    sa.select(steps).where(steps.c.run_id == sa.bindparam("run")).order_by(steps.c.number)
)
_CALLS = Prepared(
    sa.select(tool_calls)
    .where(tool_calls.c.run_id == sa.bindparam("run"))
    .order_by(tool_calls.c.step, tool_calls.c.position)
)
# Later runs answer later messages; the same message again is a later epoch.
_OLDEST_FIRST = (runs.c.trigger_seq, runs.c.epoch, runs.c.id)
_OF_CONVERSATION = sa.and_(
    runs.c.conversation_id == sa.bindparam("conversation"),
    runs.c.trigger_seq > sa.bindparam("after"),
)
_STEPS_OF_CONVERSATION = Prepared(
    sa.select(steps)
    .join(runs, runs.c.id == steps.c.run_id)
    .where(_OF_CONVERSATION)
    .order_by(*_OLDEST_FIRST, steps.c.number)
)
_CALLS_OF_CONVERSATION = Prepared(
    sa.select(tool_calls)
    .join(runs, runs.c.id == tool_calls.c.run_id)
    .where(_OF_CONVERSATION)
    .order_by(tool_calls.c.run_id, tool_calls.c.step, tool_calls.c.position)
)
_MODEL_CALLS = Prepared(_asked())


class SqlRuns:
    """A step is one INSERT, its calls another; reading a conversation back is two SELECTs."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def start(self, run: Run) -> bool:
        values = {
            "id": run.id,
            "conversation_id": run.conversation_id,
            "trigger_seq": run.trigger_seq,
            "status": run.status,
            "stop_reason": run.stop_reason,
            "operator": run.operator,
            "assurance": run.assurance,
            "started_at": run.started_at,
            "steps": run.steps,
            "consecutive_errors": run.consecutive_errors,
            **_usage_values(run.usage),
            "epoch": run.epoch,
        }
        return insert_new(self._connection, runs, values) == 1

    def close_orphan(self, conversation_id: str, *, at: datetime) -> str | None:
        """The dead owner never told its counters: they are taken from its steps."""
        parameters = {"conversation": conversation_id, "at": at}
        closed: str | None = _CLOSE_ORPHAN.value(self._connection, parameters)
        return closed

    def end(self, end: RunEnd) -> bool:
        parameters = {
            "id_": end.run_id,
            "status": end.status,
            "stop_reason": end.stop_reason,
            "ended_at": end.at,
            "steps": end.steps,
            "consecutive_errors": end.consecutive_errors,
            "answer_seq": end.answer_seq,
            **_usage_values(end.usage),
        }
        return _END.run(self._connection, parameters) == 1

    def reopen(self, run_id: str, *, epoch: int) -> bool:
        return _REOPEN.run(self._connection, {"id_": run_id, "epoch_": epoch}) == 1

    def get(self, run_id: str) -> Run | None:
        if not storable(run_id):
            return None
        row = _GET.first(self._connection, {"id_": run_id})
        return None if row is None else _run(row)

    def list(
        self, *, conversation_id: str | None, limit: int, before: str | None
    ) -> tuple[Run, ...]:
        statement = sa.select(runs).order_by(runs.c.id.desc()).limit(limit)
        if conversation_id is not None:
            statement = statement.where(runs.c.conversation_id == conversation_id)
        if before is not None:
            statement = statement.where(runs.c.id < before)
        return tuple(_run(row) for row in self._connection.execute(statement))

    def add_step(
        self,
        *,
        run_id: str,
        number: int,
        decision: Decision,
        usage: Usage,
        at: datetime,
        epoch: int,
    ) -> bool:
        values = {**_decision_values(decision), **_usage_values(usage), "at": at}
        step = {"run_id": run_id, "number": number, **values, "epoch_": epoch}
        if _ADD_STEP.run(self._connection, step) != 1:
            return False
        if isinstance(decision, CallTools) and decision.calls:
            rows = [
                _call_values(run_id, number, position, call)
                for position, call in enumerate(decision.calls)
            ]
            _ADD_CALLS.run_each(self._connection, rows)
        return True

    def answer(self, call: ToolCall, observation: Observation, *, epoch: int) -> bool:
        parameters = {
            "id_": call.id,
            "epoch_": epoch,
            "ok": observation.ok,
            "content": made_storable(observation.content),
            "error_code": observation.error_code,
            "quote_ids": list(observation.quote_ids),
            "request_ids": list(observation.request_ids),
        }
        return _ANSWER.run(self._connection, parameters) == 1

    def steps(self, run_id: str) -> tuple[RunStep, ...]:
        here = {"run": run_id}
        return _joined(_STEPS.all(self._connection, here), _CALLS.all(self._connection, here))

    def steps_of_conversation(
        self, conversation_id: str, *, after_seq: int = 0
    ) -> tuple[RunStep, ...]:
        here = {"conversation": conversation_id, "after": after_seq}
        step_rows = _STEPS_OF_CONVERSATION.all(self._connection, here)
        return _joined(step_rows, _CALLS_OF_CONVERSATION.all(self._connection, here))

    def model_calls(self, conversation_id: str, *, after_seq: int = 0) -> int:
        here = {"conversation": conversation_id, "after": after_seq}
        total = _MODEL_CALLS.value(self._connection, here)
        return int(total or 0)

    def not_found(self, conversation_id: str) -> tuple[str, ...]:
        found = self._connection.execute(
            sa.select(tool_calls.c.arguments)
            .join(runs, runs.c.id == tool_calls.c.run_id)
            .where(
                runs.c.conversation_id == conversation_id,
                tool_calls.c.error_code == OrderNotFound.code,
            )
        )
        return tuple(found.scalars())


def _usage_values(usage: Usage) -> dict[str, int]:
    return {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost_micros": usage.cost_micros,
    }


def _decision_values(decision: Decision) -> Mapping[str, str | None]:
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


def _call_values(run_id: str, number: int, position: int, call: ToolCall) -> dict[str, object]:
    return {
        "id": call.id,
        "run_id": run_id,
        "step": number,
        "position": position,
        "provider_id": made_storable(call.provider_id),
        "name": made_storable(call.name),
        "arguments": made_storable(call.arguments),
    }


def _joined(step_rows: Iterable[Row], call_rows: Iterable[Row]) -> tuple[RunStep, ...]:
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


def _run(row: Row) -> Run:
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
    )

"""Runs, their steps and their tool calls in SQL."""

from collections.abc import Collection, Mapping
from datetime import datetime

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.statements import insert_new, marks, storable
from support_agent.adapters.db.stores.run_rows import (
    call_values,
    decision_values,
    joined,
    stored_run,
    usage_values,
)
from support_agent.adapters.db.stores.run_statements import (
    ADD_CALLS,
    ADD_STEP,
    ANSWER,
    CALLS,
    CALLS_OF_CONVERSATION,
    END,
    GET,
    GIVE_UP,
    HOLD,
    MODEL_CALLS,
    PROGRESS,
    REOPEN,
    SINCE,
    STEPS,
    STEPS_OF_CONVERSATION,
    TAKE_OVER,
    WILL_STATE,
    runs,
    tool_calls,
    written_out,
)
from support_agent.adapters.db.types import made_storable
from support_agent.domain.errors import OrderNotFound
from support_agent.domain.runs import (
    CallTools,
    Decision,
    Observation,
    Run,
    RunStatus,
    RunStep,
    ToolCall,
    Usage,
)
from support_agent.ports.storage import RunEnd
from support_agent.ports.storage.talk import Mark


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
            **usage_values(run.usage),
            "epoch": run.epoch,
            "attempts": run.attempts,
        }
        return insert_new(self._connection, runs, values) == 1

    def take_over(
        self, conversation_id: str, *, epoch: int, counts: bool = True, operator: str | None = None
    ) -> Run | None:
        """The owner that is gone never told its counters: they are taken from its steps."""
        parameters = {"conversation": conversation_id, "epoch_": epoch, "counted": int(counts)}
        row = TAKE_OVER.first(self._connection, {**parameters, "by": operator})
        return None if row is None else stored_run(row)

    def give_up(self, run_id: str, *, epoch: int) -> None:
        GIVE_UP.run(self._connection, {"id_": run_id, "epoch_": epoch})

    def end(self, end: RunEnd) -> bool:
        parameters = {
            "id_": end.run_id,
            "status": end.status,
            "stop_reason": end.stop_reason,
            "ended_at": end.at,
            "steps": end.steps,
            "consecutive_errors": end.consecutive_errors,
            "answer_seq": end.answer_seq,
            **usage_values(end.usage),
        }
        return END.run(self._connection, parameters) == 1

    def reopen(self, run_id: str, *, epoch: int, operator: str | None) -> bool:
        parameters = {"id_": run_id, "epoch_": epoch, "by": operator}
        return REOPEN.run(self._connection, parameters) == 1

    def get(self, run_id: str) -> Run | None:
        if not storable(run_id):
            return None
        row = GET.first(self._connection, {"id_": run_id})
        return None if row is None else stored_run(row)

    def list(
        self,
        *,
        conversation_id: str | None,
        limit: int,
        before: str | None,
        status: RunStatus | None = None,
    ) -> tuple[Run, ...]:
        # Those that are running are few: found by their own index and sorted. The other one holds
        # every run there ever was, and would be walked for them.
        order = runs.c.id.concat("") if status is RunStatus.RUNNING else runs.c.id
        statement = sa.select(runs).order_by(order.desc()).limit(limit)
        if conversation_id is not None:
            statement = statement.where(runs.c.conversation_id == conversation_id)
        if before is not None:
            statement = statement.where(order < before)
        if status is not None:
            statement = statement.where(runs.c.status == written_out(status))
        return tuple(stored_run(row) for row in self._connection.execute(statement))

    def since(self, conversation_id: str, *, epoch: int, limit: int) -> tuple[Run, ...]:
        here = {"conversation": conversation_id, "epoch_": epoch, "most": limit}
        return tuple(stored_run(row) for row in SINCE.all(self._connection, here))

    def progress(self, run_ids: Collection[str]) -> Mapping[str, Mark]:
        return marks(self._connection, PROGRESS, run_ids)

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
        values = {**decision_values(decision), **usage_values(usage), "at": at}
        step = {"run_id": run_id, "number": number, **values, "epoch_": epoch}
        if ADD_STEP.run(self._connection, step) != 1:
            return False
        if isinstance(decision, CallTools) and decision.calls:
            rows = [
                call_values(run_id, number, position, call)
                for position, call in enumerate(decision.calls)
            ]
            ADD_CALLS.run_each(self._connection, rows)
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
        return ANSWER.run(self._connection, parameters) == 1

    def steps(self, run_id: str) -> tuple[RunStep, ...]:
        here = {"run": run_id}
        return joined(STEPS.all(self._connection, here), CALLS.all(self._connection, here))

    def steps_of_conversation(
        self, conversation_id: str, *, after_seq: int = 0
    ) -> tuple[RunStep, ...]:
        here = {"conversation": conversation_id, "after": after_seq}
        step_rows = STEPS_OF_CONVERSATION.all(self._connection, here)
        return joined(step_rows, CALLS_OF_CONVERSATION.all(self._connection, here))

    def model_calls(self, conversation_id: str, *, after_seq: int = 0) -> int:
        here = {"conversation": conversation_id, "after": after_seq}
        total = MODEL_CALLS.value(self._connection, here)
        return int(total or 0)

    def will_state(self, conversation_id: str, request_id: str) -> bool:
        here = {"conversation": conversation_id}
        if is_postgres(self._connection):
            HOLD.first(self._connection, here)
        return WILL_STATE.first(self._connection, here | {"request": request_id}) is not None

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

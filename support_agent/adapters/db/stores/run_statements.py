"""The statements of runs, steps and tool calls: compiled once, as every step runs them."""

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds
from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.talk import ConversationRow, RunRow, StepRow, ToolCallRow
from support_agent.domain.runs import STATE_VERSION, RunStatus

conversations = table_of(ConversationRow)
runs = table_of(RunRow)
steps = table_of(StepRow)
tool_calls = table_of(ToolCallRow)


def written_out(status: str) -> sa.ColumnElement[str]:
    """A status as SQL has it: a bound one finds no partial index under a generic plan."""
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
        runs.c.status == written_out("running"),
        runs.c.epoch == sa.bindparam("epoch_"),
    )
    .with_for_update(read=True)
    .exists()
)
ANSWER = Prepared(
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
ADD_STEP = Prepared(
    sa.insert(steps)
    .inline()
    .from_select(
        (*_STEP, "schema_version"),
        sa.select(
            *(sa.bindparam(name, type_=steps.c[name].type) for name in _STEP),
            sa.literal_column(str(STATE_VERSION), sa.BigInteger),
        ).where(
            sa.select(runs.c.id)
            .where(
                runs.c.id == sa.bindparam("run_id"),
                runs.c.status == written_out("running"),
                runs.c.epoch == sa.bindparam("epoch_"),
            )
            .with_for_update(read=True)
            .exists()
        ),
        include_defaults=False,
    )
)
ADD_CALLS = Prepared(
    sa.insert(tool_calls).inline(),
    columns=("id", "run_id", "step", "position", "provider_id", "name", "arguments"),
)
SINCE = Prepared(
    sa.select(runs)
    .where(
        runs.c.conversation_id == sa.bindparam("conversation"),
        runs.c.epoch >= sa.bindparam("epoch_"),
    )
    .order_by(runs.c.epoch, runs.c.id)
    .limit(sa.bindparam("most", type_=sa.BigInteger))
)
_STORED = (
    sa.select(sa.func.count())
    .select_from(steps)
    .where(steps.c.run_id == runs.c.id)
    .scalar_subquery()
)
TAKE_OVER = Prepared(
    sa.update(runs)
    .where(
        runs.c.conversation_id == sa.bindparam("conversation"),
        runs.c.status == written_out("running"),
    )
    .values(
        epoch=sa.bindparam("epoch_"),
        # An owner that got on with it was not broken by it: it had other conversations in hand.
        attempts=sa.case(
            (runs.c.steps < _STORED, 1),
            else_=runs.c.attempts + sa.bindparam("counted", type_=sa.BigInteger),
        ),
        operator=sa.func.coalesce(sa.bindparam("by", type_=sa.Text), runs.c.operator),
        # Replies that were no decision made no step, and count for a run that was resumed.
        steps=_larger(runs.c.steps, _STORED),
        **{name: _larger(runs.c[name], _sum_of_steps(name)) for name in _COUNTED},
    )
    .returning(runs)
)
_ANSWERED = (
    sa.select(sa.func.count())
    .select_from(tool_calls)
    .where(tool_calls.c.run_id == runs.c.id, tool_calls.c.ok.is_not(None))
    .scalar_subquery()
)
PROGRESS = sa.select(runs.c.id, runs.c.status, runs.c.epoch, _STORED, _ANSWERED).where(
    runs.c.id.in_(sa.bindparam("ids", expanding=True))
)
GIVE_UP = Prepared(
    sa.update(runs)
    .where(
        runs.c.id == sa.bindparam("id_"),
        runs.c.epoch == sa.bindparam("epoch_"),
        runs.c.status == written_out("running"),
    )
    .values(attempts=runs.c.attempts - 1)
)
END = Prepared(
    sa.update(runs).where(
        runs.c.id == sa.bindparam("id_"), runs.c.status == written_out("running")
    ),
    columns=(
        *("status", "stop_reason", "ended_at", "steps", "consecutive_errors", "answer_seq"),
        *_COUNTED,
    ),
)
_OTHER = runs.alias()
REOPEN = Prepared(
    sa.update(runs)
    .where(
        runs.c.id == sa.bindparam("id_"),
        sa.or_(runs.c.status == written_out("stopped"), runs.c.status == written_out("dead")),
        ~sa.exists().where(
            _OTHER.c.conversation_id == runs.c.conversation_id,
            _OTHER.c.status == written_out("running"),
        ),
    )
    .values(
        status=RunStatus.RUNNING,
        stop_reason=None,
        ended_at=None,
        answer_seq=None,
        epoch=sa.bindparam("epoch_"),
        attempts=1,
        operator=sa.func.coalesce(sa.bindparam("by", type_=sa.Text), runs.c.operator),
    )
)
GET = Prepared(sa.select(runs).where(runs.c.id == sa.bindparam("id_")))
STEPS = Prepared(
    sa.select(steps).where(steps.c.run_id == sa.bindparam("run")).order_by(steps.c.number)
)
CALLS = Prepared(
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
STEPS_OF_CONVERSATION = Prepared(
    sa.select(steps)
    .join(runs, runs.c.id == steps.c.run_id)
    .where(_OF_CONVERSATION)
    .order_by(*_OLDEST_FIRST, steps.c.number)
)
CALLS_OF_CONVERSATION = Prepared(
    sa.select(tool_calls)
    .join(runs, runs.c.id == tool_calls.c.run_id)
    .where(_OF_CONVERSATION)
    .order_by(tool_calls.c.run_id, tool_calls.c.step, tool_calls.c.position)
)
MODEL_CALLS = Prepared(_asked())
# Who ends a run has its conversation's row first, and reads how requests stand after it.
HOLD = Prepared(
    sa.select(conversations.c.id)
    .where(conversations.c.id == sa.bindparam("conversation"))
    .with_for_update()
)
WILL_STATE = Prepared(
    sa.select(runs.c.id)
    .join(tool_calls, tool_calls.c.run_id == runs.c.id)
    .where(
        runs.c.conversation_id == sa.bindparam("conversation"),
        runs.c.status == written_out("running"),
        sa.type_coerce(tool_calls.c.request_ids, sa.Text).contains(sa.bindparam("request")),
    )
    .limit(1)
)

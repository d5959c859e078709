"""Routes of `/v1/runs`: what the agent does with messages."""

from fastapi import Response

from support_agent.agent.results import result_of
from support_agent.api.access import CallerOf
from support_agent.api.events import RunPlace, RunStory
from support_agent.api.guarded import guarded_router, needs, problems
from support_agent.api.schemas import Body, Listed
from support_agent.api.shapes_talk import RunShape, StepShape, run_shape, step_shapes
from support_agent.api.streams import EVENTS, EventStream, LastEventId
from support_agent.api.taking import Operator
from support_agent.api.wiring import (
    AgentOf,
    ConversationAccessOf,
    DatabaseOf,
    StreamsOf,
    TurnsOf,
)
from support_agent.domain.access import VIA, Caller, Scope
from support_agent.domain.errors import RunNotFound
from support_agent.ports.storage import Transaction
from support_agent.services.conversation_access import binding_of

router = guarded_router("runs")
SEEN = needs(Scope.CUSTOMERS_ACT, Scope.CONVERSATIONS_READ)
MANAGED = needs(Scope.CUSTOMERS_ACT, Scope.RUNS_MANAGE)
MISSING = problems({404: "No such run, or another customer's"})


class ResumeBody(Body):
    """Who resumes it: said by a key that speaks for a customer, known of any other."""

    operator: Operator = None


@router.get("/v1/runs/{run_id}", dependencies=[SEEN], responses=MISSING)
async def get_run(
    run_id: str, caller: CallerOf, access: ConversationAccessOf, database: DatabaseOf
) -> RunShape:
    """A run, and what it came to."""
    await access.run(run_id, caller.acting)
    return await database.read(lambda tx: _shape(tx, run_id), brief=True)


@router.get("/v1/runs/{run_id}/steps", dependencies=[SEEN], responses=MISSING)
async def list_steps(
    run_id: str, caller: CallerOf, access: ConversationAccessOf, database: DatabaseOf
) -> Listed[StepShape]:
    """Everything the model decided, and what came of each call; the whole list.

    Its own words are for staff only.
    """
    await access.run(run_id, caller.acting)
    steps = await database.read(lambda tx: tx.runs.steps(run_id), brief=True)
    data = step_shapes(steps, for_staff=caller.acting is None)
    return Listed[StepShape](data=data, has_more=False, next_cursor=None)


@router.get(
    "/v1/runs/{run_id}/events",
    dependencies=[SEEN],
    status_code=200,
    response_class=EventStream,
    responses=EVENTS | {204: {"description": "It has ended, and all of it was told"}} | MISSING,
)
async def stream_run(
    run_id: str,
    caller: CallerOf,
    access: ConversationAccessOf,
    streams: StreamsOf,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow a run: `step` when something was decided, `observation` when a call was answered.

    The last one is `done`, with the run as `get_run` gives it; then the stream ends. A run that is
    resumed goes on behind it.
    """
    await access.run(run_id, caller.acting)
    story = RunStory(run_id, RunPlace.read(last_event_id), for_staff=caller.acting is None)
    return await streams.open(story, caller)


@router.post(
    "/v1/runs/{run_id}/cancel",
    dependencies=[MANAGED],
    responses=problems({404: "No such run, or another customer's", 409: "It has ended already"}),
)
async def cancel_run(
    run_id: str,
    caller: CallerOf,
    access: ConversationAccessOf,
    agent: AgentOf,
    turns: TurnsOf,
    database: DatabaseOf,
) -> RunShape:
    """Stop a run that goes on, whichever process has it, and tell the customer.

    What it did stands: a refund that it filed is filed, and a payout that it began ends as it ends.
    """
    run = await access.run(run_id, caller.acting)
    by = caller.key.principal if caller.acting is None else binding_of(caller.acting).principal
    await agent.cancel(run_id, by=by)
    turns.drain(run.conversation_id)
    return await database.read(lambda tx: _shape(tx, run_id), brief=True)


@router.post(
    "/v1/runs/{run_id}/resume",
    dependencies=[MANAGED],
    status_code=202,
    responses=problems(
        {404: "No such run, or another customer's", 409: "There is nothing to resume"}
    ),
)
async def resume_run(
    run_id: str,
    caller: CallerOf,
    access: ConversationAccessOf,
    turns: TurnsOf,
    database: DatabaseOf,
    body: ResumeBody | None = None,
) -> RunShape:
    """Go on with a run that was stopped, or whose process is gone. Its counters go on."""
    run = await access.run(run_id, caller.acting)
    await turns.resume(run, operator=_operator(caller, body), via=VIA)
    return await database.read(lambda tx: _shape(tx, run_id), brief=True)


def _operator(caller: Caller, body: ResumeBody | None) -> str | None:
    """A person at the shop is whoever has the key."""
    if caller.acting is None:
        return caller.key.approver or caller.key.name
    return body.operator if body else None


def _shape(tx: Transaction, run_id: str) -> RunShape:
    run = tx.runs.get(run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run_shape(run, result_of(tx, run))

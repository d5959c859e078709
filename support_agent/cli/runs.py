"""`runs`: what the agent thought, did and saw, and going on where a run stopped."""

import json
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from support_agent.cli.listing import check_cursor, page_of, print_page
from support_agent.cli.options import (
    Cursor,
    Json,
    Limit,
    Operator,
    Trace,
    examples,
    operator_or_user,
)
from support_agent.cli.output import Column, print_json, rfc3339, say, say_body
from support_agent.cli.runtime import ready, run
from support_agent.cli.trace import NOT_ANSWERED, Tools, arguments_of, record_objects
from support_agent.cli.turn import leave, print_turn
from support_agent.cli.views import local, usage_object
from support_agent.domain.errors import RunNotFound
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    FinalAnswer,
    RecordedCall,
    Run,
    RunStep,
)
from support_agent.ports.storage import Page, Transaction

if TYPE_CHECKING:
    from support_agent.agent.turns import TurnResult
    from support_agent.container import Container

COLUMNS = (
    Column(title="ID"),
    Column(title="CONVERSATION"),
    Column(title="STATUS"),
    Column(title="REASON"),
    Column(title="STEPS", right=True),
    Column(title="STARTED"),
)

app = typer.Typer(name="runs", help="Runs of the agent, step by step.")
RunId = Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")]
OfConversation = Annotated[
    str | None, typer.Option("--conversation", help="Only this conversation's.", metavar="ID")
]


@app.command("list", epilog=examples("runs list --conversation con_01…"))
def list_runs(
    *,
    conversation: OfConversation = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    settings = ready()

    def read(tx: Transaction) -> Page[Run]:
        check_cursor(cursor, tx.runs.get(cursor) if cursor else None)
        rows = tx.runs.list(conversation_id=conversation, limit=limit + 1, before=cursor)
        return page_of(rows, limit, lambda row: row.id)

    async def work(container: "Container") -> Page[Run]:
        return await container.database().read(read)

    print_page(
        run(work, settings),
        columns=COLUMNS,
        row=lambda r: (
            r.id,
            r.conversation_id,
            str(r.status),
            str(r.stop_reason or ""),
            str(r.steps),
            local(r.started_at, settings.zone),
        ),
        as_object=_object,
        as_json=as_json,
    )


@app.command(epilog=examples("runs show run_01…", "runs show run_01… --json"))
def show(run_id: RunId, *, as_json: Json = False) -> None:
    """Show the whole record of a run: each thought, action and observation, and the answer.

    With --json `steps` has the tool calls as `ask --json` gives them, and `decisions` everything
    the model decided: {step, kind (call, answer or question), thought, text, calls, at}.
    """

    def read(tx: Transaction) -> tuple[Run, tuple[RunStep, ...]]:
        found = tx.runs.get(run_id)
        if found is None:
            raise RunNotFound(run_id)
        return found, tx.runs.steps(run_id)

    async def work(container: "Container") -> tuple[Run, tuple[RunStep, ...]]:
        return await container.database().read(read)

    found, steps = run(work)
    if as_json:
        print_json(_object(found) | record_objects(steps))
        return
    say(f"{found.id}: {found.status} ({found.stop_reason or 'not ended'})")
    say(f"conversation {found.conversation_id}, operator {found.operator or 'none'}")
    for step in steps:
        _print_step(step)


@app.command(epilog=examples("runs resume run_01…"))
def resume(
    run_id: RunId, *, operator: Operator = None, trace: Trace = False, as_json: Json = False
) -> None:
    """Go on with a stopped run; its counters go on, its deadline is new."""
    who = operator_or_user(operator)

    async def work(container: "Container") -> "tuple[TurnResult, Tools]":
        result = await container.agent().resume(run_id, operator=who, via="cli")
        return result, container.tool_runner()

    result, tools = run(work)
    print_turn(result, tools, trace=trace, as_json=as_json)
    leave(result)


def _object(found: Run) -> dict[str, object]:
    return {
        "id": found.id,
        "conversation_id": found.conversation_id,
        "status": found.status,
        "stop_reason": found.stop_reason,
        "operator": found.operator,
        "started_at": rfc3339(found.started_at),
        "usage": usage_object(found.usage),
    }


def _print_step(step: RunStep) -> None:
    say()
    say(f"Step {step.number}")
    if step.decision.thought:
        say(f"  Thought: {step.decision.thought}")
    match step.decision:
        case CallTools():
            for recorded in step.calls:
                _print_call(recorded)
        case FinalAnswer(text=text):
            _print_words("Answer", text)
        case AskCustomer(question=question):
            _print_words("Question", question)
        case _:
            assert_never(step.decision)


def _print_call(recorded: RecordedCall) -> None:
    arguments = arguments_of(recorded.call)
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    observation = recorded.observation
    say(f"  Action: {recorded.call.name}({shown})")
    say(f"  Observation: {observation.content if observation else NOT_ANSWERED}")


def _print_words(label: str, text: str) -> None:
    say_body(f"  {label}: " + text.replace("\n", "\n    "))

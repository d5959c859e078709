"""`runs`: what the agent thought, did and saw, and going on where a run stopped."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from support_agent.cli.listing import print_page
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
from support_agent.cli.trace import NOT_ANSWERED, Tools, record_objects
from support_agent.cli.turn import leave, print_turn
from support_agent.cli.views import local, usage_object
from support_agent.domain.call_arguments import arguments_of
from support_agent.domain.errors import RunNotFound
from support_agent.domain.runs import (
    AskCustomer,
    CallTools,
    FinalAnswer,
    Run,
    RunStatus,
    RunStep,
    ToolCall,
)
from support_agent.ports.storage import Page, Transaction
from support_agent.services.paging import check_cursor, page_of

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
OfStatus = Annotated[
    RunStatus | None, typer.Option("--status", help="Only runs that are, or ended, like this.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """A run with all that is shown of it; `lease_s` is its owner's, None unless it is running."""

    run: Run
    steps: tuple[RunStep, ...]
    answer: str | None
    lease_s: float | None
    erased: bool  # its texts were, as the customer asked for


@app.command("list", epilog=examples("runs list --conversation con_01…", "runs list --status dead"))
def list_runs(
    *,
    conversation: OfConversation = None,
    status: OfStatus = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    settings = ready()

    def read(tx: Transaction) -> Page[Run]:
        check_cursor(cursor, tx.runs.get(cursor) if cursor else None)
        rows = tx.runs.list(
            conversation_id=conversation, limit=limit + 1, before=cursor, status=status
        )
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

    Of one that is running also who has it: `attempts` owners so far, the last of them for
    `lease_s` more seconds unless it ends before.

    With --json `steps` has the tool calls as `ask --json` gives them, and `decisions` everything
    the model decided: {step, kind (call, answer or question), thought, text, calls, at}.
    """

    async def work(container: "Container") -> _Record:
        return await container.database().read(lambda tx: _record(tx, run_id))

    record = run(work)
    if as_json:
        about = {"lease_s": record.lease_s, "answer": record.answer, "erased": record.erased}
        print_json(_object(record.run) | about | record_objects(record.steps))
        return
    _print_head(record)
    for step in record.steps:
        _print_step(step)
    if record.answer is not None:
        say()
        say("Sent to the customer")
        say_body("    " + record.answer.replace("\n", "\n    "))


@app.command(epilog=examples("runs resume run_01…"))
def resume(
    run_id: RunId, *, operator: Operator = None, trace: Trace = False, as_json: Json = False
) -> None:
    """Go on with a run that was stopped, is a dead letter, or whose owner is gone.

    Its counters go on, its deadline is new. What it has done already is not done again.
    """
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
        "attempts": found.attempts,
        "usage": usage_object(found.usage),
    }


def _record(tx: Transaction, run_id: str) -> _Record:
    found = tx.runs.get(run_id)
    if found is None:
        raise RunNotFound(run_id)
    conversation = tx.conversations.get(found.conversation_id)
    answer = found.answer_seq and tx.conversations.message(found.conversation_id, found.answer_seq)
    running = found.status is RunStatus.RUNNING
    waiting = tx.conversations.waiting(found.conversation_id) if running else None
    return _Record(
        run=found,
        steps=tx.runs.steps(run_id),
        answer=answer.text if answer else None,
        lease_s=max(0.0, waiting.left_s) if waiting else None,
        erased=conversation is not None and conversation.erased,
    )


def _print_head(record: _Record) -> None:
    found = record.run
    say(f"{found.id}: {found.status} ({found.stop_reason or 'not ended'})")
    say(f"conversation {found.conversation_id}, operator {found.operator or 'none'}")
    if record.erased:
        say("its texts were erased")
    if record.lease_s:
        say(f"attempt {found.attempts}, its owner has it for {record.lease_s:.0f} s at most")
    elif record.lease_s is not None:
        say(f"attempt {found.attempts}, its owner is gone; a worker goes on with it, and so does")
        say(f"  support-agent runs resume {found.id}")


def _print_step(step: RunStep) -> None:
    print_decision(step)
    for recorded in step.calls:
        observation = recorded.observation
        say(f"  Action: {call_text(recorded.call)}")
        say(f"  Observation: {observation.content if observation else NOT_ANSWERED}")


def print_decision(step: RunStep) -> None:
    """A step's head, with what was thought and said; its calls come behind it."""
    say()
    say(f"Step {step.number}")
    if step.decision.thought:
        say(f"  Thought: {step.decision.thought}")
    match step.decision:
        case CallTools():
            pass
        case FinalAnswer(text=text):
            say_set_in(f"Answer: {text}")
        case AskCustomer(question=question):
            say_set_in(f"Question: {question}")
        case _:
            assert_never(step.decision)


def call_text(call: ToolCall) -> str:
    """A call as it would be written."""
    arguments = arguments_of(call)
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f"{call.name}({shown})"


def say_set_in(text: str) -> None:
    """A text that may have lines of its own, none of which can look like one of ours."""
    say_body("  " + text.replace("\n", "\n    "))

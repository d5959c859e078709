"""`tasks`: what a person at the shop has to do."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import (
    Cursor,
    Json,
    Limit,
    Operator,
    examples,
    operator_or_user,
)
from support_agent.cli.output import Column, print_json, rfc3339, say
from support_agent.cli.runtime import at_the_host, run
from support_agent.cli.views import age
from support_agent.ports.storage import Task
from support_agent.services.paging import page_of
from support_agent.services.tasks import HANDED_OVER

if TYPE_CHECKING:
    from support_agent.container import Container

COLUMNS = (
    Column(title="ID"),
    Column(title="KIND"),
    Column(title="SUBJECT"),
    Column(title="CONVERSATION"),
    Column(title="AGE", right=True),
    Column(title="DUE", right=True),
)

app = typer.Typer(name="tasks", help="What a person at the shop has to do.")


@app.command("list", epilog=examples("tasks list", "tasks list --all --json"))
def list_tasks(
    *,
    every: Annotated[bool, typer.Option("--all", help="Those that are done, too.")] = False,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List open tasks, the oldest first."""

    async def work(container: "Container") -> None:
        rows = await container.database().read(
            lambda tx: tx.tasks.list(open_only=not every, limit=limit + 1, after=cursor)
        )
        now = container.clock().now()
        print_page(
            page_of(rows, limit, lambda task: task.id),
            columns=COLUMNS,
            row=lambda t: (
                t.id,
                t.kind,
                t.subject,
                t.conversation_id or "",
                age(t.created_at, now),
                _due(t, now),
            ),
            as_object=lambda t: _object(t, now),
            as_json=as_json,
            none="nothing to do",
        )

    run(work)


@app.command(epilog=examples("tasks done task_01… --operator thu"))
def done(
    task: Annotated[str, typer.Argument(help="The task's id.", metavar="TASK")],
    *,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Mark a task as done; a hand-off gives its conversation back to the agent."""
    by = at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> tuple[Task, datetime]:
        finished = await container.hand_off_desk().finish(task, by=by)
        return finished, container.clock().now()

    finished, now = run(work)
    if as_json:
        print_json(_object(finished, now))
        return
    say(f"task {finished.id} is done by {finished.done_by}")
    if finished.kind in HANDED_OVER:
        say(f"conversation {finished.conversation_id} is the agent's again")


def _due(task: Task, now: datetime) -> str:
    """When it has to be done by; what is done has no due time any more."""
    if task.done_at is not None:
        return "done"
    if task.due_at is None:
        return ""
    if task.due_at < now:
        return f"overdue {age(task.due_at, now)}"
    return f"in {age(now, task.due_at)}"


def _object(task: Task, now: datetime) -> dict[str, object]:
    late = task.done_at is None and task.due_at is not None and task.due_at < now
    return {
        "id": task.id,
        "kind": task.kind,
        "subject": task.subject,
        "conversation_id": task.conversation_id,
        "created_at": rfc3339(task.created_at),
        "due_at": rfc3339(task.due_at) if task.due_at else None,
        "overdue": late,
        "done_at": rfc3339(task.done_at) if task.done_at else None,
        "done_by": task.done_by,
    }

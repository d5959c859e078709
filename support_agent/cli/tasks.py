"""`tasks`: what a person at the shop has to do."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import page_of, print_page
from support_agent.cli.options import Cursor, Json, Limit, examples
from support_agent.cli.output import Column, rfc3339
from support_agent.cli.runtime import run
from support_agent.cli.views import age
from support_agent.ports.storage import Task

if TYPE_CHECKING:
    from support_agent.container import Container

COLUMNS = (
    Column(title="ID"),
    Column(title="KIND"),
    Column(title="SUBJECT"),
    Column(title="CONVERSATION"),
    Column(title="AGE", right=True),
)

app = typer.Typer(name="tasks", help="What a person at the shop has to do.")


@app.callback()
def tasks() -> None:
    """What a person at the shop has to do."""


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
            ),
            as_object=_object,
            as_json=as_json,
            none="nothing to do",
        )

    run(work)


def _object(task: Task) -> dict[str, object]:
    return {
        "id": task.id,
        "kind": task.kind,
        "subject": task.subject,
        "conversation_id": task.conversation_id,
        "created_at": rfc3339(task.created_at),
        "done_at": rfc3339(task.done_at) if task.done_at else None,
    }

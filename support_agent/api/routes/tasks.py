"""Routes of `/v1/tasks`: what persons at the shop have to do."""

from datetime import datetime

from fastapi import Query

from support_agent.api.access import CallerOf
from support_agent.api.guarded import guarded_router, needs, problems
from support_agent.api.schemas import Cursor, Instant, Limit, Listed, Shape, listed
from support_agent.api.wiring import ClockOf, DatabaseOf, HandOffDeskOf
from support_agent.domain.access import Scope
from support_agent.ports.storage import Page, Task, Transaction
from support_agent.services.paging import page_of
from support_agent.services.tasks import stored_task

router = guarded_router("tasks")


class TaskShape(Shape):
    """Something a person has to do; `subject` is the id of what it is about."""

    id: str
    kind: str
    subject: str
    conversation_id: str | None
    created_at: Instant
    due_at: Instant | None
    overdue: bool
    done_at: Instant | None
    done_by: str | None


def _shape(task: Task, now: datetime) -> TaskShape:
    late = task.done_at is None and task.due_at is not None and task.due_at < now
    return TaskShape(
        id=task.id,
        kind=task.kind,
        subject=task.subject,
        conversation_id=task.conversation_id,
        created_at=task.created_at,
        due_at=task.due_at,
        overdue=late,
        done_at=task.done_at,
        done_by=task.done_by,
    )


@router.get("/v1/tasks", dependencies=[needs(Scope.TASKS_READ)])
async def list_tasks(
    database: DatabaseOf,
    clock: ClockOf,
    *,
    limit: Limit = 20,
    cursor: Cursor = None,
    every: bool = Query(False),
) -> Listed[TaskShape]:
    """Tasks, the oldest first; `every`: also those that are done."""

    def read(tx: Transaction) -> Page[Task]:
        rows = tx.tasks.list(open_only=not every, limit=limit + 1, after=cursor)
        return page_of(rows, limit, lambda row: row.id)

    page = await database.read(read)
    now = clock.now()
    return listed(page, TaskShape, [_shape(task, now) for task in page.data])


@router.get(
    "/v1/tasks/{task_id}",
    dependencies=[needs(Scope.TASKS_READ)],
    responses=problems({404: "No such task"}),
)
async def get_task(task_id: str, database: DatabaseOf, clock: ClockOf) -> TaskShape:
    """One task."""
    task = await database.read(lambda tx: stored_task(tx, task_id), brief=True)
    return _shape(task, clock.now())


@router.post(
    "/v1/tasks/{task_id}/done",
    dependencies=[needs(Scope.TASKS_WRITE)],
    responses=problems(
        {404: "No such task", 409: "It was done already; `by` and `at` say by whom and when"}
    ),
)
async def finish_task(
    task_id: str, caller: CallerOf, desk: HandOffDeskOf, clock: ClockOf
) -> TaskShape:
    """Mark a task as done, by whose key this is; a hand-off gives its conversation back."""
    done = await desk.finish(task_id, by=caller.key.principal)
    return _shape(done, clock.now())

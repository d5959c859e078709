"""Routes of `/v1/tasks`: what persons at the shop have to do."""

from fastapi import Query

from support_agent.api.guarded import guarded_router, needs
from support_agent.api.schemas import Cursor, Instant, Limit, Listed, Shape, listed
from support_agent.api.wiring import DatabaseOf
from support_agent.domain.access import Scope
from support_agent.ports.storage import Page, Task, Transaction
from support_agent.services.paging import page_of

router = guarded_router("tasks")


class TaskShape(Shape):
    """Something a person has to do; `subject` is the id of what it is about."""

    id: str
    kind: str
    subject: str
    conversation_id: str | None
    created_at: Instant
    due_at: Instant | None
    done_at: Instant | None
    done_by: str | None


@router.get("/v1/tasks", dependencies=[needs(Scope.TASKS_READ)])
async def list_tasks(
    database: DatabaseOf, *, limit: Limit = 20, cursor: Cursor = None, every: bool = Query(False)
) -> Listed[TaskShape]:
    """Tasks, the oldest first; `every`: also those that are done."""

    def read(tx: Transaction) -> Page[Task]:
        rows = tx.tasks.list(open_only=not every, limit=limit + 1, after=cursor)
        return page_of(rows, limit, lambda row: row.id)

    page = await database.read(read)
    return listed(page, TaskShape, [TaskShape.model_validate(task) for task in page.data])

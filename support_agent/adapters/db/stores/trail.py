"""The outbox and staff tasks in SQL."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.tables.trail import OutboxRow, TaskRow
from support_agent.domain.errors import InvalidInput
from support_agent.ports.storage import Task

Row = sa.Row[*tuple[Any, ...]]

outbox = table_of(OutboxRow)
tasks = table_of(TaskRow)


class SqlOutbox:
    """Written with what caused the event; delivered by somebody else."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, topic: str, *, key: str, body: Mapping[str, str], at: datetime) -> None:
        values = {"topic": topic, "key": key, "body": dict(body), "created_at": at}
        insert_new(self._connection, outbox, values, on=["key"])


class SqlTasks:
    """Oldest first, so that what waits longest is seen first."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, task: Task) -> bool:
        values = {
            "id": task.id,
            "kind": task.kind,
            "subject": task.subject,
            "conversation_id": task.conversation_id,
            "created_at": task.created_at,
            "due_at": task.due_at,
            "done_at": task.done_at,
            "done_by": task.done_by,
        }
        return insert_new(self._connection, tasks, values, on=["id"]) == 1

    def get(self, task_id: str) -> Task | None:
        if not storable(task_id):
            return None
        row = self._connection.execute(sa.select(tasks).where(tasks.c.id == task_id)).one_or_none()
        return None if row is None else _task(row)

    def finish(self, task_id: str, *, by: str, at: datetime) -> bool:
        done = self._connection.execute(
            sa.update(tasks)
            .where(tasks.c.id == task_id, tasks.c.done_at.is_(None))
            .values(done_at=at, done_by=by)
        )
        return done.rowcount == 1

    def list(self, *, open_only: bool, limit: int, after: str | None = None) -> tuple[Task, ...]:
        key = sa.tuple_(tasks.c.created_at, tasks.c.id)
        statement = sa.select(tasks).order_by(tasks.c.created_at, tasks.c.id).limit(limit)
        if open_only:
            statement = statement.where(tasks.c.done_at.is_(None))
        if after is not None:
            found = sa.select(tasks.c.created_at, tasks.c.id).where(tasks.c.id == after)
            last = self._connection.execute(found).one_or_none()
            if last is None:
                raise InvalidInput(
                    "cursor", "was not handed out by this list; start again without one"
                )
            statement = statement.where(key > (last.created_at, last.id))
        return tuple(_task(row) for row in self._connection.execute(statement))


def _task(row: Row) -> Task:
    return Task(
        id=row.id,
        kind=row.kind,
        subject=row.subject,
        conversation_id=row.conversation_id,
        created_at=row.created_at,
        due_at=row.due_at,
        done_at=row.done_at,
        done_by=row.done_by,
    )

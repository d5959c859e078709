"""The outbox and staff tasks in SQL."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.tables.trail import OutboxRow, TaskRow
from support_agent.domain.errors import InvalidInput
from support_agent.domain.webhooks import TOPICS
from support_agent.ports.storage import Claimed, Task

Row = sa.Row[*tuple[Any, ...]]

outbox = table_of(OutboxRow)
tasks = table_of(TaskRow)


# Written out in the SQL, or the partial indexes are not used under a generic plan.
_OPEN = sa.text("outbox.delivered_at IS NULL")
_EARLIER = outbox.alias("earlier")
_IS_DUE = sa.and_(
    sa.or_(outbox.c.retry_at.is_(None), outbox.c.retry_at <= database_seconds()),
    sa.not_(
        sa.exists().where(
            _EARLIER.c.stream == outbox.c.stream,
            _EARLIER.c.seq < outbox.c.seq,
            sa.text("earlier.delivered_at IS NULL"),
        )
    ),
)


class SqlOutbox:
    """Written with what caused the event; delivered by somebody else."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(
        self,
        topic: str,
        *,
        key: str,
        body: Mapping[str, str],
        at: datetime,
        deliver: bool = True,
    ) -> None:
        """What is not to be delivered never stands before what is."""
        values = {
            "topic": topic,
            "key": key,
            "stream": body.get("conversation_id"),
            "body": dict(body),
            "created_at": at,
            "delivered_at": None if deliver else at,
            "fanned_at": None if topic in TOPICS else at,
        }
        insert_new(self._connection, outbox, values, on=["key"])

    def is_due(self, topics: Collection[str]) -> bool:
        wanted = sa.or_(outbox.c.topic.not_in(topics), _IS_DUE)
        found = sa.select(outbox.c.seq).where(_OPEN, wanted).limit(1)
        return self._connection.execute(found).first() is not None

    def claim(self, topics: Collection[str], *, limit: int, lease_s: float) -> tuple[Claimed, ...]:
        """Rows that another claimer is just taking are left to it, where there can be two."""
        due = (
            sa.select(outbox.c.seq)
            .where(_OPEN, _IS_DUE, outbox.c.topic.in_(topics))
            .order_by(outbox.c.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        rows = self._connection.execute(
            sa.update(outbox)
            .where(outbox.c.seq.in_(due))
            .values(retry_at=database_seconds() + lease_s, attempts=outbox.c.attempts + 1)
            .returning(outbox.c.seq, outbox.c.key, outbox.c.topic, outbox.c.attempts)
        )
        taken = [Claimed(seq=r.seq, key=r.key, topic=r.topic, tries=r.attempts) for r in rows]
        return tuple(sorted(taken, key=lambda claimed: claimed.seq))

    def body(self, claimed: Claimed) -> Mapping[str, str] | None:
        found = sa.select(outbox.c.body).where(outbox.c.seq == claimed.seq)
        body: Mapping[str, str] | None = self._connection.execute(found).scalar_one_or_none()
        return body

    def settle(self, claimed: Claimed, *, at: datetime) -> bool:
        return self._end(claimed, delivered_at=at, retry_at=None)

    def put_off(self, claimed: Claimed, *, pause_s: float) -> bool:
        return self._end(claimed, retry_at=database_seconds() + pause_s)

    def skip(self, topics: Collection[str], *, limit: int, at: datetime) -> int:
        others = (
            sa.select(outbox.c.seq)
            .where(_OPEN, outbox.c.topic.not_in(topics))
            .order_by(outbox.c.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        ended = sa.update(outbox).where(outbox.c.seq.in_(others)).values(delivered_at=at)
        return self._connection.execute(ended).rowcount

    def _end(self, claimed: Claimed, **values: Any) -> bool:  # noqa: ANN401 - column values
        """Each claim counts the tries up, so that a later one tells itself by their number."""
        mine = (outbox.c.seq == claimed.seq, outbox.c.attempts == claimed.tries, _OPEN)
        return (
            self._connection.execute(sa.update(outbox).where(*mine).values(**values)).rowcount == 1
        )


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

    def open_of(self, conversation_id: str) -> tuple[Task, ...]:
        statement = (
            sa.select(tasks)
            .where(sa.text("tasks.done_at IS NULL"), tasks.c.conversation_id == conversation_id)
            .order_by(tasks.c.created_at, tasks.c.id)
        )
        return tuple(_task(row) for row in self._connection.execute(statement))

    def list(self, *, open_only: bool, limit: int, after: str | None = None) -> tuple[Task, ...]:
        key = sa.tuple_(tasks.c.created_at, tasks.c.id)
        statement = sa.select(tasks).order_by(tasks.c.created_at, tasks.c.id).limit(limit)
        if open_only:
            statement = statement.where(tasks.c.done_at.is_(None))
        if after is not None:
            found = sa.select(tasks.c.created_at, tasks.c.id).where(tasks.c.id == after)
            last = self._connection.execute(found).one_or_none() if storable(after) else None
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

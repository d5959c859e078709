"""What is to be told outside and what is left for a person: each once, oldest first."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.tables import metadata
from support_agent.domain.errors import InvalidInput
from support_agent.ports.storage import Task, Transaction

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
TASK = Task(
    id="task_1", kind="overdrawn", subject="P1", conversation_id=None, created_at=NOW, done_at=None
)


async def test_an_event_is_kept_once(database, database_url):
    def tell(tx: Transaction) -> None:
        tx.outbox.add("refund.paid", key="refund.paid:req_1", body={"request_id": "req_1"}, at=NOW)

    await database.transact(tell)
    await database.transact(tell)

    with exclusive(database_url) as raw:
        stored = raw.execute(sa.select(metadata.tables["outbox"])).all()
    assert [(row.key, row.topic, row.body, row.created_at, row.attempts) for row in stored] == [
        ("refund.paid:req_1", "refund.paid", {"request_id": "req_1"}, NOW, 0)
    ]
    assert stored[0].delivered_at is None


async def test_the_same_fact_makes_one_task(database):
    assert await database.transact(lambda tx: tx.tasks.add(TASK)) is True
    assert await database.transact(lambda tx: tx.tasks.add(replace(TASK, kind="other"))) is False

    assert await database.read(lambda tx: tx.tasks.list(open_only=False, limit=10)) == (TASK,)


async def test_tasks_come_oldest_first_and_done_ones_only_when_asked_for(database):
    older = replace(TASK, id="task_2", created_at=NOW - timedelta(hours=1))
    done = replace(TASK, id="task_3", created_at=NOW - timedelta(days=1), done_at=NOW)

    def fill(tx: Transaction) -> None:
        for task in (TASK, older, done):
            tx.tasks.add(task)

    await database.transact(fill)

    assert await database.read(lambda tx: tx.tasks.list(open_only=True, limit=10)) == (older, TASK)
    assert await database.read(lambda tx: tx.tasks.list(open_only=False, limit=2)) == (done, older)


async def test_tasks_are_turned_page_by_page(database):
    def fill(tx: Transaction) -> None:
        for n in (3, 1, 2, 4):  # two of one moment, in the order of their ids
            tx.tasks.add(replace(TASK, id=f"task_{n}", created_at=NOW + timedelta(hours=n // 3)))

    await database.transact(fill)

    def page(after: str | None):
        def look(tx: Transaction) -> list[str]:
            return [task.id for task in tx.tasks.list(open_only=True, limit=3, after=after)]

        return database.read(look)

    assert await page(None) == ["task_1", "task_2", "task_3"]
    assert await page("task_1") == ["task_2", "task_3", "task_4"]
    assert await page("task_3") == ["task_4"]
    assert await page("task_4") == []


async def test_a_cursor_that_names_no_task_is_refused(database):
    await database.transact(lambda tx: tx.tasks.add(TASK))

    with pytest.raises(InvalidInput):
        await database.read(lambda tx: tx.tasks.list(open_only=True, limit=10, after="task_x"))

"""Runs are listed along an index, whatever state is asked for: nothing is sorted or walked whole."""

from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.stores.run_statements import runs
from support_agent.adapters.db.stores.runs import SqlRuns
from support_agent.adapters.db.tables import metadata
from support_agent.domain.runs import RunStatus
from support_agent.testing.builders import NOW

MANY, RARE_EVERY = 4_000, 400
RARE = (RunStatus.STOPPED, RunStatus.HANDED_OFF, RunStatus.DEAD)


def fill(url: str) -> None:
    """A run each in many conversations; now and then one that did not end as most do."""
    conversation = {
        "channel": "cli",
        "account": "local",
        "external_contact": "C001",
        "customer_id": "C001",
        "assurance": 2,
        "language": "vi",
        "created_at": NOW,
    }
    with exclusive(url) as raw:
        raw.execute(
            sa.insert(metadata.tables["conversations"]),
            [conversation | {"id": f"con_{number:05}"} for number in range(MANY)],
        )
        raw.execute(sa.insert(runs), [_row(number) for number in range(MANY)])
        raw.exec_driver_sql("ANALYZE")


def _row(number: int) -> dict[str, Any]:
    status = RARE[number // RARE_EVERY % 3] if number % RARE_EVERY == 0 else RunStatus.DONE
    return {
        "id": f"run_{number:05}",
        "conversation_id": f"con_{number:05}",
        "trigger_seq": 1,
        "status": RunStatus.RUNNING if number == 1 else status,
        "assurance": 2,
        "started_at": NOW,
    }


@pytest.fixture
def many(database: SqlDatabase, database_url: str) -> SqlDatabase:
    fill(database_url)
    return database


def plan_of(connection: sa.Connection, status: RunStatus) -> str:
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        connection, "before_cursor_execute", lambda *args: asked.append((args[2], args[3]))
    )
    SqlRuns(connection).list(conversation_id=None, limit=20, before="run_99999", status=status)
    [(words, values)] = asked
    on_file = connection.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if on_file else "EXPLAIN "
    plan = connection.exec_driver_sql(explain + words, values)
    return "\n".join(str(row[-1]) for row in plan)


async def test_a_state_that_few_end_in_is_read_along_its_own_index(many: SqlDatabase):
    for status in RARE:
        plan = await many.run_read(lambda connection, s=status: plan_of(connection, s))

        assert f"ix_runs_{status}" in plan, plan
        assert "Sort" not in plan
        assert "TEMP B-TREE" not in plan


async def test_those_that_are_running_are_found_by_the_index_that_keeps_them_one_each(
    many: SqlDatabase,
):
    plan = await many.run_read(lambda connection: plan_of(connection, RunStatus.RUNNING))

    assert "uq_runs_running" in plan, plan


async def test_a_walk_through_a_state_finds_each_once_and_in_order(many: SqlDatabase):
    for place, status in enumerate(RARE):
        found, before = [], None
        while True:
            page = await many.read(
                lambda tx, s=status, b=before: tx.runs.list(
                    conversation_id=None, limit=2, before=b, status=s
                )
            )
            if not page:
                break
            found += page
            before = page[-1].id
        numbers = range(0, MANY, RARE_EVERY)
        expected = [f"run_{n:05}" for n in numbers if n // RARE_EVERY % 3 == place]
        assert [run.id for run in found] == expected[::-1]

"""What is to be delivered is found along indexes, however much was delivered before."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.stores.trail import SqlOutbox
from tests.outgoing import OUTBOX

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
DELIVERED, WAITING = 20_000, 60  # in a small table a walk is cheaper
TOPICS = ("conversation.message",)

LOOKS = {
    "is_due": lambda outbox: outbox.is_due(TOPICS),
    "claim": lambda outbox: outbox.claim(TOPICS, limit=20, lease_s=60),
    "skip": lambda outbox: outbox.skip(TOPICS, limit=20, at=NOW),
}


@pytest.fixture
def filled_url(database_url: str) -> str:
    rows = [
        {
            "key": f"con_{number % 50}:{number}",
            "stream": f"con_{number % 50}",
            "topic": TOPICS[0],
            "body": {},
            "created_at": NOW,
            "delivered_at": NOW + timedelta(seconds=number) if number < DELIVERED else None,
        }
        for number in range(DELIVERED + WAITING)
    ]
    with exclusive(database_url) as raw:
        raw.execute(sa.insert(OUTBOX), rows)
        if raw.dialect.name == "postgresql":  # it gathers them by itself, SQLite never does here
            raw.exec_driver_sql("ANALYZE")
    return database_url


@pytest.mark.parametrize("look", LOOKS)
def test_delivered_ones_are_not_walked_over(filled_url: str, look: str):
    ran: list[tuple[str, Any]] = []
    with exclusive(filled_url) as raw:

        def note(_c: Any, _cursor: Any, sql: str, parameters: Any, *_: Any) -> None:
            ran.append((sql, parameters))

        sa.event.listen(raw, "before_cursor_execute", note)
        LOOKS[look](SqlOutbox(raw))
        sa.event.remove(raw, "before_cursor_execute", note)
        [(sql, parameters)] = ran
        explain = "EXPLAIN QUERY PLAN" if raw.dialect.name == "sqlite" else "EXPLAIN"
        found = raw.exec_driver_sql(f"{explain} {sql}", parameters)
        plan = [str(row[-1]) for row in found]

    walks = [line for line in plan if "outbox" in line]
    assert walks
    assert not [line for line in walks if line == "SCAN outbox" or "Seq Scan" in line], plan

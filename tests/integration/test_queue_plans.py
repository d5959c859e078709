"""The approval queue is walked along its partial indexes, on both databases: nothing is sorted."""

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.stores.requests import REQUESTS, SqlRequests, request_values
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter
from support_agent.testing.builders import NOW, make_request

S = RequestStatus
MANY, PENDING_EVERY = 4_000, 4
LIMIT = 20
QUEUE = "ix_refund_requests_queue"


def fill(url: str) -> None:
    """Requests of ten customers, over months; every fourth still waits."""
    rows = [
        request_values(
            make_request(
                f"req_{number:05}",
                customer_id=f"C{number % 10:03}",
                order_id=f"A{number}",
                status=S.REFUNDED if number % PENDING_EVERY else S.PENDING_APPROVAL,
                amount_minor=1_000 * (1 + number % 997),
                required_level=1 + number // PENDING_EVERY % 3 // 2,
                created_at=NOW + timedelta(hours=number),
            )
        )
        for number in range(MANY)
    ]
    with exclusive(url) as raw:
        raw.execute(sa.insert(REQUESTS), rows)
        raw.exec_driver_sql("ANALYZE")


FILTERS = {
    "all of it": RequestFilter(status=S.PENDING_APPROVAL),
    "a level": RequestFilter(status=S.PENDING_APPROVAL, level=1),
    "amounts": RequestFilter(status=S.PENDING_APPROVAL, least_minor=100_000, most_minor=900_000),
    "a customer": RequestFilter(status=S.PENDING_APPROVAL, customer_id="C004"),
    "filed before": RequestFilter(
        status=S.PENDING_APPROVAL, filed_before=NOW + timedelta(hours=MANY // 2)
    ),
    "everything": RequestFilter(
        status=S.PENDING_APPROVAL,
        level=1,
        least_minor=1_000,
        most_minor=10_000_000,
        filed_before=NOW + timedelta(hours=MANY),
    ),
}


def plans_of(connection: sa.Connection, where: RequestFilter, pages: int) -> list[str]:
    """How the database goes about each of the first pages."""
    asked: list[tuple[str, Any]] = []
    sa.event.listen(
        connection, "before_cursor_execute", lambda *args: asked.append((args[2], args[3]))
    )
    cursor = None
    for _ in range(pages):
        page = SqlRequests(connection).list(where, limit=LIMIT, cursor=cursor)
        assert page.data
        cursor = page.next_cursor
    on_file = connection.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if on_file else "EXPLAIN "
    return [
        "\n".join(str(row[-1]) for row in connection.exec_driver_sql(explain + words, values))
        for words, values in tuple(asked)
    ]


def is_not_sorted(plan: str) -> bool:
    return "Sort" not in plan and "TEMP B-TREE" not in plan


@pytest.fixture
def large(database: SqlDatabase, database_url: str) -> SqlDatabase:
    fill(database_url)
    return database


async def test_each_page_of_the_queue_is_read_along_its_index(large: SqlDatabase):
    for name, where in FILTERS.items():
        for plan in await large.run_read(lambda c, w=where: plans_of(c, w, 3)):
            assert QUEUE in plan, (name, plan)
            assert is_not_sorted(plan), (name, plan)


async def test_the_newest_of_another_status_are_not_sorted_either(large: SqlDatabase):
    where = RequestFilter(status=S.REFUNDED)

    for plan in await large.run_read(lambda connection: plans_of(connection, where, 3)):
        assert is_not_sorted(plan), plan


async def test_a_walk_through_the_queue_finds_each_once_and_in_order(large: SqlDatabase):
    """Also under a bound that ends the walk early."""
    for name, where in FILTERS.items():
        found, cursor = [], None
        while True:
            page = await large.read(
                lambda tx, w=where, c=cursor: tx.requests.list(w, limit=97, cursor=c)
            )
            found += page.data
            cursor = page.next_cursor
            if cursor is None:
                break
        expected = [
            number
            for number in range(0, MANY, PENDING_EVERY)
            if where.level in (None, 1 + number // PENDING_EVERY % 3 // 2)
            and where.customer_id in (None, f"C{number % 10:03}")
            and (where.least_minor or 0)
            <= 1_000 * (1 + number % 997)
            <= (where.most_minor or 1_000_000)
            and (where.filed_before is None or NOW + timedelta(hours=number) < where.filed_before)
        ]
        assert [request.id for request in found] == [f"req_{n:05}" for n in expected], name

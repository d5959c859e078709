"""What waits in the database for somebody or something."""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds, is_postgres
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.requests import RefundRequestRow
from support_agent.adapters.db.tables.talk import UNREAD, ConversationRow, MessageRow, RunRow
from support_agent.adapters.db.tables.trail import OutboxRow

conversations = table_of(ConversationRow)
messages = table_of(MessageRow)
runs = table_of(RunRow)
outbox = table_of(OutboxRow)
requests = table_of(RefundRequestRow)

HEARTBEAT_S = 30  # a worker of procrastinate's beats every ten seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many of a kind wait, and the oldest: since when, by the clock that it is counted by."""

    count: int
    oldest: Any  # an instant of the shop's clock, or seconds of waiting by the database's
    name: str = ""  # of the oldest


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What somebody or something still has to do."""

    unread: Waiting  # conversations; oldest in seconds
    orphaned: Waiting  # runs without an owner; oldest in seconds since its lease ended
    pending: Waiting  # refund requests; oldest by the shop's clock
    undelivered: Waiting  # outbox rows; oldest by the shop's clock


def backlog(connection: sa.Connection) -> Backlog:
    """All four, each by one statement."""
    return Backlog(
        unread=_unread(connection),
        orphaned=_orphaned(connection),
        pending=_oldest(
            connection,
            requests.c.created_at,
            requests.c.id,
            sa.text("status = 'PENDING_APPROVAL'"),
        ),
        undelivered=_oldest(
            connection, outbox.c.created_at, outbox.c.topic, sa.text("delivered_at IS NULL")
        ),
    )


def _unread(connection: sa.Connection) -> Waiting:
    waited = sa.func.max(database_seconds() - sa.func.coalesce(messages.c.posted_at, 0.0))
    count = sa.func.count(messages.c.conversation_id.distinct())
    row = connection.execute(sa.select(count, waited).where(sa.text(UNREAD))).one()
    return Waiting(count=row[0], oldest=row[1])


def _orphaned(connection: sa.Connection) -> Waiting:
    lease = sa.func.coalesce(conversations.c.lease_until, 0.0)
    row = connection.execute(
        sa.select(sa.func.count(), sa.func.max(database_seconds() - lease))
        .select_from(runs.join(conversations, conversations.c.id == runs.c.conversation_id))
        .where(sa.text("runs.status = 'running'"), lease <= database_seconds())
    ).one()
    return Waiting(count=row[0], oldest=row[1])


def _oldest(
    connection: sa.Connection,
    since: sa.ColumnElement[Any],
    name: sa.ColumnElement[str],
    where: sa.TextClause,
) -> Waiting:
    count = connection.execute(sa.select(sa.func.count(since)).where(where)).scalar_one()
    first = connection.execute(
        sa.select(since, name).where(where).order_by(since).limit(1)
    ).one_or_none()
    return Waiting(count=count, oldest=first and first[0], name=first[1] if first else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """The queue's own jobs; `stalled` are those whose worker is not heard of any more."""

    by_state: MappingProxyType[str, int]
    stalled: int


def jobs(connection: sa.Connection) -> Jobs | None:
    """None where no queue was installed."""
    if not is_postgres(connection):
        return None
    if connection.execute(sa.text("SELECT to_regclass('procrastinate_jobs')")).scalar() is None:
        return None
    states = connection.execute(
        sa.text("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY 1 ORDER BY 1")
    )
    stalled = connection.execute(
        sa.text(
            "SELECT count(*) FROM procrastinate_jobs job "
            "LEFT JOIN procrastinate_workers worker ON worker.id = job.worker_id "
            "WHERE job.status = 'doing' AND (worker.id IS NULL "
            "OR worker.last_heartbeat < now() - make_interval(secs => :quiet))"
        ),
        {"quiet": HEARTBEAT_S},
    ).scalar_one()
    by_state = MappingProxyType({row[0]: row[1] for row in states})
    return Jobs(by_state=by_state, stalled=stalled)

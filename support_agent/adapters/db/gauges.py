"""What an operator watches of the database: how much waits for whom, and since when."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import sqlalchemy as sa

from support_agent.adapters.db.backlog import backlog
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.requests import NOT_PENDING_SQL, PENDING_SQL, RefundRequestRow
from support_agent.adapters.db.tables.talk import RunRow
from support_agent.adapters.db.tables.trail import TaskRow
from support_agent.adapters.db.tables.webhooks import PENDING, WebhookDeliveryRow
from support_agent.domain.refunds import RequestStatus

requests = table_of(RefundRequestRow)
runs = table_of(RunRow)
tasks = table_of(TaskRow)
deliveries = table_of(WebhookDeliveryRow)

# Of a payout that is neither paid nor failed, and of one that a person has to look into.
UNDER_WAY = (
    RequestStatus.APPROVED,
    RequestStatus.PAYING,
    RequestStatus.PROVIDER_PENDING,
    RequestStatus.IN_DOUBT,
    RequestStatus.MANUAL_REVIEW,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """Counts, and how many seconds the oldest of a kind has waited; 0 where nothing waits."""

    approvals_pending: int
    approvals_overdue: int
    approvals_oldest_s: float
    conversations_unread: int
    unread_oldest_s: float
    runs_running: int
    runs_orphaned: int
    outbox_undelivered: int
    outbox_oldest_s: float
    webhooks_pending: int
    webhooks_oldest_s: float
    tasks_open: int
    payouts: Mapping[str, int]  # by status


def gauges(connection: sa.Connection, now: datetime) -> Gauges:
    """As things are at one moment; `now` is the shop's."""
    found = backlog(connection)

    def count(*where: sa.ColumnElement[bool] | sa.TextClause) -> int:
        return connection.execute(sa.select(sa.func.count()).where(*where)).scalar_one()

    sending = connection.execute(
        sa.select(sa.func.count(), sa.func.min(deliveries.c.created_at)).where(sa.text(PENDING))
    ).one()
    return Gauges(
        approvals_pending=found.pending.count,
        approvals_overdue=count(sa.text(PENDING_SQL), requests.c.due_at < now),
        approvals_oldest_s=_age(found.pending.oldest, now),
        conversations_unread=found.unread.count,
        unread_oldest_s=max(0.0, found.unread.oldest or 0.0),
        runs_running=count(sa.text("runs.status = 'running'"), runs.c.id.is_not(None)),
        runs_orphaned=found.orphaned.count,
        outbox_undelivered=found.undelivered.count,
        outbox_oldest_s=_age(found.undelivered.oldest, now),
        webhooks_pending=sending[0],
        webhooks_oldest_s=_age(sending[1], now),
        tasks_open=count(sa.text("tasks.done_at IS NULL"), tasks.c.id.is_not(None)),
        payouts=_payouts(connection),
    )


def _payouts(connection: sa.Connection) -> Mapping[str, int]:
    named = ", ".join(f"'{status}'" for status in UNDER_WAY)
    rows = connection.execute(
        sa.select(requests.c.status, sa.func.count())
        .where(sa.text(f"{NOT_PENDING_SQL} AND status IN ({named})"))
        .group_by(requests.c.status)
    )
    found = {str(row[0]): row[1] for row in rows}
    return MappingProxyType({str(status): found.get(str(status), 0) for status in UNDER_WAY})


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())

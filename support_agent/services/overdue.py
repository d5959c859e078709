"""Payouts that have been unclear for too long: found by the database's clock, told to a person."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType

import structlog

from support_agent.domain.errors import DatabaseUnavailable
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Transaction
from support_agent.services.outcomes import task_about

log = structlog.get_logger(__name__)
S = RequestStatus

# How long each may last before a person has to look.
LASTS_TOO_LONG: Mapping[RequestStatus, timedelta] = MappingProxyType(
    {
        S.IN_DOUBT: timedelta(hours=1),
        S.MANUAL_REVIEW: timedelta(hours=24),
        S.PROVIDER_PENDING: timedelta(days=10),
    }
)
DUE_WITHIN = timedelta(hours=24)  # from when the task is made
MOST = 500  # of one status that are told at once; the oldest come first


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A request that has been in one state for too long."""

    request_id: str
    status: RequestStatus
    longer_than: timedelta


def find_overdue(tx: Transaction) -> tuple[Overdue, ...]:
    """What has not moved for too long, the oldest of each state first; changes nothing."""
    now = tx.database_now()
    return tuple(
        Overdue(request_id=request_id, status=status, longer_than=longest)
        for status, longest in LASTS_TOO_LONG.items()
        for request_id in tx.requests.unmoved_since(status, now - longest, limit=MOST)
    )


async def overdue_tasks(database: Database, clock: Clock) -> int:
    """A staff task for each that has none yet; how many were made.

    Each in a transaction of its own: a row that cannot be read must not keep the others.

    Raises:
        DatabaseUnavailable: then nothing can be done about the others either.
    """
    made = 0
    for overdue in await database.read(find_overdue):
        try:
            made += await database.transact(partial(_task, overdue=overdue, clock=clock))
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("overdue.put_off", refund_id=overdue.request_id)
    return made


def _task(tx: Transaction, *, overdue: Overdue, clock: Clock) -> bool:
    request = tx.requests.get(overdue.request_id)
    if request is None or request.status is not overdue.status:  # it moved since it was listed
        return False
    task = task_about(request, f"still_{request.status.lower()}", clock)
    return tx.tasks.add(replace(task, due_at=task.created_at + DUE_WITHIN))

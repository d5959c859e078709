"""Reports in SQL: sums over decisions and what became of their requests."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.requests import RefundDecisionRow, RefundRequestRow
from support_agent.adapters.db.tables.switches import PayoutDestinationRow
from support_agent.adapters.db.tables.trail import TaskRow
from support_agent.domain.approvals import AUTO, Choice
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage.reports import Tally
from support_agent.ports.storage.trail import Task

DECISIONS = table_of(RefundDecisionRow)
REQUESTS = table_of(RefundRequestRow)
DESTINATIONS = table_of(PayoutDestinationRow)
TASKS = table_of(TaskRow)

_YES = (Choice.APPROVE, Choice.AUTO)
_DECIDED = (*_YES, Choice.REJECT)
# `bank:{id}:{sha-256 in hex}`: what stands between the two colons.
_BANK = "bank:"
_DIGEST = 1 + 64
_FIGURES = ("customers", "decided", "approved", "paid", "approved_minor", "paid_minor")


class SqlReports:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def by_approver(self, since: datetime) -> tuple[Tally, ...]:
        return self._tallies(_by_person(since))

    def by_pair(self, since: datetime, *, limit: int) -> tuple[Tally, ...]:
        return self._tallies(
            _by_person(since, REQUESTS.c.customer_id)
            .where(DECISIONS.c.person_id != AUTO)
            .limit(limit)
        )

    def by_destination(self, since: datetime, *, limit: int) -> tuple[Tally, ...]:
        """Counts requests, so that two approvals of one are not two payments."""
        each = (
            sa.select(
                DECISIONS.c.request_id,
                sa.func.max(_one_if(DECISIONS.c.choice.in_(_YES))).label("yes"),
            )
            .where(DECISIONS.c.at >= since, DECISIONS.c.choice.in_(_DECIDED))
            .group_by(DECISIONS.c.request_id)
            .subquery()
        )
        account = DESTINATIONS.c.account_number
        went = _went_to(account)
        last_four = sa.func.substr(account, sa.func.length(account) - 3)
        yes = each.c.yes == 1
        sums = _sums(yes, REQUESTS.c.amount_minor)
        statement = (
            sa.select(
                sa.func.max(_went_to("••••" + last_four)).label("subject"),
                REQUESTS.c.currency,
                sa.null().label("customer_id"),
                *sums,
            )
            .select_from(
                each.join(REQUESTS, REQUESTS.c.id == each.c.request_id).outerjoin(
                    DESTINATIONS, DESTINATIONS.c.id == _destination_id()
                )
            )
            .group_by(went, REQUESTS.c.currency)
            .order_by(sa.desc("customers"), sa.desc("approved_minor"), "subject")
        )
        return self._tallies(statement.limit(limit))

    def newest_tasks(self, kind: str, *, limit: int) -> tuple[Task, ...]:
        found = self._connection.execute(
            sa.select(TASKS)
            .where(TASKS.c.kind == kind)
            .order_by(TASKS.c.created_at.desc(), TASKS.c.id.desc())
            .limit(limit)
        )
        fields = Task.__dataclass_fields__
        return tuple(Task(**{name: row[name] for name in fields}) for row in found.mappings())

    def _tallies(self, statement: sa.Select[Any]) -> tuple[Tally, ...]:
        return tuple(_tally(row) for row in self._connection.execute(statement).mappings())


def _tally(row: sa.RowMapping) -> Tally:
    return Tally(
        subject=row["subject"],
        currency=row["currency"],
        customer_id=row["customer_id"],
        # PostgreSQL sums a bigint to a numeric.
        **{name: int(row[name]) for name in _FIGURES},
    )


def _by_person(since: datetime, *also: sa.ColumnElement[str]) -> sa.Select[Any]:
    yes = DECISIONS.c.choice.in_(_YES)
    customer = also[0] if also else sa.null()
    return (
        sa.select(
            sa.func.max(DECISIONS.c.name).label("subject"),
            DECISIONS.c.currency,
            customer.label("customer_id"),
            *_sums(yes, DECISIONS.c.amount_minor, DECISIONS.c.round == REQUESTS.c.round),
        )
        .select_from(DECISIONS.join(REQUESTS, REQUESTS.c.id == DECISIONS.c.request_id))
        .where(DECISIONS.c.at >= since, DECISIONS.c.choice.in_(_DECIDED))
        .group_by(DECISIONS.c.person_id, DECISIONS.c.currency, *also)
        .order_by(sa.desc("approved_minor"), sa.desc("decided"), "subject")
    )


def _sums(
    yes: sa.ColumnElement[bool], amount: sa.ColumnElement[int], *counts: sa.ColumnElement[bool]
) -> Iterable[sa.Label[Any]]:
    """The figures of a tally; `counts` says when a payment is that of this very decision."""
    paid = sa.and_(yes, REQUESTS.c.status == RequestStatus.REFUNDED, *counts)
    return (
        sa.func.count(sa.distinct(REQUESTS.c.customer_id)).label("customers"),
        sa.func.count().label("decided"),
        sa.func.sum(_one_if(yes)).label("approved"),
        sa.func.sum(_one_if(paid)).label("paid"),
        sa.func.sum(sa.case((yes, amount), else_=0)).label("approved_minor"),
        sa.func.sum(sa.case((paid, amount), else_=0)).label("paid_minor"),
    )


def _one_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    return sa.case((condition, 1), else_=0)


def _destination_id() -> sa.ColumnElement[str | None]:
    text = REQUESTS.c.destination
    length = sa.func.length(text) - len(_BANK) - _DIGEST
    # Too short for one is written by hand; PostgreSQL refuses a negative length.
    is_bank = sa.and_(text.startswith(_BANK), length > 0)
    return sa.case((is_bank, sa.func.substr(text, len(_BANK) + 1, length)), else_=None)


def _went_to(account: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """The bank account where there is one, else the payment the money goes back to."""
    return sa.func.coalesce(DESTINATIONS.c.bank + " " + account, REQUESTS.c.destination)

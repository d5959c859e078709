"""Payout attempts in SQL; a partial unique index allows one per request that has not failed."""

from datetime import datetime

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.tables.requests import (
    NOT_FAILED_SQL,
    SUCCEEDED_SQL,
    RefundAttemptRow,
)
from support_agent.domain.errors import NotFound
from support_agent.domain.refunds import Attempt, AttemptStatus

ATTEMPTS = table_of(RefundAttemptRow)

_OF_REQUEST = ATTEMPTS.c.request_id == sa.bindparam("of")
_LIVE = Prepared(sa.select(ATTEMPTS).where(_OF_REQUEST, sa.text(NOT_FAILED_SQL)))
_ALL_OF = Prepared(sa.select(ATTEMPTS).where(_OF_REQUEST).order_by(ATTEMPTS.c.number))
# A refund id once known stays known: it is how a person finds the refund at the provider.
_FINISH = Prepared(
    sa.update(ATTEMPTS)
    .where(ATTEMPTS.c.id == sa.bindparam("id_"))
    .values(
        status=sa.bindparam("now"),
        provider_refund_id=sa.func.coalesce(
            sa.bindparam("told", type_=sa.Text), ATTEMPTS.c.provider_refund_id
        ),
        error_code=sa.bindparam("code"),
    )
)


class SqlAttempts:
    """What was sent is inserted once; only the outcome changes."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, attempt: Attempt) -> bool:
        row = {name: getattr(attempt, name) for name in Attempt.__dataclass_fields__}
        return insert_new(self._connection, ATTEMPTS, row) == 1

    def live(self, request_id: str) -> Attempt | None:
        row = _LIVE.first_named(self._connection, {"of": request_id})
        return None if row is None else _from_row(row)

    def of(self, request_id: str) -> tuple[Attempt, ...]:
        found = _ALL_OF.all_named(self._connection, {"of": request_id})
        return tuple(_from_row(row) for row in found)

    def by_provider_id(self, gateway: str, provider_refund_id: str) -> Attempt | None:
        return self._one(
            ATTEMPTS.c.gateway == gateway, ATTEMPTS.c.provider_refund_id == provider_refund_id
        )

    def by_key(self, key: str) -> Attempt | None:
        return self._one(ATTEMPTS.c.key == key)

    def due_for_check(
        self, *, sent_after: datetime, checked_before: datetime, limit: int
    ) -> tuple[Attempt, ...]:
        unasked = sa.func.coalesce(ATTEMPTS.c.checked_at, ATTEMPTS.c.sent_at)
        found = self._connection.execute(
            sa.select(ATTEMPTS)
            .where(sa.text(SUCCEEDED_SQL), ATTEMPTS.c.sent_at > sent_after)
            .where(unasked < checked_before)
            .order_by(ATTEMPTS.c.checked_at.nulls_first(), ATTEMPTS.c.id)
            .limit(limit)
        )
        return tuple(_from_row(row) for row in found.mappings())

    def mark_checked(self, attempt_id: str, at: datetime) -> None:
        self._connection.execute(
            sa.update(ATTEMPTS).where(ATTEMPTS.c.id == attempt_id).values(checked_at=at)
        )

    def _one(self, *where: sa.ColumnElement[bool]) -> Attempt | None:
        row = self._connection.execute(sa.select(ATTEMPTS).where(*where)).mappings().first()
        return None if row is None else _from_row(row)

    def finish(
        self,
        attempt_id: str,
        status: AttemptStatus,
        *,
        provider_refund_id: str | None,
        error_code: str | None,
    ) -> None:
        values = {"now": status, "told": provider_refund_id, "code": error_code}
        if _FINISH.run(self._connection, {"id_": attempt_id, **values}) != 1:
            raise NotFound(attempt_id)


def _from_row(row: Named) -> Attempt:
    values = {name: row[name] for name in Attempt.__dataclass_fields__}
    values |= {
        "status": AttemptStatus(row["status"]),
        "sent_at": row["sent_at"] or row["created_at"],
    }
    return Attempt(**values)

"""Requests under their idempotency keys, in SQL."""

from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds, insert
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.access import IdempotencyRow
from support_agent.ports.storage.idempotency import InFlight, Mine, Reply, Reused, Slot

SLOTS = table_of(IdempotencyRow)
_NEW = {"status": None, "headers": None, "body": None}


class SqlIdempotency:
    """A row's lease tells its takers apart: who comes back too late finds another one's."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def take(
        self, slot: Slot, request_hash: str, *, lease_s: float, kept_s: float
    ) -> Mine | Reply | InFlight | Reused:
        taken = {
            "request_hash": request_hash,
            "lease_until": database_seconds() + lease_s,
            "kept_until": database_seconds() + kept_s,
            **_NEW,
        }
        mine = self._inserted(slot, taken)
        if mine is not None:
            return mine
        now = database_seconds()
        left, kept = SLOTS.c.lease_until - now, SLOTS.c.kept_until - now
        found = self._connection.execute(
            sa.select(SLOTS, left.label("left_s"), kept.label("kept_s")).where(_is(slot))
        ).one_or_none()
        if found is None:  # whoever had it has just let it go
            return InFlight(left_s=0)
        if found.kept_s > 0:
            if found.request_hash != request_hash:
                return Reused()
            if found.status is not None:
                return Reply(status=found.status, headers=found.headers or {}, body=found.body)
            if found.left_s > 0:
                return InFlight(left_s=found.left_s)
        return self._seized(slot, found.lease_until, taken) or InFlight(left_s=lease_s)

    def settle(self, slot: Slot, mine: Mine, reply: Reply) -> None:
        answer = {"status": reply.status, "headers": dict(reply.headers), "body": reply.body}
        self._connection.execute(sa.update(SLOTS).where(_is(slot), _has(mine)).values(answer))

    def release(self, slot: Slot, mine: Mine) -> None:
        self._connection.execute(sa.delete(SLOTS).where(_is(slot), _has(mine)))

    def let_go(self, *, limit: int) -> int:
        key = sa.tuple_(*SLOTS.primary_key.columns)
        over = (
            sa.select(*SLOTS.primary_key.columns)
            .where(SLOTS.c.kept_until < database_seconds())
            .order_by(SLOTS.c.kept_until)
            .limit(limit)
        )
        return self._connection.execute(sa.delete(SLOTS).where(key.in_(over))).rowcount

    def _inserted(self, slot: Slot, taken: dict[str, Any]) -> Mine | None:
        statement = insert(self._connection, SLOTS).values(**_key(slot), **taken)
        return self._mine(statement.on_conflict_do_nothing())

    def _seized(self, slot: Slot, lease_until: float, taken: dict[str, Any]) -> Mine | None:
        mine = Mine(lease_until=lease_until)
        return self._mine(sa.update(SLOTS).where(_is(slot), _has(mine)).values(taken))

    def _mine(self, statement: Any) -> Mine | None:  # noqa: ANN401 - an INSERT or UPDATE of either
        lease = self._connection.execute(statement.returning(SLOTS.c.lease_until)).scalar()
        return None if lease is None else Mine(lease_until=lease)


def _key(slot: Slot) -> dict[str, str]:
    return {
        "principal": slot.principal,
        "customer_id": slot.customer_id,
        "route": slot.route,
        "key": slot.key,
    }


def _is(slot: Slot) -> sa.ColumnElement[bool]:
    return sa.and_(*(SLOTS.c[name] == value for name, value in _key(slot).items()))


def _has(mine: Mine) -> sa.ColumnElement[bool]:
    return SLOTS.c.lease_until == mine.lease_until

"""Webhooks in SQL: endpoints, the outbox as they read it, and deliveries."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_seconds, is_postgres
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.stores.cursors import decode_cursor, encode_cursor
from support_agent.adapters.db.tables.trail import OutboxRow
from support_agent.adapters.db.tables.webhooks import (
    PENDING,
    WebhookDeliveryRow,
    WebhookEndpointRow,
)
from support_agent.domain.webhooks import (
    OVERLAP_S,
    DeliveryState,
    EndpointState,
    EventType,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
    event_of,
)
from support_agent.ports.storage.requests import Page
from support_agent.ports.storage.webhooks import Addressed, ToSend

Row = sa.Row[*tuple[Any, ...]]

outbox = table_of(OutboxRow)
endpoints = table_of(WebhookEndpointRow)
deliveries = table_of(WebhookDeliveryRow)

_EVENTS = frozenset(EventType)
# Written out in the SQL, or the partial indexes are not used under a generic plan.
_IS_NEW = sa.text("outbox.fanned_at IS NULL")
_IS_PENDING = sa.text(f"webhook_deliveries.{PENDING}")
# Asked once a statement: what may change from row to row is no bound of an index.
_NOW = sa.select(database_seconds()).scalar_subquery()
_IS_DUE = sa.and_(_IS_PENDING, deliveries.c.retry_at <= _NOW)
_IS_ENABLED = endpoints.c.state == EndpointState.ENABLED
_ORDER = "webhook_deliveries"  # of the list, for its cursors
_LOCK = 0x5765626861  # one number for all who change endpoints


class SqlWebhooks:
    """Each claim is counted, so that a later claimer tells itself by the number."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, endpoint: WebhookEndpoint) -> None:
        self._connection.execute(
            sa.insert(endpoints).values(
                id=endpoint.id,
                url=endpoint.url,
                events=list(endpoint.events),
                state=endpoint.state,
                disabled_reason=endpoint.disabled_reason,
                key_id=endpoint.key_id,
                previous_key_id=endpoint.previous_key_id,
                generation=endpoint.generation,
                rotated_at=endpoint.rotated_at,
                created_at=endpoint.created_at,
                created_by=endpoint.created_by,
            )
        )

    def get(self, endpoint_id: str) -> WebhookEndpoint | None:
        if not storable(endpoint_id):
            return None
        found = sa.select(endpoints).where(endpoints.c.id == endpoint_id)
        row = self._connection.execute(found).one_or_none()
        return None if row is None else _endpoint(row)

    def list(self) -> tuple[WebhookEndpoint, ...]:
        rows = self._connection.execute(sa.select(endpoints).order_by(endpoints.c.id))
        return tuple(map(_endpoint, rows))

    def listeners(self) -> tuple[WebhookEndpoint, ...]:
        found = sa.select(endpoints).where(_IS_ENABLED).order_by(endpoints.c.id)
        held = found.with_for_update(read=True, key_share=True)
        return tuple(map(_endpoint, self._connection.execute(held)))

    def hold(self) -> None:
        """SQLite has one writer."""
        if is_postgres(self._connection):
            self._connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))

    def change(self, endpoint: WebhookEndpoint) -> None:
        self._connection.execute(
            sa.update(endpoints)
            .where(endpoints.c.id == endpoint.id)
            .values(
                url=endpoint.url,
                events=list(endpoint.events),
                state=endpoint.state,
                disabled_reason=endpoint.disabled_reason,
            )
        )

    def rotate(self, endpoint_id: str, *, key_id: str) -> WebhookEndpoint | None:
        if not storable(endpoint_id):
            return None
        self._connection.execute(
            sa.update(endpoints)
            .where(endpoints.c.id == endpoint_id)
            .values(
                previous_key_id=endpoints.c.key_id,
                key_id=key_id,
                generation=endpoints.c.generation + 1,
                rotated_at=database_seconds(),
            )
        )
        return self.get(endpoint_id)

    def remove(self, endpoint_id: str) -> bool:
        if not storable(endpoint_id):
            return False
        # The row first: who sends it something just now takes it as well.
        held = sa.select(endpoints.c.id).where(endpoints.c.id == endpoint_id).with_for_update()
        if self._connection.execute(held).first() is None:
            return False
        self._connection.execute(
            sa.delete(deliveries).where(deliveries.c.endpoint_id == endpoint_id)
        )
        self._connection.execute(sa.delete(endpoints).where(endpoints.c.id == endpoint_id))
        return True

    def has_new(self) -> bool:
        found = sa.select(outbox.c.seq).where(_IS_NEW).limit(1)
        return self._connection.execute(found).first() is not None

    def take_new(self, *, limit: int, at: datetime) -> tuple[int, tuple[WebhookEvent, ...]]:
        oldest = (
            sa.select(outbox.c.seq)
            .where(_IS_NEW)
            .order_by(outbox.c.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        rows = self._connection.execute(
            sa.update(outbox)
            .where(outbox.c.seq.in_(oldest), _IS_NEW)
            .values(fanned_at=at)
            .returning(
                outbox.c.seq, outbox.c.key, outbox.c.topic, outbox.c.body, outbox.c.created_at
            )
        ).all()
        told = (
            event_of(row.topic, row.key, row.body, at=row.created_at)
            for row in sorted(rows, key=lambda row: row.seq)
        )
        return len(rows), tuple(event for event in told if event is not None)

    def address(self, many: Sequence[Addressed], *, at: datetime) -> None:
        if not many:
            return
        (now,) = self._connection.execute(sa.select(database_seconds())).one()
        for one in many:
            values = {
                "id": one.id,
                "endpoint_id": one.endpoint_id,
                "event_id": one.event.id,
                "type": one.event.type,
                "body": _body(one.event),
                "state": DeliveryState.PENDING,
                "attempts": 0,
                "claims": 0,
                "retry_at": now,
                "created_at": at,
            }
            insert_new(self._connection, deliveries, values, on=["endpoint_id", "event_id"])

    def due(self) -> tuple[str, ...]:
        # The first of each by the index: a long queue of one is not to be read for all of them.
        first = (
            sa.select(deliveries.c.retry_at)
            .where(deliveries.c.endpoint_id == endpoints.c.id, _IS_PENDING)
            .order_by(deliveries.c.retry_at)
            .limit(1)
            .scalar_subquery()
        )
        found = sa.select(endpoints.c.id).where(_IS_ENABLED, first <= _NOW).order_by(endpoints.c.id)
        return tuple(self._connection.execute(found).scalars())

    def claim(self, endpoint_id: str, *, limit: int, lease_s: float) -> tuple[ToSend, ...]:
        """Rows that another claimer is just taking are left to it, where there can be two."""
        now = database_seconds()
        endpoint = self._connection.execute(
            sa.select(
                endpoints, sa.func.coalesce(now - endpoints.c.rotated_at, OVERLAP_S).label("since")
            ).where(endpoints.c.id == endpoint_id, _IS_ENABLED)
        ).one_or_none()
        if endpoint is None:
            return ()
        oldest = (
            sa.select(deliveries.c.id)
            .where(deliveries.c.endpoint_id == endpoint_id, _IS_DUE)
            .order_by(deliveries.c.retry_at, deliveries.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        rows = self._connection.execute(
            sa.update(deliveries)
            .where(deliveries.c.id.in_(oldest), _IS_PENDING)
            .values(retry_at=database_seconds() + lease_s, claims=deliveries.c.claims + 1)
            .returning(
                deliveries.c.id,
                deliveries.c.event_id,
                sa.type_coerce(deliveries.c.body, sa.Text).label("body"),
                deliveries.c.attempts,
                deliveries.c.claims,
            )
        )
        taken = (
            ToSend(
                id=row.id,
                endpoint=_endpoint(endpoint),
                event_id=row.event_id,
                body=row.body,
                tries=row.attempts + 1,
                claim=row.claims,
                overlaps=endpoint.since < OVERLAP_S,
            )
            for row in rows
        )
        return tuple(sorted(taken, key=lambda one: one.id))

    def settle(
        self,
        sent: ToSend,
        state: DeliveryState,
        *,
        at: datetime,
        status: int | None,
        error: str | None,
    ) -> bool:
        return self._end(sent, state=state, ended_at=at, last_status=status, last_error=error)

    def put_off(
        self, sent: ToSend, *, pause_s: float, status: int | None, error: str | None
    ) -> bool:
        return self._end(
            sent, retry_at=database_seconds() + pause_s, last_status=status, last_error=error
        )

    def again(self, endpoint_id: str, delivery_id: str) -> WebhookDelivery | None:
        if not (storable(endpoint_id) and storable(delivery_id)):
            return None
        row = self._connection.execute(
            sa.update(deliveries)
            .where(deliveries.c.id == delivery_id, deliveries.c.endpoint_id == endpoint_id)
            .values(state=DeliveryState.PENDING, retry_at=database_seconds(), ended_at=None)
            .returning(*deliveries.c)
        ).one_or_none()
        return None if row is None else _delivery(row)

    def deliveries(
        self,
        endpoint_id: str,
        *,
        state: DeliveryState | None,
        limit: int,
        cursor: str | None,
    ) -> Page[WebhookDelivery]:
        found = sa.select(deliveries).where(deliveries.c.endpoint_id == endpoint_id)
        if state is not None:
            found = found.where(deliveries.c.state == state)
        if cursor is not None:
            (before,) = decode_cursor(cursor, _ORDER, str)
            found = found.where(deliveries.c.id < before)
        newest = found.order_by(deliveries.c.id.desc()).limit(limit + 1)
        rows = [_delivery(row) for row in self._connection.execute(newest)]
        following = encode_cursor(_ORDER, rows[limit - 1].id) if len(rows) > limit else None
        return Page(data=tuple(rows[:limit]), next_cursor=following)

    def let_go(self, before: datetime, *, limit: int) -> int:
        disabled = sa.select(endpoints.c.id).where(~_IS_ENABLED)
        over = sa.or_(
            deliveries.c.ended_at < before,
            sa.and_(
                _IS_PENDING,
                deliveries.c.created_at < before,
                deliveries.c.endpoint_id.in_(disabled),
            ),
        )
        some = sa.select(deliveries.c.id).where(over).limit(limit)
        return self._connection.execute(
            sa.delete(deliveries).where(deliveries.c.id.in_(some))
        ).rowcount

    def _end(self, sent: ToSend, **values: Any) -> bool:  # noqa: ANN401 - column values
        mine = (deliveries.c.id == sent.id, deliveries.c.claims == sent.claim, _IS_PENDING)
        ended = sa.update(deliveries).where(*mine).values(attempts=sent.tries, **values)
        return self._connection.execute(ended).rowcount == 1


def _body(event: WebhookEvent) -> dict[str, Any]:
    """What is sent, and signed, in the bytes in which it is stored."""
    moment = event.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"type": event.type, "timestamp": moment, "data": dict(event.data)}


def _endpoint(row: Row) -> WebhookEndpoint:
    """An event that this program does not know, maybe a newer one's, is never sent by it."""
    return WebhookEndpoint(
        id=row.id,
        url=row.url,
        events=tuple(EventType(event) for event in row.events if event in _EVENTS),
        state=EndpointState(row.state),
        disabled_reason=row.disabled_reason,
        key_id=row.key_id,
        previous_key_id=row.previous_key_id,
        generation=row.generation,
        rotated_at=row.rotated_at,
        created_at=row.created_at,
        created_by=row.created_by,
    )


def _delivery(row: Row) -> WebhookDelivery:
    return WebhookDelivery(
        id=row.id,
        endpoint_id=row.endpoint_id,
        event_id=row.event_id,
        type=EventType(row.type),
        state=DeliveryState(row.state),
        attempts=row.attempts,
        retry_at=row.retry_at,
        last_status=row.last_status,
        last_error=row.last_error,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )

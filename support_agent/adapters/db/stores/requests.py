"""Refund requests in SQL: facts inserted once, moved by one conditional update."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.dialect import database_instant
from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.stores.cursors import decode_cursor, encode_cursor
from support_agent.adapters.db.stores.rows import (
    lines_from_json,
    lines_to_json,
    reasons_from_json,
    reasons_to_json,
)
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.requests import (
    NOT_FAILED_SQL,
    NOT_PENDING_SQL,
    PENDING_SQL,
    RefundAttemptRow,
    RefundRequestRow,
)
from support_agent.domain.consent import Consent
from support_agent.domain.errors import Conflict
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import CHANGEABLE, RefundRequest, RequestStatus
from support_agent.ports.storage.requests import Page, RequestFilter, Unreadable

REQUESTS = table_of(RefundRequestRow)
ATTEMPTS = table_of(RefundAttemptRow)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AHEAD = timedelta(days=1_000) // timedelta(microseconds=1)  # more than any request waits
_PENDING = RequestStatus.PENDING_APPROVAL
# The orders of a list, as its cursors name them.
_QUEUE = "queue"
_NEWEST = "newest"
_ROWS_AT_ONCE = 500
# Built once: putting them together costs more than running them.
_OF = sa.bindparam("of", type_=sa.Text)
_BY_ID = Prepared(sa.select(REQUESTS).where(REQUESTS.c.id == _OF))
_BY_QUOTE = Prepared(sa.select(REQUESTS).where(REQUESTS.c.quote_id == _OF))
_OF_GROUP = Prepared(
    sa.select(REQUESTS).where(REQUESTS.c.group_id == _OF).order_by(REQUESTS.c.created_seq)
)
_OF_ORDER = Prepared(
    sa.select(REQUESTS)
    .where(REQUESTS.c.order_id == _OF)
    .order_by(REQUESTS.c.created_seq.desc())
    .limit(sa.bindparam("most", type_=sa.BigInteger))
)
_AS_SEEN = sa.and_(
    REQUESTS.c.id == sa.bindparam("seen_id"),
    REQUESTS.c.status == sa.bindparam("seen_status"),
    REQUESTS.c.version == sa.bindparam("seen_version"),
)
_MOVED = (*CHANGEABLE, "queue_rank")
_MOVE = Prepared(
    sa.update(REQUESTS).where(_AS_SEEN).values(moved_at=database_instant()), columns=_MOVED
)
_HOLD = Prepared(sa.update(REQUESTS).where(_AS_SEEN).values(version=REQUESTS.c.version))
# What a value that this program never wrote raises on its way out of a row.
_NOT_OURS = (AttributeError, KeyError, TypeError, ValueError)


class SqlRequests:
    """`created_seq` orders the history, `queue_rank` the queue."""

    def __init__(self, connection: sa.Connection, seen: Seen | None = None) -> None:
        self._connection = connection
        self._seen = seen or Seen(connection)

    def add(self, request: RefundRequest) -> None:
        """Insert the facts.

        Raises:
            Conflict: the quote was filed by somebody else a moment ago; read it by its quote.
        """
        if not insert_new(self._connection, REQUESTS, request_values(request), on=("quote_id",)):
            raise Conflict(f"quote {request.quote_id!r} has just been filed; look at it again")

    def get(self, request_id: str) -> RefundRequest | None:
        return self._one(_BY_ID, request_id)

    def by_quote(self, quote_id: str) -> RefundRequest | None:
        return self._one(_BY_QUOTE, quote_id)

    def list(
        self, where: RequestFilter, *, limit: int, cursor: str | None = None
    ) -> Page[RefundRequest]:
        rows = self._found(where, limit + 1, cursor)
        last = rows[limit - 1] if len(rows) > limit else None
        return Page(
            data=tuple(_from_row(row) for row in rows[:limit]),
            next_cursor=None if last is None else _cursor(where.status, last),
        )

    def _found(self, where: RequestFilter, most: int, cursor: str | None) -> Sequence[Named]:
        if not all(storable(wanted) for wanted in (where.customer_id, where.order_id) if wanted):
            return ()
        if where == RequestFilter(order_id=where.order_id) and where.order_id and cursor is None:
            return _OF_ORDER.all_named(  # what each payout asks for
                self._connection, {"of": where.order_id, "most": most}
            )
        queue = where.status is _PENDING
        statement = _queue(where, cursor) if queue else _newest(where.status, cursor)
        for column, wanted in (("customer_id", where.customer_id), ("order_id", where.order_id)):
            if wanted is not None:
                statement = statement.where(REQUESTS.c[column] == wanted)
        for bound in _bounds(where):
            statement = statement.where(bound)
        return self._connection.execute(statement.limit(most)).mappings().all()

    def move(self, before: RefundRequest, after: RefundRequest) -> bool:
        row = request_values(after)
        values = {name: row[name] for name in _MOVED}
        return _MOVE.run(self._connection, values | _as_seen(before)) == 1

    def of_group(self, group_id: str) -> tuple[RefundRequest, ...]:
        found = _OF_GROUP.all_named(self._connection, {"of": group_id})
        return tuple(_from_row(row) for row in found)

    def due(self, now: datetime, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        late = _oldest(limit, after).where(sa.text(PENDING_SQL), REQUESTS.c.due_at < now)
        return tuple(row.id for row in self._connection.execute(late))

    def unmoved_since(
        self, status: RequestStatus, before: datetime, *, limit: int
    ) -> tuple[str, ...]:
        since = sa.func.coalesce(REQUESTS.c.moved_at, REQUESTS.c.created_at)
        late = _oldest(limit, None).where(_is(status), since < before)
        return tuple(row.id for row in self._connection.execute(late))

    def hold(self, request: RefundRequest) -> bool:
        # It locks the row; what is in it stays.
        return self._seen.beside(_HOLD.run, self._connection, _as_seen(request)) == 1

    def expired(self, now: datetime, *, limit: int, after: str | None = None) -> tuple[str, ...]:
        live = sa.exists().where(ATTEMPTS.c.request_id == REQUESTS.c.id, sa.text(NOT_FAILED_SQL))
        late = (
            sa.and_(sa.text(PENDING_SQL), REQUESTS.c.expires_at < now),
            sa.and_(_is(RequestStatus.APPROVED), REQUESTS.c.approved_until < now),
        )
        found = [
            row
            for where in late
            for row in self._connection.execute(_oldest(limit, after).where(where, sa.not_(live)))
        ]
        found.sort(key=lambda row: int(row.created_seq))
        return tuple(row.id for row in found[:limit])

    def in_status(
        self, statuses: Sequence[RequestStatus], *, limit: int, after: str | None = None
    ) -> tuple[str, ...]:
        found = self._connection.execute(_oldest(limit, after).where(_is(*statuses)))
        return tuple(row.id for row in found)

    def all(self) -> Iterator[RefundRequest | Unreadable]:
        in_order = sa.select(REQUESTS.c.id).order_by(REQUESTS.c.created_seq)
        ids = self._connection.execute(in_order).scalars().all()
        for start in range(0, len(ids), _ROWS_AT_ONCE):
            yield from self._each(ids[start : start + _ROWS_AT_ONCE])

    def _each(self, ids: Sequence[str]) -> tuple[RefundRequest | Unreadable, ...]:
        """Together; one by one only when one of them cannot be read."""
        some = sa.select(REQUESTS).where(REQUESTS.c.id.in_(ids)).order_by(REQUESTS.c.created_seq)
        try:
            return tuple(_from_row(row) for row in self._connection.execute(some).mappings())
        except _NOT_OURS:
            if len(ids) == 1:
                return (Unreadable(id=ids[0]),)
        return tuple(one for request_id in ids for one in self._each([request_id]))

    def _one(self, statement: Prepared, value: str) -> RefundRequest | None:
        if not storable(value):
            return None
        row = statement.first_named(self._connection, {"of": value})
        return None if row is None else _from_row(row)


def _oldest(limit: int, after: str | None) -> sa.Select[tuple[str, int]]:
    statement = sa.select(REQUESTS.c.id, REQUESTS.c.created_seq)
    if after is not None:
        last = sa.select(REQUESTS.c.created_seq).where(REQUESTS.c.id == after).scalar_subquery()
        statement = statement.where(REQUESTS.c.created_seq > last)
    return statement.order_by(REQUESTS.c.created_seq).limit(limit)


def _as_seen(request: RefundRequest) -> dict[str, object]:
    return {
        "seen_id": request.id,
        "seen_status": request.status,
        "seen_version": request.version,
    }


def _queue(where: RequestFilter, cursor: str | None) -> sa.Select[Any]:
    """The queue, walked along a partial index: status as a literal, keyset ascending."""
    statement = sa.select(REQUESTS).where(sa.text(PENDING_SQL))
    if where.filed_before is not None:  # nobody ranks later than filed: the walk can end there
        statement = statement.where(REQUESTS.c.queue_rank < _microseconds(where.filed_before))
    key = sa.tuple_(REQUESTS.c.queue_rank, REQUESTS.c.id)
    if cursor is not None:
        statement = statement.where(key > decode_cursor(cursor, _QUEUE, int, str))
    return statement.order_by(REQUESTS.c.queue_rank, REQUESTS.c.id)


def _newest(status: RequestStatus | None, cursor: str | None) -> sa.Select[Any]:
    statement = sa.select(REQUESTS)
    if status is not None:
        statement = statement.where(_is(status))
    if cursor is not None:
        (before,) = decode_cursor(cursor, _NEWEST, int)
        statement = statement.where(REQUESTS.c.created_seq < before)
    return statement.order_by(REQUESTS.c.created_seq.desc())


def _bounds(where: RequestFilter) -> Iterator[sa.ColumnElement[bool]]:
    if where.currency is not None:
        yield REQUESTS.c.currency == where.currency
    if where.least_minor is not None:
        yield REQUESTS.c.amount_minor >= where.least_minor
    if where.most_minor is not None:
        yield REQUESTS.c.amount_minor <= where.most_minor
    if where.level is not None:
        yield REQUESTS.c.required_level == where.level
    if where.filed_before is not None:
        yield REQUESTS.c.created_at < where.filed_before
    if where.due_before is not None:
        yield sa.func.coalesce(REQUESTS.c.due_at, REQUESTS.c.expires_at) < where.due_before


def _cursor(status: RequestStatus | None, row: Named) -> str:
    if status is _PENDING:
        return encode_cursor(_QUEUE, row["queue_rank"], row["id"])
    return encode_cursor(_NEWEST, row["created_seq"])


def _is(*statuses: RequestStatus) -> sa.ColumnElement[bool]:
    wanted = REQUESTS.c.status.in_(statuses)
    # Says what the statuses say already, in the words of the partial index that serves them.
    return wanted if _PENDING in statuses else sa.and_(sa.text(NOT_PENDING_SQL), wanted)


def _rank(request: RefundRequest) -> int:
    """Oldest first, and each escalation before all that were escalated less often."""
    return max(0, _microseconds(request.created_at) - request.escalations * _AHEAD)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def request_values(request: RefundRequest) -> dict[str, Any]:
    """The columns of a request that is to be stored."""
    row = {name: getattr(request, name) for name in RefundRequest.__dataclass_fields__}
    requester: Principal = row.pop("requester")
    return {
        **row,
        "lines": lines_to_json(request.lines),
        "reasons": reasons_to_json(request.reasons),
        "requester_kind": requester.kind,
        "requester_id": requester.id,
        "requester_person_id": requester.person_id,
        "requester_proof": requester.proof,
        "requester_via": requester.via,
        "queue_rank": _rank(request),
    }


def _from_row(row: Named) -> RefundRequest:
    fields = RefundRequest.__dataclass_fields__
    values = {name: row[name] for name in fields if name in row}
    values |= {
        "lines": lines_from_json(row["lines"]),
        "reasons": reasons_from_json(row["reasons"]),
        "method": PaymentMethod(row["method"]),
        "verdict": Verdict(row["verdict"]),
        "consent": Consent(row["consent"]),
        "due_at": row["due_at"] or row["expires_at"],
        "status": RequestStatus(row["status"]),
        "requester": Principal(
            kind=PrincipalKind(row["requester_kind"]),
            id=row["requester_id"],
            person_id=row["requester_person_id"],
            proof=Proof(row["requester_proof"]),
            via=row["requester_via"],
        ),
    }
    return RefundRequest(**values)

"""Reading an order's books, with or without one request's own reserve."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.stores.ledger import Account, Amount, open_reserve
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.books import AccountKind
from support_agent.adapters.db.tables.books import LineBalance as LineRow
from support_agent.adapters.db.tables.books import PaymentBalance as PaymentRow
from support_agent.adapters.db.tables.requests import RefundRequestRow
from support_agent.domain.policy import LineBalance, OrderBooks, PaymentBalance
from support_agent.domain.refunds import OPEN, RequestStatus

LINES = table_of(LineRow)
PAYMENTS = table_of(PaymentRow)
REQUESTS = table_of(RefundRequestRow)

_Held = Mapping[Account, Amount]
# Built once: putting them together costs more than running them.
_ORDER: sa.BindParameter[str] = sa.bindparam("order_id")
_LINES = Prepared(sa.select(LINES).where(LINES.c.order_id == _ORDER).order_by(LINES.c.line_id))
_PAYMENTS = Prepared(
    sa.select(PAYMENTS).where(PAYMENTS.c.order_id == _ORDER).order_by(PAYMENTS.c.payment_id)
)
_REQUESTS = Prepared(
    sa.select(REQUESTS.c.id, REQUESTS.c.status)
    .where(REQUESTS.c.order_id == _ORDER)
    .order_by(REQUESTS.c.created_seq)
)


def read_order(
    connection: sa.Connection, seen: Seen, order_id: str, *, without_request: str | None
) -> OrderBooks:
    """The balances as they would be without that request's open reserve, and who took what."""
    held = held_by(connection, seen, without_request) if without_request else {}
    lines = lines_of(connection, seen, order_id)
    payments = payments_of(connection, seen, order_id)
    here = {"order_id": order_id}
    found = seen.once(("requests", order_id), _REQUESTS.all, connection, here)
    requests = [
        (request_id, RequestStatus(status))
        for request_id, status in found
        if request_id != without_request
    ]
    return OrderBooks(
        lines=tuple(_line(row, held) for row in lines),
        payments=tuple(_payment(row, held) for row in payments),
        open_request_ids=tuple(id_ for id_, status in requests if status in OPEN),
        refunded_request_ids=tuple(
            id_ for id_, status in requests if status is RequestStatus.REFUNDED
        ),
    )


def lines_of(connection: sa.Connection, seen: Seen, order_id: str) -> Sequence[Named]:
    """The rows of an order's lines."""
    here = {"order_id": order_id}
    return seen.once(("lines", order_id), _LINES.all_named, connection, here)


def payments_of(connection: sa.Connection, seen: Seen, order_id: str) -> Sequence[Named]:
    """The rows of an order's payments."""
    here = {"order_id": order_id}
    return seen.once(("payments", order_id), _PAYMENTS.all_named, connection, here)


def held_by(connection: sa.Connection, seen: Seen, request_id: str) -> _Held:
    """A request's open reserve."""
    return seen.once(("held", request_id), open_reserve, connection, request_id)


def _line(row: Named, held: _Held) -> LineBalance:
    own = held.get(Account(AccountKind.LINE, row["order_id"], row["line_id"]), Amount(0))
    return LineBalance(
        line_id=row["line_id"],
        total_minor=row["total_minor"],
        quantity=row["quantity"],
        reserved_minor=row["reserved_minor"] - own.minor,
        refunded_minor=row["refunded_minor"],
        units_taken=row["reserved_units"] + row["refunded_units"] - own.units,
    )


def _payment(row: Named, held: _Held) -> PaymentBalance:
    own = held.get(Account(AccountKind.PAYMENT, row["order_id"], row["payment_id"]), Amount(0))
    return PaymentBalance(
        payment_id=row["payment_id"],
        captured_minor=row["captured_minor"],
        reserved_minor=row["reserved_minor"] - own.minor,
        refunded_minor=row["refunded_minor"],
        charged_back_minor=row["charged_back_minor"],
        overdrawn_minor=row["overdrawn_minor"],
        disputed=row["disputed"] or row["disputed_at_gateway"],
        frozen=row["frozen"],
    )

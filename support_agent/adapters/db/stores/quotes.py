"""Quotes in SQL."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.stores.rows import (
    lines_from_json,
    lines_to_json,
    reasons_from_json,
    reasons_to_json,
)
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.requests import QuoteRow, RefundRequestRow
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import Quote

QUOTES = table_of(QuoteRow)
REQUESTS = table_of(RefundRequestRow)

_OPEN = (
    QUOTES.c.conversation_id == sa.bindparam("conversation"),
    sa.not_(QUOTES.c.superseded),
    sa.not_(sa.exists().where(REQUESTS.c.quote_id == QUOTES.c.id)),
)
_ADD = Prepared(sa.insert(QUOTES).inline(), columns=[*Quote.__dataclass_fields__])
_GET = Prepared(sa.select(QUOTES).where(QUOTES.c.id == sa.bindparam("of")))
_SUPERSEDE = Prepared(sa.update(QUOTES).where(*_OPEN).values(superseded=sa.true()))
_OF_GROUP = Prepared(
    sa.select(QUOTES).where(QUOTES.c.group_id == sa.bindparam("of")).order_by(QUOTES.c.created_seq)
)
_OPEN_IN = Prepared(sa.select(QUOTES).where(*_OPEN).order_by(QUOTES.c.created_seq))


class SqlQuotes:
    """A quote is filed when a request has its id; that is read, never stored in the quote."""

    def __init__(self, connection: sa.Connection, seen: Seen) -> None:
        self._connection = connection
        self._seen = seen

    def add(self, quote: Quote) -> None:
        self._seen.beside(_ADD.run, self._connection, _to_row(quote))

    def get(self, quote_id: str) -> Quote | None:
        if not storable(quote_id):
            return None
        row = _GET.first_named(self._connection, {"of": quote_id})
        return None if row is None else _from_row(row)

    def supersede(self, conversation_id: str) -> None:
        here = {"conversation": conversation_id}
        self._seen.beside(_SUPERSEDE.run, self._connection, here)

    def mark_shown(self, quote_ids: Sequence[str], *, seq: int) -> None:
        self._connection.execute(
            sa.update(QUOTES).where(QUOTES.c.id.in_(quote_ids)).values(shown_seq=seq)
        )

    def of_group(self, group_id: str) -> tuple[Quote, ...]:
        found = _OF_GROUP.all_named(self._connection, {"of": group_id})
        return tuple(_from_row(row) for row in found)

    def open_in(self, conversation_id: str) -> tuple[Quote, ...]:
        found = _OPEN_IN.all_named(self._connection, {"conversation": conversation_id})
        return tuple(_from_row(row) for row in found)


def _to_row(quote: Quote) -> dict[str, Any]:
    row = {name: getattr(quote, name) for name in Quote.__dataclass_fields__}
    return {
        **row,
        "lines": lines_to_json(quote.lines),
        "reasons": reasons_to_json(quote.reasons),
    }


def _from_row(row: Named) -> Quote:
    values = {name: row[name] for name in Quote.__dataclass_fields__}
    values |= {
        "lines": lines_from_json(row["lines"]),
        "reasons": reasons_from_json(row["reasons"]),
        "method": PaymentMethod(row["method"]),
        "verdict": Verdict(row["verdict"]),
    }
    return Quote(**values)

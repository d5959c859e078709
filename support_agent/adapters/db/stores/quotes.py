"""Quotes in SQL."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import storable, table_of
from support_agent.adapters.db.stores.rows import (
    lines_from_json,
    lines_to_json,
    reasons_from_json,
    reasons_to_json,
)
from support_agent.adapters.db.tables.requests import QuoteRow, RefundRequestRow
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import Quote

QUOTES = table_of(QuoteRow)
REQUESTS = table_of(RefundRequestRow)


class SqlQuotes:
    """A quote is filed when a request has its id; that is read, never stored in the quote."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, quote: Quote) -> None:
        self._connection.execute(sa.insert(QUOTES).inline(), _to_row(quote))

    def get(self, quote_id: str) -> Quote | None:
        if not storable(quote_id):
            return None
        found = self._connection.execute(sa.select(QUOTES).where(QUOTES.c.id == quote_id))
        row = found.mappings().first()
        return None if row is None else _from_row(row)

    def supersede(self, conversation_id: str) -> None:
        self._connection.execute(
            sa.update(QUOTES).where(*_open(conversation_id)).values(superseded=True)
        )

    def mark_shown(self, quote_ids: Sequence[str], *, seq: int) -> None:
        self._connection.execute(
            sa.update(QUOTES).where(QUOTES.c.id.in_(quote_ids)).values(shown_seq=seq)
        )

    def of_group(self, group_id: str) -> tuple[Quote, ...]:
        found = self._connection.execute(
            sa.select(QUOTES).where(QUOTES.c.group_id == group_id).order_by(QUOTES.c.created_seq)
        )
        return tuple(_from_row(row) for row in found.mappings())

    def open_in(self, conversation_id: str) -> tuple[Quote, ...]:
        found = self._connection.execute(
            sa.select(QUOTES).where(*_open(conversation_id)).order_by(QUOTES.c.created_seq)
        )
        return tuple(_from_row(row) for row in found.mappings())


def _open(conversation_id: str) -> tuple[sa.ColumnElement[bool], ...]:
    filed = sa.exists().where(REQUESTS.c.quote_id == QUOTES.c.id)
    return (
        QUOTES.c.conversation_id == conversation_id,
        sa.not_(QUOTES.c.superseded),
        sa.not_(filed),
    )


def _to_row(quote: Quote) -> dict[str, Any]:
    row = {name: getattr(quote, name) for name in Quote.__dataclass_fields__}
    return {
        **row,
        "lines": lines_to_json(quote.lines),
        "reasons": reasons_to_json(quote.reasons),
    }


def _from_row(row: sa.RowMapping) -> Quote:
    values = {name: row[name] for name in Quote.__dataclass_fields__}
    values |= {
        "lines": lines_from_json(row["lines"]),
        "reasons": reasons_from_json(row["reasons"]),
        "method": PaymentMethod(row["method"]),
        "verdict": Verdict(row["verdict"]),
    }
    return Quote(**values)

"""Proof that every counter is the sum of its ledger entries, by one aggregate a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.stores.ledger import (
    CHARGED_BACK,
    ENTRIES,
    REFUNDED,
    RESERVED,
    Account,
    signed,
)
from support_agent.adapters.db.tables.books import (
    AccountKind,
    CapCounter,
    LineBalance,
    OrderBalance,
    PaymentBalance,
)
from support_agent.domain.refunds import LedgerKind
from support_agent.ports.storage.books import BookTotal, Mismatch

ORDERS = table_of(OrderBalance)
LINES = table_of(LineBalance)
PAYMENTS = table_of(PaymentBalance)
CAPS = table_of(CapCounter)

_MONEY = ENTRIES.c.amount_minor
_UNITS = ENTRIES.c.units


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counters:
    """One table of counters: how entries name its rows, and what moves each counter."""

    kind: AccountKind
    account_id: sa.ColumnElement[str]
    sub_id: sa.ColumnElement[str]
    counters: Mapping[sa.Column[int], tuple[sa.Column[int], Mapping[LedgerKind, int]]]


_ALL = (
    _Counters(
        kind=AccountKind.ORDER,
        account_id=ORDERS.c.order_id,
        sub_id=sa.literal(""),
        counters={
            ORDERS.c.reserved_minor: (_MONEY, RESERVED),
            ORDERS.c.refunded_minor: (_MONEY, REFUNDED),
        },
    ),
    _Counters(
        kind=AccountKind.LINE,
        account_id=LINES.c.order_id,
        sub_id=LINES.c.line_id,
        counters={
            LINES.c.reserved_minor: (_MONEY, RESERVED),
            LINES.c.refunded_minor: (_MONEY, REFUNDED),
            LINES.c.reserved_units: (_UNITS, RESERVED),
            LINES.c.refunded_units: (_UNITS, REFUNDED),
        },
    ),
    _Counters(
        kind=AccountKind.PAYMENT,
        account_id=PAYMENTS.c.order_id,
        sub_id=PAYMENTS.c.payment_id,
        counters={
            PAYMENTS.c.reserved_minor: (_MONEY, RESERVED),
            PAYMENTS.c.refunded_minor: (_MONEY, REFUNDED),
            PAYMENTS.c.charged_back_minor: (_MONEY, CHARGED_BACK),
        },
    ),
    _Counters(
        kind=AccountKind.CAP,
        account_id=CAPS.c.scope + ":" + CAPS.c.subject,
        sub_id=CAPS.c.day + "/" + CAPS.c.currency,
        counters={CAPS.c.used_minor: (_MONEY, RESERVED)},
    ),
)


def find_mismatches(connection: sa.Connection) -> tuple[Mismatch, ...]:
    """Counters that differ from their entries, also where one of the two is missing altogether."""
    return tuple(
        mismatch
        for counters in _ALL
        for row in connection.execute(_differences(counters)).mappings()
        for mismatch in _mismatches(counters, row)
    )


def _differences(table: _Counters) -> sa.Select[Any]:
    """Counters and entries under one another, added up by account, where they differ."""
    names = [column.name for column in table.counters]
    stored = sa.select(
        table.account_id.label("account_id"),
        table.sub_id.label("sub_id"),
        sa.literal(1).label("counter_rows"),
        sa.literal(0).label("entries"),
        *(column.label(f"{column.name}_stored") for column in table.counters),
        *(sa.literal(0).label(f"{name}_ledger") for name in names),
    )
    booked = sa.select(
        ENTRIES.c.account_id,
        ENTRIES.c.sub_id,
        sa.literal(0),
        sa.literal(1),
        *(sa.literal(0) for _ in names),
        *(signed(column, signs) for column, signs in table.counters.values()),
    ).where(ENTRIES.c.account_kind == table.kind)
    both = sa.union_all(stored, booked).subquery()
    key = (both.c.account_id, both.c.sub_id)
    sums = {name: sa.func.sum(both.c[name]) for name in both.c.keys()[len(key) :]}
    differ = [sums[f"{name}_stored"] != sums[f"{name}_ledger"] for name in names]
    return (
        sa.select(*key, *(total.label(name) for name, total in sums.items()))
        .group_by(*key)
        .having(sa.or_(sums["counter_rows"] == 0, *differ))
        .order_by(*key)
    )


def _mismatches(table: _Counters, row: sa.RowMapping) -> Iterator[Mismatch]:
    account = str(Account(table.kind, row["account_id"], row["sub_id"]))
    if row["counter_rows"] == 0:
        yield Mismatch(account=account, counter="row", stored=0, ledger=int(row["entries"]))
    for column in table.counters:
        stored, ledger = int(row[f"{column.name}_stored"]), int(row[f"{column.name}_ledger"])
        if stored != ledger:
            yield Mismatch(account=account, counter=column.name, stored=stored, ledger=ledger)


def book_totals(connection: sa.Connection) -> tuple[BookTotal, ...]:
    """Sums over all payments, and the number of ledger entries, by currency."""
    columns = ("captured_minor", "reserved_minor", "refunded_minor", "charged_back_minor")
    sums = [sa.func.sum(PAYMENTS.c[column]).label(column) for column in columns]
    entries = (
        sa.select(sa.func.count())
        .select_from(ENTRIES)
        .where(ENTRIES.c.currency == PAYMENTS.c.currency)
        .scalar_subquery()
    )
    found = connection.execute(
        sa.select(PAYMENTS.c.currency, *sums, entries.label("entries"))
        .group_by(PAYMENTS.c.currency)
        .order_by(PAYMENTS.c.currency)
    ).mappings()
    return tuple(
        BookTotal(
            currency=row["currency"],
            **{column: int(row[column]) for column in columns},
            entries=row["entries"],
        )
        for row in found
    )

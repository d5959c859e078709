"""The ledger: what a posting moves on which accounts, and what entries add up to."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.books import AccountKind, LedgerEntry
from support_agent.domain.refunds import LedgerKind
from support_agent.ports.storage.books import CapKey, CapScope, Posting

ENTRIES = table_of(LedgerEntry)

# Which way each kind of entry moves a counter. MANUAL is a reserve paid by hand.
RESERVED: Mapping[LedgerKind, int] = MappingProxyType(
    {
        LedgerKind.RESERVE: 1,
        LedgerKind.RELEASE: -1,
        LedgerKind.SETTLE: -1,
        LedgerKind.MANUAL: -1,
    }
)
REFUNDED: Mapping[LedgerKind, int] = MappingProxyType(
    {
        LedgerKind.SETTLE: 1,
        LedgerKind.MANUAL: 1,
        LedgerKind.EXTERNAL: 1,
        LedgerKind.REVERSE: -1,
    }
)
CHARGED_BACK: Mapping[LedgerKind, int] = MappingProxyType(
    {LedgerKind.CHARGEBACK: 1, LedgerKind.CHARGEBACK_REVERSED: -1}
)


class Account(NamedTuple):
    """One row of counters, as ledger entries name it."""

    kind: AccountKind
    account_id: str
    sub_id: str

    def __str__(self) -> str:
        name = f"{self.account_id}/{self.sub_id}" if self.sub_id else self.account_id
        return f"{self.kind} {name}"


class Amount(NamedTuple):
    minor: int
    units: int = 0


def accounts_of(posting: Posting) -> dict[Account, Amount]:
    """What a posting moves, in the order in which rows are taken: order, lines, payment."""
    order_id = posting.order_id
    lines = sorted(posting.lines, key=lambda line: line.line_id)
    return {
        Account(AccountKind.ORDER, order_id, ""): Amount(posting.amount_minor),
        **{
            Account(AccountKind.LINE, order_id, line.line_id): Amount(line.amount_minor, line.units)
            for line in lines
            if line.amount_minor or line.units
        },
        Account(AccountKind.PAYMENT, order_id, posting.payment_id): Amount(posting.amount_minor),
    }


def cap_account(key: CapKey) -> Account:
    """A cap's counter, as ledger entries name it."""
    return Account(
        AccountKind.CAP, f"{key.scope}:{key.subject}", f"{key.day.isoformat()}/{key.currency}"
    )


def cap_row(account: Account) -> dict[str, str]:
    """The counter's key again; a scope holds no colon and a currency no slash."""
    scope, _, subject = account.account_id.partition(":")
    day, _, currency = account.sub_id.rpartition("/")
    return {"scope": CapScope(scope), "subject": subject, "day": day, "currency": currency}


_ADD = Prepared(
    sa.insert(ENTRIES).inline(),
    columns=(
        *("kind", "account_kind", "account_id", "sub_id", "request_id", "round"),
        *("amount_minor", "units", "currency", "at"),
    ),
)


def write_entries(
    connection: sa.Connection,
    kind: LedgerKind,
    moves: Mapping[Account, Amount],
    *,
    posting: Posting,
) -> None:
    """Write one entry an account; the same posting twice breaks the unique constraint."""
    rows = [_entry(kind, account, amount, posting) for account, amount in moves.items()]
    if rows:
        _ADD.run_each(connection, rows)


def _entry(kind: LedgerKind, account: Account, amount: Amount, posting: Posting) -> dict[str, Any]:
    return {
        "kind": kind,
        "account_kind": account.kind,
        "account_id": account.account_id,
        "sub_id": account.sub_id,
        "request_id": posting.request_id,
        "round": posting.round,
        "amount_minor": amount.minor,
        "units": amount.units,
        "currency": posting.currency,
        "at": posting.at,
    }


def signed(column: sa.ColumnElement[int], signs: Mapping[LedgerKind, int]) -> sa.ColumnElement[int]:
    """An entry's effect on a counter."""
    whens = [(ENTRIES.c.kind == kind, column * sign) for kind, sign in signs.items()]
    return sa.case(*whens, else_=0)


def open_reserve(connection: sa.Connection, request_id: str) -> dict[Account, Amount]:
    """What a request still holds, over all its rounds: a new round keeps the reserve of the old."""
    return _sums(connection, request_id, _OPEN)


def settled(connection: sa.Connection, request_id: str) -> dict[Account, Amount]:
    """What a request has refunded and not taken back, over all its rounds."""
    return _sums(connection, request_id, _SETTLED)


def _summed(signs: Mapping[LedgerKind, int]) -> Prepared:
    minor = sa.func.sum(signed(ENTRIES.c.amount_minor, signs))
    units = sa.func.sum(signed(ENTRIES.c.units, signs))
    key = (ENTRIES.c.account_kind, ENTRIES.c.account_id, ENTRIES.c.sub_id)
    return Prepared(
        sa.select(*key, minor.label("minor"), units.label("count"))
        .where(ENTRIES.c.request_id == sa.bindparam("request_id"))
        .group_by(*key)
        .having(sa.or_(minor != 0, units != 0))
        .order_by(*key)
    )


_OPEN, _SETTLED = _summed(RESERVED), _summed(REFUNDED)


def _sums(connection: sa.Connection, request_id: str, summed: Prepared) -> dict[Account, Amount]:
    found = summed.all(connection, {"request_id": request_id})
    # PostgreSQL sums a bigint to a numeric.
    return {
        Account(AccountKind(kind), account_id, sub_id): Amount(int(amount), int(count))
        for kind, account_id, sub_id, amount, count in found
    }

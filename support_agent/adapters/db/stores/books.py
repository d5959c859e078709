"""Balances and the ledger behind the `Books` port: a counter never changes without its entry."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from support_agent.adapters.db.prepared import Prepared, driven
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.stores.book_check import book_totals, find_mismatches
from support_agent.adapters.db.stores.book_facts import (
    book_fact,
    is_booked,
    knows_payment,
    set_disputed,
    unfreeze,
)
from support_agent.adapters.db.stores.book_read import read_order
from support_agent.adapters.db.stores.book_sync import sync_order
from support_agent.adapters.db.stores.ledger import (
    Account,
    Amount,
    accounts_of,
    cap_account,
    cap_row,
    open_reserve,
    settled,
    write_entries,
)
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.books import (
    AccountKind,
    CapCounter,
    LineBalance,
    OrderBalance,
    PaymentBalance,
)
from support_agent.domain.errors import InvalidInput, ReserveMissing
from support_agent.domain.orders import Order
from support_agent.domain.policy import OrderBooks
from support_agent.domain.refunds import LedgerKind
from support_agent.ports.payments import PaymentRef
from support_agent.ports.storage.books import (
    BookTotal,
    CapKey,
    FactBooked,
    GatewayFact,
    Mismatch,
    Posting,
    Shortage,
)

ORDERS = table_of(OrderBalance)
LINES = table_of(LineBalance)
PAYMENTS = table_of(PaymentBalance)
CAPS = table_of(CapCounter)

_TABLES = {
    AccountKind.ORDER: ORDERS,
    AccountKind.LINE: LINES,
    AccountKind.PAYMENT: PAYMENTS,
}

_USED = CAPS.c.used_minor + sa.bindparam("amount")
_COUNTED = (
    sa.update(CAPS)
    .where(*(key == sa.bindparam(f"of_{key.name}") for key in CAPS.primary_key))
    .values(used_minor=_USED)
)
_COUNT = Prepared(_COUNTED)
_COUNT_WITHIN = Prepared(_COUNTED.where(sa.bindparam("most") >= _USED))


_MINOR: sa.BindParameter[int] = sa.bindparam("minor", type_=sa.BigInteger)
_UNITS: sa.BindParameter[int] = sa.bindparam("units", type_=sa.BigInteger)


def _row(kind: AccountKind) -> sa.ColumnElement[bool]:
    columns = _TABLES[kind].c
    here = columns.order_id == sa.bindparam("of")
    if kind is AccountKind.LINE:
        return sa.and_(here, columns.line_id == sa.bindparam("sub"))
    if kind is AccountKind.PAYMENT:
        return sa.and_(here, columns.payment_id == sa.bindparam("sub"))
    return here


def _room(kind: AccountKind) -> list[sa.ColumnElement[bool]]:
    """When a row may be reserved on. `overdrawn` gives no room: it is what went too far already."""
    columns = _TABLES[kind].c
    taken = columns.reserved_minor + columns.refunded_minor + _MINOR
    if kind is AccountKind.LINE:
        units = columns.reserved_units + columns.refunded_units + _UNITS
        return [taken <= columns.total_minor, units <= columns.quantity]
    currency = columns.currency == sa.bindparam("currency_")
    if kind is AccountKind.ORDER:
        return [currency, taken <= columns.captured_minor]
    return [
        currency,
        taken + columns.charged_back_minor <= columns.captured_minor,
        sa.not_(columns.disputed),
        sa.not_(columns.disputed_at_gateway),
        sa.not_(columns.frozen),
    ]


def _move(kind: AccountKind, *, reserved: int = 0, refunded: int = 0) -> sa.Update:
    """Adds to a row's counters, or takes from them what must be there."""
    columns = _TABLES[kind].c
    statement = sa.update(_TABLES[kind]).where(_row(kind))
    names = (("minor", _MINOR), *((("units", _UNITS),) if kind is AccountKind.LINE else ()))
    for name, amount in names:
        for counter, sign in (("reserved", reserved), ("refunded", refunded)):
            column = columns[f"{counter}_{name}"]
            if sign < 0:
                statement = statement.where(column >= amount)
            if sign:
                statement = statement.values({column: column + sign * amount})
    return statement


def _hold(kind: AccountKind) -> Prepared:
    """Reserves where there is room, and says what is taken then."""
    columns = _TABLES[kind].c
    taken = (columns.reserved_minor + columns.refunded_minor).label("taken")
    return Prepared(_move(kind, reserved=1).where(*_room(kind)).returning(taken))


_HOLD = {kind: _hold(kind) for kind in _TABLES}
_RELEASE = {kind: Prepared(_move(kind, reserved=-1)) for kind in _TABLES}
_SETTLE = {kind: Prepared(_move(kind, reserved=-1, refunded=1)) for kind in _TABLES}
_UNREFUND = {kind: Prepared(_move(kind, refunded=-1)) for kind in _TABLES}


class SqlBooks:
    """Rows are taken order -> lines -> payment, each by one conditional update."""

    def __init__(self, connection: sa.Connection, seen: Seen | None = None) -> None:
        self._connection = connection
        self._seen = seen or Seen(connection)

    def sync(self, order: Order) -> None:
        sync_order(self._connection, self._seen, order)

    def of_order(self, order_id: str, *, without_request: str | None = None) -> OrderBooks:
        return read_order(self._connection, self._seen, order_id, without_request=without_request)

    def reserve(self, posting: Posting) -> int | Shortage:
        _check_sum(posting)
        moves = accounts_of(posting)
        # A savepoint, so that a shortage on a later row leaves nothing of the earlier ones.
        with _savepoint(self._connection, self._seen) as undo:
            held: list[int] = []
            for account, amount in moves.items():
                taken = self._hold(account, amount, currency=posting.currency)
                if taken is None:
                    undo()
                    return Shortage(account.kind)
                held.append(taken)
            if posting.round > 1 and self._holds_any(posting):  # of two at once, the second
                raise ReserveMissing(posting.request_id, account=f"order {posting.order_id}")
            write_entries(self._connection, LedgerKind.RESERVE, moves, posting=posting)
        return held[0]  # the order's row is taken first

    def holds(self, posting: Posting) -> bool:
        held = open_reserve(self._connection, posting.request_id)
        return {a: amount for a, amount in held.items() if not _is_cap(a)} == accounts_of(posting)

    def _holds_any(self, posting: Posting) -> bool:
        held = open_reserve(self._connection, posting.request_id)
        return any(not _is_cap(account) for account in held)

    def release(self, posting: Posting) -> None:
        moves = self._unhold(posting, LedgerKind.RELEASE)
        write_entries(self._connection, LedgerKind.RELEASE, moves, posting=posting)

    def settle(self, posting: Posting, *, by_hand: bool = False) -> None:
        kind = LedgerKind.MANUAL if by_hand else LedgerKind.SETTLE
        moves = self._unhold(posting, kind)
        write_entries(self._connection, kind, moves, posting=posting)

    def reverse(self, posting: Posting) -> None:
        moves = accounts_of(posting)
        for account, amount in moves.items():
            self._unrefund(account, amount, request_id=posting.request_id)
        if settled(self._connection, posting.request_id) != moves:
            raise ReserveMissing(posting.request_id, account=f"order {posting.order_id}")
        write_entries(self._connection, LedgerKind.REVERSE, moves, posting=posting)

    def book_fact(self, fact: GatewayFact) -> FactBooked | None:
        return book_fact(self._connection, fact)

    def is_booked(self, fact: GatewayFact) -> bool:
        return is_booked(self._connection, fact)

    def knows(self, payment: PaymentRef, currency: str) -> bool:
        return knows_payment(self._connection, payment, currency)

    def unfreeze(self, order_id: str, payment_id: str) -> bool:
        return unfreeze(self._connection, order_id, payment_id)

    def set_disputed(self, payment: PaymentRef, *, disputed: bool) -> str | None:
        return set_disputed(self._connection, payment, disputed=disputed)

    def take_cap(self, key: CapKey, *, posting: Posting, limit: int | None) -> bool:
        if key.currency != posting.currency:
            raise InvalidInput("currency", f"cannot count {posting.currency} as {key.currency}")
        account = cap_account(key)
        row = cap_row(account)
        insert_new(self._connection, CAPS, {**row, "used_minor": 0})
        here = {f"of_{column}": value for column, value in row.items()}
        count = _COUNT if limit is None else _COUNT_WITHIN
        parameters = {**here, "amount": posting.amount_minor, "most": limit}
        if count.run(self._connection, parameters) != 1:
            return False
        moves = {account: Amount(posting.amount_minor)}
        write_entries(self._connection, LedgerKind.RESERVE, moves, posting=posting)
        return True

    def give_back_caps(self, posting: Posting) -> None:
        held = open_reserve(self._connection, posting.request_id)
        counted = {account: amount for account, amount in held.items() if _is_cap(account)}
        for account, amount in counted.items():
            self._uncount(account, amount, request_id=posting.request_id)
        write_entries(self._connection, LedgerKind.RELEASE, counted, posting=posting)

    def cap_used(self, key: CapKey, *, since: date) -> int:
        used = self._connection.scalar(
            sa.select(sa.func.coalesce(sa.func.sum(CAPS.c.used_minor), 0)).where(
                CAPS.c.scope == key.scope,
                CAPS.c.subject == key.subject,
                CAPS.c.currency == key.currency,
                CAPS.c.day.between(since.isoformat(), key.day.isoformat()),
            )
        )
        return int(used or 0)

    def check(self) -> tuple[Mismatch, ...]:
        return find_mismatches(self._connection)

    def totals(self) -> tuple[BookTotal, ...]:
        return book_totals(self._connection)

    def _hold(self, account: Account, amount: Amount, *, currency: str) -> int | None:
        """Reserve on one row; what is reserved and refunded there now, or None without room."""
        parameters = {**_moved(account, amount), "currency_": currency}
        taken: int | None = _HOLD[account.kind].value(self._connection, parameters)
        return taken

    def _unhold(self, posting: Posting, kind: LedgerKind) -> dict[Account, Amount]:
        """Take the reserve off its rows, for SETTLE into refunded; what was moved.

        Raises:
            ReserveMissing: the request does not hold exactly what the posting moves.
        """
        moves = accounts_of(posting)
        for account, amount in moves.items():
            self._unreserve(account, amount, kind=kind, request_id=posting.request_id)
        # Read after the rows are locked, so that two of these cannot both see the same reserve.
        if not self.holds(posting):
            raise ReserveMissing(posting.request_id, account=f"order {posting.order_id}")
        return moves

    def _unreserve(
        self, account: Account, amount: Amount, *, kind: LedgerKind, request_id: str
    ) -> None:
        statement = (_RELEASE if kind is LedgerKind.RELEASE else _SETTLE)[account.kind]
        if statement.run(self._connection, _moved(account, amount)) != 1:
            raise ReserveMissing(request_id, account=str(account))

    def _unrefund(self, account: Account, amount: Amount, *, request_id: str) -> None:
        if _UNREFUND[account.kind].run(self._connection, _moved(account, amount)) != 1:
            raise ReserveMissing(request_id, account=str(account))

    def _uncount(self, account: Account, amount: Amount, *, request_id: str) -> None:
        counted = self._connection.execute(
            sa.update(CAPS)
            .where(_matches(CAPS, cap_row(account)), CAPS.c.used_minor >= amount.minor)
            .values(used_minor=CAPS.c.used_minor - amount.minor)
        )
        if counted.rowcount != 1:
            raise ReserveMissing(request_id, account=str(account))


@contextmanager
def _savepoint(connection: sa.Connection, seen: Seen) -> Iterator[Callable[[], None]]:
    """Gives what undoes all that is written inside; an error does it, too."""

    def undo() -> None:
        driven(connection, "ROLLBACK TO SAVEPOINT reserving")
        seen.forget()

    driven(connection, "SAVEPOINT reserving")
    try:
        yield undo
    except BaseException:
        with suppress(SQLAlchemyError):  # the connection is lost, and all of it with it
            undo()
        raise
    driven(connection, "RELEASE SAVEPOINT reserving")


def _check_sum(posting: Posting) -> None:
    parts = sum(line.amount_minor for line in posting.lines)
    if posting.amount_minor <= 0:
        raise InvalidInput("amount", f"must be above zero, not {posting.amount_minor}")
    if parts != posting.amount_minor:
        raise InvalidInput("lines", f"add up to {parts}, not to {posting.amount_minor}")


def _is_cap(account: Account) -> bool:
    return account.kind is AccountKind.CAP


def _matches(table: sa.Table, key: dict[str, str]) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[column] == value for column, value in key.items()))


def _moved(account: Account, amount: Amount) -> dict[str, object]:
    return {
        "of": account.account_id,
        "sub": account.sub_id,
        "minor": amount.minor,
        "units": amount.units,
    }

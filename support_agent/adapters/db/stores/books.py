"""Balances and the ledger behind the `Books` port: a counter never changes without its entry."""

from datetime import date

import sqlalchemy as sa

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

# Built once: putting them together costs more than running them.
_USED = CAPS.c.used_minor + sa.bindparam("amount")
_COUNT = (
    sa.update(CAPS)
    .where(*(key == sa.bindparam(f"of_{key.name}") for key in CAPS.primary_key))
    .values(used_minor=_USED)
)
_COUNT_WITHIN = _COUNT.where(sa.bindparam("most") >= _USED)


class SqlBooks:
    """Rows are taken order -> lines -> payment, each by one conditional update."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def sync(self, order: Order) -> None:
        sync_order(self._connection, order)

    def of_order(self, order_id: str, *, without_request: str | None = None) -> OrderBooks:
        return read_order(self._connection, order_id, without_request=without_request)

    def reserve(self, posting: Posting) -> int | Shortage:
        _check_sum(posting)
        moves = accounts_of(posting)
        # A savepoint, so that a shortage on a later row leaves nothing of the earlier ones.
        with self._connection.begin_nested() as savepoint:
            held: list[int] = []
            for account, amount in moves.items():
                taken = self._hold(account, amount, currency=posting.currency)
                if taken is None:
                    savepoint.rollback()
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
        counted = self._connection.execute(
            _COUNT if limit is None else _COUNT_WITHIN,
            {**here, "amount": posting.amount_minor} | ({} if limit is None else {"most": limit}),
        )
        if counted.rowcount != 1:
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
        table = _TABLES[account.kind]
        values = {"reserved_minor": table.c.reserved_minor + amount.minor}
        if account.kind is AccountKind.LINE:
            values["reserved_units"] = table.c.reserved_units + amount.units
        taken: int | None = self._connection.scalar(
            sa.update(table)
            .where(_row(account), *_room(account.kind, amount, currency))
            .values(values)
            .returning(table.c.reserved_minor + table.c.refunded_minor)
        )
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
        table = _TABLES[account.kind]
        settled = 0 if kind is LedgerKind.RELEASE else 1
        values = {
            "reserved_minor": table.c.reserved_minor - amount.minor,
            "refunded_minor": table.c.refunded_minor + amount.minor * settled,
        }
        there = [table.c.reserved_minor >= amount.minor]
        if account.kind is AccountKind.LINE:
            values["reserved_units"] = table.c.reserved_units - amount.units
            values["refunded_units"] = table.c.refunded_units + amount.units * settled
            there.append(table.c.reserved_units >= amount.units)
        moved = self._connection.execute(
            sa.update(table).where(_row(account), *there).values(values)
        )
        if moved.rowcount != 1:
            raise ReserveMissing(request_id, account=str(account))

    def _unrefund(self, account: Account, amount: Amount, *, request_id: str) -> None:
        table = _TABLES[account.kind]
        values = {"refunded_minor": table.c.refunded_minor - amount.minor}
        there = [table.c.refunded_minor >= amount.minor]
        if account.kind is AccountKind.LINE:
            values["refunded_units"] = table.c.refunded_units - amount.units
            there.append(table.c.refunded_units >= amount.units)
        moved = self._connection.execute(
            sa.update(table).where(_row(account), *there).values(values)
        )
        if moved.rowcount != 1:
            raise ReserveMissing(request_id, account=str(account))

    def _uncount(self, account: Account, amount: Amount, *, request_id: str) -> None:
        counted = self._connection.execute(
            sa.update(CAPS)
            .where(_matches(CAPS, cap_row(account)), CAPS.c.used_minor >= amount.minor)
            .values(used_minor=CAPS.c.used_minor - amount.minor)
        )
        if counted.rowcount != 1:
            raise ReserveMissing(request_id, account=str(account))


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


def _row(account: Account) -> sa.ColumnElement[bool]:
    table = _TABLES[account.kind]
    key = {"order_id": account.account_id}
    if account.kind is AccountKind.LINE:
        key["line_id"] = account.sub_id
    if account.kind is AccountKind.PAYMENT:
        key["payment_id"] = account.sub_id
    return _matches(table, key)


def _room(kind: AccountKind, amount: Amount, currency: str) -> list[sa.ColumnElement[bool]]:
    """When a row may be reserved on. `overdrawn` gives no room: it is what went too far already."""
    columns = _TABLES[kind].c
    taken = columns.reserved_minor + columns.refunded_minor + amount.minor
    if kind is AccountKind.LINE:
        units = columns.reserved_units + columns.refunded_units + amount.units
        return [taken <= columns.total_minor, units <= columns.quantity]
    if kind is AccountKind.ORDER:
        return [columns.currency == currency, taken <= columns.captured_minor]
    return [
        columns.currency == currency,
        taken + columns.charged_back_minor <= columns.captured_minor,
        sa.not_(columns.disputed),
        sa.not_(columns.disputed_at_gateway),
        sa.not_(columns.frozen),
    ]

"""The `ledger` gateway: refunds recorded in a book of its own, where no payment provider is."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, NoReturn, TypeVar

import sqlalchemy as sa

from support_agent.adapters.db.connections import Connections
from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.tables.books import PaymentBalance
from support_agent.adapters.db.tables.shop import LedgerPayout, ShopPayment
from support_agent.domain.errors import (
    DatabaseUnavailable,
    EventRefused,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)

T = TypeVar("T")

PAYMENTS = table_of(ShopPayment)
BOOKED = table_of(PaymentBalance)
PAYOUTS = table_of(LedgerPayout)
PAGE = 500


def _of_payment(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    names = ("gateway", "account", "gateway_payment_id")
    return tuple(table.c[name] == sa.bindparam(name) for name in names)


def _is_payment(table: sa.Table) -> sa.Select[Any]:
    named = (table.c[name] for name in ("account", "captured_minor", "currency", "disputed"))
    return sa.select(*named).where(*_of_payment(table))


_IS_PAYMENT, _IS_BOOKED = _is_payment(PAYMENTS), _is_payment(BOOKED)
_PAYMENT, _BOOKED = Prepared(_IS_PAYMENT), Prepared(_IS_BOOKED)
_LOCKED, _BOOKED_LOCKED = (
    Prepared(select.with_for_update()) for select in (_IS_PAYMENT, _IS_BOOKED)
)
_BY_KEY = Prepared(sa.select(PAYOUTS).where(PAYOUTS.c.key == sa.bindparam("of")))
_BY_ID = Prepared(
    sa.select(PAYOUTS).where(
        PAYOUTS.c.provider_refund_id == sa.bindparam("of"), *_of_payment(PAYOUTS)
    )
)
_REFUNDED = Prepared(sa.select(sa.func.sum(PAYOUTS.c.amount_minor)).where(*_of_payment(PAYOUTS)))


class LedgerGateway:
    """Each refund is one committed row, unique by key; nothing leaves the machine.

    What was captured is what the sample shop's table says. With `books_only` it may be a payment of
    a shop that is not ours: then it is what our books took over from the order.
    """

    name = "ledger"
    livemode = False

    def __init__(
        self, connections: Connections, *, books_only: bool = False, page: int = PAGE
    ) -> None:
        self._connections = connections
        self._page = page
        self.books_only = books_only

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        """Record the refund; see the port.

        Raises:
            IdempotencyMismatch: the key was used with other parameters; nothing was recorded.
            PaymentDeclined: `payment_unknown`, `payment_disputed`, `currency_mismatch`,
                `amount_invalid`, `amount_above_captured`.
        """

        def write(connection: sa.Connection) -> GatewayRefund:
            # The row is locked first, so that refunds of one payment are judged one by one.
            payment = self._payment(connection, instruction.payment, locked=True)
            return _refund(connection, instruction, payment)

        return await _answered(self._connections.run_write(write))

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        def read(connection: sa.Connection) -> GatewayRefund | None:
            row = _recorded(connection, instruction.key)
            return None if row is None else _told(row)

        return await _answered(self._connections.run_read(read))

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        def read(connection: sa.Connection) -> GatewayRefund | None:
            here = {"of": provider_refund_id, **_here(payment)}
            row = _BY_ID.first_named(connection, here)
            return None if row is None else _told(row)

        return await _answered(self._connections.run_read(read))

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        after = 0
        while True:
            rows = await _answered(self._connections.run_read(_page(since, after, self._page)))
            for row in rows:
                yield _told(row)
            if len(rows) < self._page:
                return
            after = rows[-1]["seq"]

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        """The payment as it was captured, less what this gateway paid back.

        Raises:
            PaymentDeclined: `payment_unknown`.
        """

        def read(connection: sa.Connection) -> PaymentState:
            row = _known(self._payment(connection, payment))
            return PaymentState(
                captured_minor=row["captured_minor"],
                refunded_minor=_refunded(connection, payment),
                disputed=row["disputed"],
                account=row["account"],
                livemode=self.livemode,
            )

        return await _answered(self._connections.run_read(read))

    def _payment(
        self, connection: sa.Connection, payment: PaymentRef, *, locked: bool = False
    ) -> Named | None:
        of_shop, of_books = (_LOCKED, _BOOKED_LOCKED) if locked else (_PAYMENT, _BOOKED)
        row = of_shop.first_named(connection, _here(payment))
        if row is None and self.books_only:
            row = of_books.first_named(connection, _here(payment))
        return row

    async def aclose(self) -> None:
        """Nothing to close: the connections are the database's."""


class LedgerEvents:
    """Where no provider is, nothing reports: whatever calls itself an event is refused."""

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> NoReturn:
        raise EventRefused("the ledger gateway has no provider that could send events")


async def _answered(work: Awaitable[T]) -> T:
    try:
        return await work
    except DatabaseUnavailable as error:
        raise PaymentOutcomeUnknown(f"the ledger did not answer: {error}") from error


def _refund(
    connection: sa.Connection, instruction: RefundInstruction, payment: Named | None
) -> GatewayRefund:
    row = _recorded(connection, instruction.key)
    if row is None:
        _check(connection, instruction, _known(payment))
        insert_new(connection, PAYOUTS, _new(instruction), on=("key",))
        # Another payment's refund may have taken the key meanwhile: what is recorded counts.
        row = _recorded(connection, instruction.key)
    if row is None or any(row[name] != value for name, value in asdict(instruction).items()):
        raise IdempotencyMismatch(
            f"the key {instruction.key!r} was used with other parameters; nothing was paid"
        )
    return _told(row)


def _check(connection: sa.Connection, instruction: RefundInstruction, payment: Named) -> None:
    refunded = _refunded(connection, instruction.payment)
    rules = (
        (payment["disputed"], "payment_disputed"),
        (payment["currency"] != instruction.currency, "currency_mismatch"),
        (instruction.amount_minor <= 0, "amount_invalid"),
        (refunded + instruction.amount_minor > payment["captured_minor"], "amount_above_captured"),
    )
    for broken, code in rules:
        if broken:
            raise PaymentDeclined(code)


def _known(payment: Named | None) -> Named:
    if payment is None:
        raise PaymentDeclined("payment_unknown")
    return payment


def _here(payment: PaymentRef) -> dict[str, str]:
    return {
        "gateway": payment.gateway,
        "account": payment.account,
        "gateway_payment_id": payment.gateway_payment_id,
    }


def _refunded(connection: sa.Connection, payment: PaymentRef) -> int:
    return int(_REFUNDED.value(connection, _here(payment)) or 0)


def _page(
    since: datetime, after: int, size: int
) -> Callable[[sa.Connection], Sequence[sa.RowMapping]]:
    def read(connection: sa.Connection) -> Sequence[sa.RowMapping]:
        found = (
            sa.select(PAYOUTS)
            .where(PAYOUTS.c.recorded_at >= since, PAYOUTS.c.seq > after)
            .order_by(PAYOUTS.c.seq)
            .limit(size)
        )
        return connection.execute(found).mappings().all()

    return read


def _recorded(connection: sa.Connection, key: str) -> Named | None:
    return _BY_KEY.first_named(connection, {"of": key})


def _new(instruction: RefundInstruction) -> dict[str, object]:
    # Made from the key, so that the same refund has the same id wherever it is looked at.
    digest = hashlib.sha256(instruction.key.encode()).hexdigest()
    return {**asdict(instruction), "provider_refund_id": f"ledger_{digest[:24]}"}


def _told(row: Named) -> GatewayRefund:
    return GatewayRefund(
        provider_refund_id=row["provider_refund_id"],
        key=row["key"],
        payment=PaymentRef(
            gateway=row["gateway"],
            account=row["account"],
            gateway_payment_id=row["gateway_payment_id"],
        ),
        status=GatewayStatus.SUCCEEDED,
        amount_minor=row["amount_minor"],
        currency=row["currency"],
    )

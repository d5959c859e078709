"""Balances and the ledger: every counter changes by a conditional update with its ledger entry."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol

from support_agent.domain.orders import Order
from support_agent.domain.policy import OrderBooks
from support_agent.domain.refunds import RefundLine
from support_agent.ports.payments import PaymentRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """What one request's entries are about. One request pays from one payment."""

    request_id: str
    round: int
    order_id: str
    payment_id: str
    lines: tuple[RefundLine, ...]
    amount_minor: int
    currency: str
    at: datetime


class FactKind(StrEnum):
    """What a gateway did on its own."""

    EXTERNAL = "EXTERNAL"  # refunded outside
    EXTERNAL_FAILED = "REVERSE"  # and it failed after all: takes back exactly what was booked
    CHARGEBACK = "CHARGEBACK"
    CHARGEBACK_REVERSED = "CHARGEBACK_REVERSED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFact:
    """Money that moved at the gateway and that no request of ours explains."""

    kind: FactKind
    payment: PaymentRef
    reference: str  # the gateway's own id of it: the idempotency key of booking
    amount_minor: int
    currency: str
    at: datetime
    freezes: bool = False  # nothing may be reserved on the payment until a person looked


@dataclass(frozen=True, slots=True, kw_only=True)
class FactBooked:
    """Where a fact went; `overdrawn_minor` is what did not fit, and the payment is frozen then."""

    order_id: str
    payment_id: str
    overdrawn_minor: int


class Shortage(StrEnum):
    """Which account had no room for a reserve."""

    ORDER = "order"
    LINE = "line"
    PAYMENT = "payment"


class CapScope(StrEnum):
    CUSTOMER = "customer"
    INSTALLATION = "installation"
    APPROVER = "approver"
    PAIR = "pair"  # one approver for one customer


@dataclass(frozen=True, slots=True, kw_only=True)
class CapKey:
    """One counter: whose amounts of which business day, in which currency."""

    scope: CapScope
    subject: str
    day: date
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A counter that is not the sum of its ledger entries."""

    account: str
    counter: str
    stored: int
    ledger: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BookTotal:
    """What the payments of one currency add up to, in minor units, and how many entries made it."""

    currency: str
    captured_minor: int
    reserved_minor: int
    refunded_minor: int
    charged_back_minor: int
    entries: int


class Books(Protocol):
    """Rows are taken in the order order -> lines -> payment, by every caller.

    Caps come after the request's row, unless the request is only being made.
    A guard that fails changes nothing itself; the caller raises and the transaction is undone.
    """

    def sync(self, order: Order) -> None:
        """Create or raise our rows from what the shop says; never lowers anything."""
        ...

    def of_order(self, order_id: str, *, without_request: str | None = None) -> OrderBooks:
        """The order's books; `without_request` leaves out that request's own open reserve."""
        ...

    def reserve(self, posting: Posting) -> int | Shortage:
        """Hold the amount on order, lines and payment.

        Returns:
            The order's cumulative amount (reserved + refunded, this one included) in minor units,
            as the conditional update returned it, or which account was short.

        Raises:
            ReserveMissing: a later round of a request that holds its reserve already.
        """
        ...

    def holds(self, posting: Posting) -> bool:
        """Whether exactly this is reserved for the request, as one look at the ledger shows."""
        ...

    def release(self, posting: Posting) -> None:
        """Give the reserve back; what it counted into caps goes by `give_back_caps`."""
        ...

    def settle(self, posting: Posting, *, by_hand: bool = False) -> None:
        """Turn the reserve into refunded; `by_hand` books it as MANUAL."""
        ...

    def reverse(self, posting: Posting) -> None:
        """Take what was refunded off again: the gateway says that it failed after all."""
        ...

    def book_fact(self, fact: GatewayFact) -> FactBooked | None:
        """Book what a gateway did without us; never refused, and once a reference.

        What does not fit becomes `overdrawn` and freezes the payment. CHARGEBACK_REVERSED takes
        exactly that off again which the CHARGEBACK of its reference booked.

        Returns:
            What came of it; None when the reference was booked before, when our books do not know
            the payment in this currency, or when there is no such chargeback to reverse.
        """
        ...

    def is_booked(self, fact: GatewayFact) -> bool:
        """Whether a fact of this kind and reference is in the books."""
        ...

    def knows(self, payment: PaymentRef, currency: str) -> bool:
        """Whether we keep books of this payment, in this currency."""
        ...

    def unfreeze(self, order_id: str, payment_id: str) -> bool:
        """Let a payment be refunded again; False when it is unknown, or was not frozen."""
        ...

    def set_disputed(self, payment: PaymentRef, *, disputed: bool) -> str | None:
        """Note a dispute's beginning or end; the order's id, None for a payment we do not know.

        This is the gateway's word: what the shop says of disputes (`sync`) stands beside it.
        """
        ...

    def take_cap(self, key: CapKey, *, posting: Posting, limit: int | None) -> bool:
        """Count the posting's amount into the cap unless it would go over `limit` (None: never)."""
        ...

    def give_back_caps(self, posting: Posting) -> None:
        """Take what this request counted into caps off them again; twice is once."""
        ...

    def cap_used(self, key: CapKey, *, since: date) -> int:
        """What was counted from `since` to the key's day, both included, in minor units."""
        ...

    def check(self) -> tuple[Mismatch, ...]:
        """Every counter that differs from the sum of its entries; empty is good."""
        ...

    def totals(self) -> tuple[BookTotal, ...]:
        """Sums over the payments we keep books of, by currency."""
        ...

"""Our books: what may still go of an order, its lines and payments, and the ledger behind it."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint, Index, UniqueConstraint
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import not_negative, one_of
from support_agent.adapters.db.types import (
    BOOKS,
    Table,
    flag,
    instant,
    minor,
    sequence_key,
    text,
)
from support_agent.domain.refunds import LedgerKind
from support_agent.ports.storage.books import CapScope


class AccountKind(StrEnum):
    """Whose counters a ledger entry moves."""

    ORDER = "order"
    LINE = "line"
    PAYMENT = "payment"
    CAP = "cap"


class OrderBalance(Table, table=True):
    """What is reserved and refunded of an order; captured is the sum over its payments."""

    __tablename__ = "order_balances"
    __table_args__ = (
        *not_negative("captured_minor", "reserved_minor", "refunded_minor", "overdrawn_minor"),
        CheckConstraint(
            "reserved_minor + refunded_minor <= captured_minor + overdrawn_minor", name="room"
        ),
    )

    order_id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    customer_id: str = Field(sa_column=text(info=BOOKS))
    currency: str = Field(sa_column=text(info=BOOKS))
    captured_minor: int = Field(sa_column=minor())
    reserved_minor: int = Field(sa_column=minor())
    refunded_minor: int = Field(sa_column=minor())
    overdrawn_minor: int = Field(sa_column=minor())


class LineBalance(Table, table=True):
    """What is reserved and refunded of an order line, in money and in whole units."""

    __tablename__ = "line_balances"
    __table_args__ = (
        *not_negative(
            "total_minor",
            "quantity",
            "reserved_minor",
            "refunded_minor",
            "reserved_units",
            "refunded_units",
        ),
        CheckConstraint("reserved_minor + refunded_minor <= total_minor", name="room"),
        CheckConstraint("reserved_units + refunded_units <= quantity", name="units"),
    )

    order_id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    line_id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    total_minor: int = Field(sa_column=minor())
    quantity: int
    reserved_minor: int = Field(sa_column=minor())
    refunded_minor: int = Field(sa_column=minor())
    reserved_units: int
    refunded_units: int


class PaymentBalance(Table, table=True):
    """What is gone of a payment. Shops number payments within an order, so both ids are the key."""

    __tablename__ = "payment_balances"
    __table_args__ = (
        UniqueConstraint(
            "gateway", "account", "gateway_payment_id", name="uq_payment_balances_gateway_payment"
        ),
        *not_negative(
            "captured_minor",
            "reserved_minor",
            "refunded_minor",
            "charged_back_minor",
            "overdrawn_minor",
        ),
        CheckConstraint(
            "reserved_minor + refunded_minor + charged_back_minor"
            " <= captured_minor + overdrawn_minor",
            name="room",
        ),
    )

    order_id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    payment_id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    gateway: str = Field(sa_column=text(info=BOOKS))
    account: str = Field(sa_column=text(info=BOOKS))
    gateway_payment_id: str = Field(sa_column=text(info=BOOKS))
    method: str = Field(sa_column=text(info=BOOKS))
    currency: str = Field(sa_column=text(info=BOOKS))
    captured_minor: int = Field(sa_column=minor())
    reserved_minor: int = Field(sa_column=minor())
    refunded_minor: int = Field(sa_column=minor())
    charged_back_minor: int = Field(sa_column=minor())
    overdrawn_minor: int = Field(sa_column=minor())
    disputed: bool  # the shop's word
    frozen: bool
    disputed_at_gateway: bool = Field(sa_column=flag())  # the gateway's


class CapCounter(Table, table=True):
    """How much was counted on one business day (ISO date) against one subject's cap."""

    __tablename__ = "cap_counters"
    __table_args__ = (one_of("scope", CapScope), *not_negative("used_minor"))

    scope: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    subject: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    day: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    currency: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    used_minor: int = Field(sa_column=minor())


class LedgerEntry(Table, table=True):
    """One movement on one account, insert-only. The kind says which counters it moves and how.

    `account_id` is the order's id and `sub_id` the line's or payment's (empty for the order
    itself); for a cap they are `scope:subject` and `day/currency`.
    """

    __tablename__ = "ledger_entries"
    __table_args__ = (
        UniqueConstraint(
            "request_id",
            "round",
            "kind",
            "account_kind",
            "account_id",
            "sub_id",
            name="uq_ledger_entries_posting",
        ),
        one_of("kind", LedgerKind),
        one_of("account_kind", AccountKind),
        *not_negative("amount_minor", "units"),
        Index("ix_ledger_entries_account", "account_id", "sub_id"),
    )

    seq: int | None = Field(default=None, sa_column=sequence_key())
    kind: str = Field(sa_column=text(info=BOOKS))
    account_kind: str = Field(sa_column=text(info=BOOKS))
    account_id: str = Field(sa_column=text(info=BOOKS))
    sub_id: str = Field(sa_column=text(info=BOOKS))
    request_id: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    round: int
    amount_minor: int = Field(sa_column=minor())
    units: int
    currency: str = Field(sa_column=text(info=BOOKS))
    at: datetime = Field(sa_column=instant())

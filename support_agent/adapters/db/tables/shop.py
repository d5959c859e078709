"""The sample shop and the ledger gateway's own book: foreign systems that live in our database."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy import text as sql
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import not_negative, one_of, positive
from support_agent.adapters.db.types import (
    BOOKS,
    PERSONAL,
    TECHNICAL,
    Table,
    UtcDateTime,
    instant,
    json_column,
    minor,
    sequence_key,
    text,
)
from support_agent.domain.orders import PaymentMethod

_ONE_DELIVERY = "delivered_at IS NULL OR delivered_on IS NULL"


def _order_id() -> Column[str]:
    return Column(Text, ForeignKey("shop_orders.id"), primary_key=True, info=TECHNICAL)


class ShopCustomer(Table, table=True):
    __tablename__ = "shop_customers"

    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    name: str = Field(sa_column=text(info=PERSONAL))
    language: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))


class ShopOrder(Table, table=True):
    """An order. `status` is the shop's own word; one we do not know is read as UNKNOWN."""

    __tablename__ = "shop_orders"
    __table_args__ = (
        CheckConstraint(_ONE_DELIVERY, name="delivery"),
        Index("ix_shop_orders_customer", "customer_id", "placed_at", "id"),
    )

    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    customer_id: str = Field(sa_column=text(info=TECHNICAL))
    status: str = Field(sa_column=text(info=TECHNICAL))
    currency: str = Field(sa_column=text(info=TECHNICAL))
    placed_at: datetime = Field(sa_column=instant())
    delivered_at: datetime | None = Field(sa_column=instant(nullable=True))
    delivered_on: date | None = None
    shipping_address: Any = Field(sa_column=json_column(info=PERSONAL, nullable=True))
    note: str | None = Field(sa_column=text(info=PERSONAL, nullable=True))
    promotion: Any = Field(sa_column=json_column(info=TECHNICAL, nullable=True))


class ShopOrderLine(Table, table=True):
    __tablename__ = "shop_order_lines"
    __table_args__ = (
        CheckConstraint(_ONE_DELIVERY, name="delivery"),
        *not_negative("quantity", "unit_price_minor", "discount_minor"),
    )

    order_id: str = Field(sa_column=_order_id())
    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    position: int
    name: str = Field(sa_column=text(info=TECHNICAL))
    quantity: int
    unit_price_minor: int = Field(sa_column=minor())
    discount_minor: int = Field(sa_column=minor())
    category: str = Field(sa_column=text(info=TECHNICAL))
    returnable: bool
    delivered_at: datetime | None = Field(sa_column=instant(nullable=True))
    delivered_on: date | None = None
    variant_id: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    options: Any = Field(sa_column=json_column(info=TECHNICAL))
    kind: str = Field(
        sa_column=Column(Text, nullable=False, server_default="goods", info=TECHNICAL)
    )
    received_units: int | None = None
    promotion_minor: int = Field(sa_column=minor())


class ShopPayment(Table, table=True):
    """Money the shop took; the ledger gateway reads here what was captured."""

    __tablename__ = "shop_payments"
    __table_args__ = (
        UniqueConstraint(
            "gateway", "account", "gateway_payment_id", name="uq_shop_payments_gateway_payment"
        ),
        one_of("method", PaymentMethod),
        *not_negative("captured_minor"),
    )

    order_id: str = Field(sa_column=_order_id())
    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    position: int
    gateway: str = Field(sa_column=text(info=TECHNICAL))
    account: str = Field(sa_column=text(info=TECHNICAL))
    gateway_payment_id: str = Field(sa_column=text(info=TECHNICAL))
    method: str = Field(sa_column=text(info=TECHNICAL))
    captured_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=TECHNICAL))
    disputed: bool


class LedgerPayout(Table, table=True):
    """A refund the ledger gateway made; `key` is its idempotency key, its time the database's."""

    __tablename__ = "ledger_payouts"
    __table_args__ = (
        UniqueConstraint("key"),
        positive("amount_minor"),
        Index("ix_ledger_payouts_payment", "gateway", "account", "gateway_payment_id"),
    )

    seq: int | None = Field(default=None, sa_column=sequence_key())
    provider_refund_id: str = Field(sa_column=text(info=BOOKS))
    key: str = Field(sa_column=text(info=BOOKS))
    request_id: str = Field(sa_column=text(info=BOOKS))
    gateway: str = Field(sa_column=text(info=BOOKS))
    account: str = Field(sa_column=text(info=BOOKS))
    gateway_payment_id: str = Field(sa_column=text(info=BOOKS))
    amount_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=BOOKS))
    recorded_at: datetime | None = Field(
        default=None,
        sa_column=Column(UtcDateTime, nullable=False, server_default=sql("CURRENT_TIMESTAMP")),
    )

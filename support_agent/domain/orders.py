"""What the shop knows of an order, as any orders backend hands it over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType


class OrderStatus(StrEnum):
    """Where an order stands. A backend that has another word maps it here or to UNKNOWN."""

    PLACED = "PLACED"  # not paid yet
    PAID = "PAID"  # not shipped yet
    SHIPPING = "SHIPPING"
    PARTIALLY_DELIVERED = "PARTIALLY_DELIVERED"
    DELIVERED = "DELIVERED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"  # fails closed: a person looks


class PaymentMethod(StrEnum):
    CARD = "CARD"
    WALLET = "WALLET"
    GIFT_CARD = "GIFT_CARD"
    COD = "COD"
    BANK_TRANSFER = "BANK_TRANSFER"


# No gateway can send this money back; a person pays it by hand and proves it.
PAID_BY_HAND = frozenset({PaymentMethod.COD, PaymentMethod.BANK_TRANSFER})


class LineKind(StrEnum):
    GOODS = "goods"
    SHIPPING = "shipping"  # once an order; refunded only where the policy says so


# Under this id our books keep what was captured beyond the order's total; no shop has such a line.
OVERPAID = "+overpaid"


def by_hand_id(order_id: str, payment_id: str) -> str:
    """Stands for a gateway's id where no gateway was: cash and transfers need one of their own.

    With the order id's length, as two pairs of ids may read alike when they are put together.
    """
    return f"+{len(order_id)}/{order_id}/{payment_id}"


# When something was delivered: an aware instant, or a local day where the source knows no hour.
Moment = datetime | date


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """A customer of the shop; `id` is compared byte for byte."""

    id: str
    name: str
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the order went; never shown to a model."""

    recipient: str
    phone: str
    street: str
    city: str
    country: str = "VN"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """One line. `total_minor` is what was paid for all its units after every discount's share."""

    id: str
    name: str
    quantity: int
    unit_price_minor: int
    discount_minor: int
    category: str
    kind: LineKind = LineKind.GOODS
    returnable: bool = True
    delivered_at: Moment | None = None
    received_units: int | None = None  # that came back to the shop; None: the shop does not count
    promotion_minor: int = 0  # the part of `discount_minor` that the order's promotion gave
    variant_id: str | None = None
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def total_minor(self) -> int:
        return self.unit_price_minor * self.quantity - self.discount_minor


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What was given because the order reached a threshold; lost when what is kept does not."""

    id: str
    threshold_minor: int
    gift_line_ids: tuple[str, ...] = ()  # lines that cost nothing because of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """Money taken for an order. (gateway, account, gateway_payment_id) is unique everywhere."""

    id: str
    gateway: str
    account: str
    gateway_payment_id: str
    method: PaymentMethod
    captured_minor: int
    currency: str
    disputed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """An order as its system of record tells it now.

    `delivered_at` is the order's; a line's own wins where it has one.
    """

    id: str
    customer_id: str
    status: OrderStatus
    currency: str
    placed_at: datetime
    lines: tuple[OrderLine, ...]
    payments: tuple[Payment, ...]
    delivered_at: Moment | None = None
    shipping_address: Address | None = None
    note: str | None = None
    promotion: Promotion | None = None

    @property
    def total_minor(self) -> int:
        return sum(line.total_minor for line in self.lines)

    @property
    def overpaid_minor(self) -> int:
        """What was captured beyond the lines, say by an accidental second payment."""
        captured = sum(p.captured_minor for p in self.payments if p.currency == self.currency)
        return max(0, captured - self.total_minor)

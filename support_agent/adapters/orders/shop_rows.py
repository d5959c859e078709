"""How the sample shop's orders stand in its tables."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any

from support_agent.adapters.db.prepared import Named
from support_agent.domain.orders import (
    Address,
    LineKind,
    Moment,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
    Promotion,
)


def order_row(order: Order) -> dict[str, Any]:
    """The order's own row."""
    address, promotion = order.shipping_address, order.promotion
    return {
        "id": order.id,
        "customer_id": order.customer_id,
        "status": order.status,
        "currency": order.currency,
        "placed_at": order.placed_at,
        **_delivery(order.delivered_at),
        "shipping_address": None if address is None else asdict(address),
        "note": order.note,
        "promotion": None if promotion is None else asdict(promotion),
    }


def line_rows(order: Order) -> list[dict[str, Any]]:
    """One row a line, numbered as the order lists them."""
    return [
        {
            "order_id": order.id,
            "id": line.id,
            "position": position,
            "name": line.name,
            "quantity": line.quantity,
            "unit_price_minor": line.unit_price_minor,
            "discount_minor": line.discount_minor,
            "category": line.category,
            "returnable": line.returnable,
            **_delivery(line.delivered_at),
            "variant_id": line.variant_id,
            "options": dict(line.options),
            "kind": line.kind,
            "received_units": line.received_units,
            "promotion_minor": line.promotion_minor,
        }
        for position, line in enumerate(order.lines)
    ]


def payment_rows(order: Order) -> list[dict[str, Any]]:
    """One row a payment, numbered as the order lists them."""
    return [
        {
            "order_id": order.id,
            "id": payment.id,
            "position": position,
            "gateway": payment.gateway,
            "account": payment.account,
            "gateway_payment_id": payment.gateway_payment_id,
            "method": payment.method,
            "captured_minor": payment.captured_minor,
            "currency": payment.currency,
            "disputed": payment.disputed,
        }
        for position, payment in enumerate(order.payments)
    ]


def to_order(row: Named, lines: Sequence[Named], payments: Sequence[Named]) -> Order:
    """The order again, from its rows in order of position."""
    address = row["shipping_address"]
    return Order(
        id=row["id"],
        customer_id=row["customer_id"],
        status=_status(row["status"]),
        currency=row["currency"],
        placed_at=row["placed_at"],
        lines=tuple(_line(line) for line in lines),
        payments=tuple(_payment(payment) for payment in payments),
        delivered_at=_delivered(row),
        shipping_address=None if address is None else Address(**address),
        note=row["note"],
        promotion=_promotion(row["promotion"]),
    )


def _promotion(told: dict[str, Any] | None) -> Promotion | None:
    if told is None:
        return None
    return Promotion(**{**told, "gift_line_ids": tuple(told["gift_line_ids"])})


def _delivery(moment: Moment | None) -> dict[str, Any]:
    """An instant and a mere day are kept apart: a day has no hour to compare."""
    is_instant = isinstance(moment, datetime)
    return {
        "delivered_at": moment if is_instant else None,
        "delivered_on": None if is_instant else moment,
    }


def _delivered(row: Named) -> Moment | None:
    moment: Moment | None = row["delivered_on"]
    return moment if row["delivered_at"] is None else row["delivered_at"]


def _status(word: str) -> OrderStatus:
    try:
        return OrderStatus(word)
    except ValueError:
        return OrderStatus.UNKNOWN


def _line(row: Named) -> OrderLine:
    return OrderLine(
        id=row["id"],
        name=row["name"],
        quantity=row["quantity"],
        unit_price_minor=row["unit_price_minor"],
        discount_minor=row["discount_minor"],
        category=row["category"],
        returnable=row["returnable"],
        delivered_at=_delivered(row),
        variant_id=row["variant_id"],
        options=MappingProxyType(row["options"]),
        kind=LineKind(row["kind"]),
        received_units=row["received_units"],
        promotion_minor=row["promotion_minor"],
    )


def _payment(row: Named) -> Payment:
    return Payment(
        id=row["id"],
        gateway=row["gateway"],
        account=row["account"],
        gateway_payment_id=row["gateway_payment_id"],
        method=PaymentMethod(row["method"]),
        captured_minor=row["captured_minor"],
        currency=row["currency"],
        disputed=row["disputed"],
    )

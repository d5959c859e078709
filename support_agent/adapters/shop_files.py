"""Reads the sample shop from YAML; a mistake in a file is named, not guessed."""

import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from support_agent.adapters.file_entries import (
    Amount,
    Currency,
    Entry,
    FileEntry,
    Id,
    Instant,
    Limit,
    Text,
    canonical,
    instant,
    validated,
)
from support_agent.adapters.strict_yaml import read_yaml
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.orders import (
    Address,
    Customer,
    LineKind,
    Moment,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
    Promotion,
)
from support_agent.domain.people import Approver


def load_customers(shop: Path) -> tuple[Customer, ...]:
    """The customers of `customers.yaml`."""
    path = shop / "customers.yaml"
    customers = tuple(entry.to_domain() for entry in _entries(path, _CustomerEntry, "id"))
    _unique(path, "id", (customer.id for customer in customers))
    return customers


def load_orders(shop: Path) -> tuple[Order, ...]:
    """The orders of `orders.yaml`, each of a customer of `customers.yaml`."""
    path = shop / "orders.yaml"
    orders = tuple(entry.to_domain() for entry in _entries(path, _OrderEntry, "id"))
    lines = [line for order in orders for line in order.lines]
    payments = [payment for order in orders for payment in order.payments]
    _unique(path, "id", (order.id for order in orders))
    _unique(path, "lines.id", (line.id for line in lines))
    _unique(path, "payments.id", (payment.id for payment in payments))
    _unique(
        path,
        "payments.gateway, account, gateway_payment_id",
        ((payment.gateway, payment.account, payment.gateway_payment_id) for payment in payments),
    )
    _known_customers(path, shop, (order.customer_id for order in orders))
    return orders


def load_approvers(shop: Path) -> tuple[Approver, ...]:
    """The approvers of `approvers.yaml`, linked to accounts of `customers.yaml` only."""
    path = shop / "approvers.yaml"
    approvers = tuple(entry.to_domain() for entry in _entries(path, _ApproverEntry, "name"))
    _unique(path, "name", (approver.name for approver in approvers))
    _known_customers(path, shop, (id_ for approver in approvers for id_ in approver.customer_ids))
    return approvers


def _entries(path: Path, model: type[Entry], key: str) -> list[Entry]:
    items = read_yaml(path)
    if not isinstance(items, list):
        raise ConfigurationError("must be a list; start each entry with '- '", setting=path.name)
    entries = []
    for number, item in enumerate(items, start=1):
        name = item.get(key) if isinstance(item, dict) else None
        source = f"{path.name}: entry {number}" + (f" ({name!r})" if name else "")
        entries.append(validated(model, canonical(item, source), source))
    return entries


def _unique(path: Path, field: str, values: Iterable[object]) -> None:
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise ConfigurationError(f"{field} {value!r} is there twice", setting=path.name)
        seen.add(value)


def _known_customers(path: Path, shop: Path, ids: Iterable[str]) -> None:
    known = {customer.id for customer in load_customers(shop)}
    for unknown in sorted(set(ids) - known):
        problem = f"customer {unknown!r} is not in customers.yaml; add it there or correct the id"
        raise ConfigurationError(problem, setting=path.name)


def _moment(value: object) -> Moment | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return date.fromisoformat(value)  # the source knows the day only
    return instant(value)


MaybeMoment = Annotated[Moment | None, PlainValidator(_moment)]


class _CustomerEntry(FileEntry):
    id: Id
    name: Text
    language: Literal["vi", "en"] | None = None

    def to_domain(self) -> Customer:
        return Customer(id=self.id, name=self.name, language=self.language)


class _AddressEntry(FileEntry):
    recipient: Text
    phone: Text
    street: Text
    city: Text
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "VN"


class _LineEntry(FileEntry):
    id: Id
    name: Text
    quantity: Annotated[int, Field(ge=1, le=10_000)]
    unit_price_minor: Amount
    discount_minor: Amount = 0
    category: Text
    kind: LineKind = LineKind.GOODS
    returnable: bool = True
    delivered_at: MaybeMoment = None
    received_units: Annotated[int, Field(ge=0)] | None = None
    promotion_minor: Amount = 0
    variant_id: Id | None = None
    options: dict[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _discount_fits(self) -> Self:
        if self.discount_minor > self.unit_price_minor * self.quantity:
            raise ValueError("discount_minor is above the price of all units; lower it")
        if self.promotion_minor > self.discount_minor:
            raise ValueError("promotion_minor is a part of discount_minor and cannot be above it")
        return self

    @model_validator(mode="after")
    def _return_fits(self) -> Self:
        if self.received_units is not None and self.received_units > self.quantity:
            raise ValueError(
                "received_units is above quantity: no more can come back than was sold"
            )
        return self

    def to_domain(self) -> OrderLine:
        fields = self.model_dump() | {"options": MappingProxyType(dict(self.options))}
        return OrderLine(**fields)


class _PromotionEntry(FileEntry):
    id: Id
    threshold_minor: Limit
    gift_line_ids: tuple[Id, ...] = ()


class _PaymentEntry(FileEntry):
    id: Id
    gateway: Id
    account: Id
    gateway_payment_id: Id
    method: PaymentMethod
    captured_minor: Amount
    currency: Currency
    disputed: bool = False

    def to_domain(self) -> Payment:
        return Payment(**self.model_dump())


class _OrderEntry(FileEntry):
    id: Id
    customer_id: Id
    status: OrderStatus
    currency: Currency
    placed_at: Instant
    delivered_at: MaybeMoment = None
    lines: Annotated[tuple[_LineEntry, ...], Field(min_length=1)]
    payments: tuple[_PaymentEntry, ...]
    shipping_address: _AddressEntry | None = None
    note: Text | None = None
    promotion: _PromotionEntry | None = None

    @model_validator(mode="after")
    def _lines_agree(self) -> Self:
        if sum(line.kind is LineKind.SHIPPING for line in self.lines) > 1:
            raise ValueError("lines: shipping is one line an order; add its amounts up")
        if self.promotion is None:
            if any(line.promotion_minor for line in self.lines):
                raise ValueError("promotion is missing, but a line has promotion_minor; add it")
            return self
        goods = {line.id for line in self.lines if line.kind is LineKind.GOODS}
        if unknown := sorted(set(self.promotion.gift_line_ids) - goods):
            raise ValueError(
                f"promotion.gift_line_ids: {unknown[0]!r} is no goods line of the order"
            )
        return self

    def to_domain(self) -> Order:
        address, promotion = self.shipping_address, self.promotion
        return Order(
            id=self.id,
            customer_id=self.customer_id,
            status=self.status,
            currency=self.currency,
            placed_at=self.placed_at,
            delivered_at=self.delivered_at,
            lines=tuple(line.to_domain() for line in self.lines),
            payments=tuple(payment.to_domain() for payment in self.payments),
            shipping_address=Address(**address.model_dump()) if address else None,
            note=self.note,
            promotion=Promotion(**promotion.model_dump()) if promotion else None,
        )


class _ApproverEntry(FileEntry):
    name: Id
    person_id: Id
    level: Annotated[int, Field(ge=1, le=9)]
    limits: dict[Currency, Amount]
    customer_ids: frozenset[Id] = frozenset()
    disabled: bool = False

    def to_domain(self) -> Approver:
        fields = self.model_dump() | {"limits": MappingProxyType(dict(self.limits))}
        return Approver(**fields)

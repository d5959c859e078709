"""An order out of the shop's rows, whole and exact, or the reason why it cannot be used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from support_agent.adapters.orders.mapped import values
from support_agent.adapters.orders.mapped.selecting import MOST_LINES, MOST_PAYMENTS, Row
from support_agent.adapters.orders.mapped.shape import OrdersMap
from support_agent.adapters.orders.mapped.uses import constants_of, option_label, uses_of
from support_agent.adapters.orders.mapped.values import MoneyReader, Unusable
from support_agent.domain.money import EXPONENTS, MAX_MINOR, spread
from support_agent.domain.orders import (
    OVERPAID,
    PAID_BY_HAND,
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
    by_hand_id,
)

T = TypeVar("T")
SHIPPING = "+shipping"  # the line that stands for a column; no shop has such a line
LANGUAGES = frozenset({"vi", "en"})


class OrderReader:
    """Reads rows as the map says. What it cannot read exactly raises `Unusable`."""

    def __init__(self, shape: OrdersMap) -> None:
        self._shape = shape
        self._zone = ZoneInfo(shape.time_zone)
        self._money = MoneyReader(shape.money.unit, shape.money.scale)
        address = shape.orders.address
        self._sections = {
            "customers": _Section(shape, "customers", constants_of(shape.customers.columns)),
            "orders": _Section(
                shape,
                "orders",
                {
                    **constants_of(shape.orders.columns),
                    **({} if address is None else constants_of(address, "address_")),
                },
            ),
            "lines": _Section(shape, "lines", constants_of(shape.lines.columns)),
            "payments": _Section(shape, "payments", constants_of(shape.payments.columns)),
        }

    def customer(self, row: Row) -> Customer:
        told = self._sections["customers"].of(row)
        language = told.maybe("language", values.word)
        return Customer(
            id=told.id("id"),
            name=told.maybe("name", values.shown) or "",
            language=language if language in LANGUAGES else None,
        )

    def order(self, row: Row, lines: Sequence[Row], payments: Sequence[Row]) -> Order:
        """The order with its lines and payments, in the shop's order.

        Raises:
            Unusable: a value is missing, not exact or contradicts another one; says which.
        """
        told = self._sections["orders"].of(row)
        currency = _currency(told)
        order_id = told.id("id")
        if len(lines) > MOST_LINES or len(payments) > MOST_PAYMENTS:
            raise Unusable(f"it has more than {MOST_LINES} lines or {MOST_PAYMENTS} payments")
        goods, gifts = self._lines(told, lines, currency)
        order = Order(
            id=order_id,
            customer_id=told.id("customer_id"),
            status=self._status(told),
            currency=currency,
            placed_at=told.must("placed_at", lambda value: values.instant(value, self._zone)),
            lines=goods,
            payments=self._payments(payments, order_id, currency),
            delivered_at=self._delivered(told),
            shipping_address=self._address(told),
            note=told.maybe("note", values.shown),
            promotion=self._promotion(told, gifts, currency),
        )
        self._agrees(order, told)
        return order

    def _status(self, told: "_Told") -> OrderStatus:
        """A word that the map does not have fails closed: a person looks."""
        return self._shape.orders.status.get(values.word(told["status"]) or "", OrderStatus.UNKNOWN)

    def _delivered(self, told: "_Told") -> Moment | None:
        at = told.maybe("delivered_at", lambda value: values.moment(value, self._zone))
        if at is not None:
            return at
        return told.maybe("delivered_on", lambda value: values.day(value, self._zone))

    def _amount(self, told: "_Told", label: str, currency: str) -> int:
        return told.must(label, lambda value: self._money.minor(value, currency))

    def _amount_or_none(self, told: "_Told", label: str, currency: str) -> int:
        """Nothing where no column is named; in a named one NULL is not nothing."""
        return self._amount(told, label, currency) if label in told else 0

    def _lines(
        self, order: "_Told", rows: Sequence[Row], currency: str
    ) -> tuple[tuple[OrderLine, ...], tuple[str, ...]]:
        section = self._sections["lines"]
        told = [section.of(row) for row in rows]
        lines = [self._line(row, currency) for row in told]
        if not lines:
            raise Unusable("it has no lines")
        _unique("lines.columns.id", (SHIPPING, OVERPAID, *(line.id for line in lines)))
        gifts = tuple(line.id for line, row in zip(lines, told, strict=True) if self._is_gift(row))
        shipping = self._amount_or_none(order, "shipping", currency)
        if shipping < 0:
            raise Unusable("orders.columns.shipping is below 0")
        discount = self._amount_or_none(order, "discount", currency)
        lines = _discounted(lines, discount)
        if shipping:
            lines.append(self._shipping(shipping))
        if sum(line.kind is LineKind.SHIPPING for line in lines) > 1:
            raise Unusable("it has more than one line of shipping")
        return tuple(lines), gifts

    def _line(self, told: "_Told", currency: str) -> OrderLine:
        quantity = told.must("quantity", values.count)
        price = self._amount(told, "unit_price", currency)
        discount = self._amount_or_none(told, "discount", currency)
        promotion = self._amount_or_none(told, "promotion_discount", currency)
        if price < 0 or quantity * price < discount:
            # A voucher as a line of its own: the others would go back for more than was paid.
            raise Unusable("lines.columns.unit_price is below 0, or below what is taken off it")
        if discount < 0 or not 0 <= promotion <= discount:
            raise Unusable(
                "lines.columns.discount is below 0, or promotion_discount is no part of it"
            )
        received = told.maybe("received_units", values.count)
        return OrderLine(
            id=told.id("id"),
            name=told.must("name", values.shown),
            quantity=quantity,
            unit_price_minor=price,
            discount_minor=discount,
            category=told.must("category", values.text),
            kind=self._kind(told),
            returnable=told.must("returnable", values.flag),
            delivered_at=self._delivered(told),
            received_units=received,
            promotion_minor=promotion,
            variant_id=told.maybe("variant_id", values.text),
            options=self._options(told),
        )

    def _kind(self, told: "_Told") -> LineKind:
        if "kind" not in told:
            return LineKind.GOODS
        return told.must("kind", lambda value: _meant(value, self._shape.lines.kind))

    def _options(self, told: "_Told") -> Mapping[str, str]:
        names = enumerate(self._shape.lines.options)
        found = {name: told.maybe(option_label(number), values.text) for number, name in names}
        return MappingProxyType({name: value for name, value in found.items() if value})

    def _is_gift(self, told: "_Told") -> bool:
        return "is_gift" in told and told.must("is_gift", values.flag)

    def _shipping(self, amount: int) -> OrderLine:
        return OrderLine(
            id=SHIPPING,
            name=self._shape.orders.shipping_name,
            quantity=1,
            unit_price_minor=amount,
            discount_minor=0,
            category="shipping",
            kind=LineKind.SHIPPING,
        )

    def _payments(self, rows: Sequence[Row], order_id: str, currency: str) -> tuple[Payment, ...]:
        each = [self._sections["payments"].of(row) for row in rows]
        payments = [
            self._payment(told, order_id, currency) for told in each if self._is_captured(told)
        ]
        _unique("payments.columns.id", (payment.id for payment in payments))
        names = [(p.gateway, p.account, p.gateway_payment_id) for p in payments]
        _unique("payments.columns.gateway_payment_id", names)
        return tuple(payments)

    def _is_captured(self, told: "_Told") -> bool:
        if "status" not in told:
            return True
        meant = told.must("status", lambda value: _meant(value, self._shape.payments.status))
        return meant == "captured"

    def _payment(self, told: "_Told", order_id: str, order_currency: str) -> Payment:
        currency = _currency(told) if "currency" in told else order_currency
        method = told.must("method", lambda value: _meant(value, self._methods))
        captured = self._amount(told, "captured", currency)
        if captured < 0:
            raise Unusable("payments.columns.captured is below 0")
        own_id = told.id("id")
        return Payment(
            id=own_id,
            gateway=told.must("gateway", values.text),
            account=told.must("account", values.text),
            gateway_payment_id=_at_gateway(told, method, order_id, own_id),
            method=method,
            captured_minor=captured,
            currency=currency,
            disputed=told.must("disputed", values.flag),
        )

    @property
    def _methods(self) -> Mapping[str, PaymentMethod]:
        """The shop's words; a constant is one of ours already."""
        return self._shape.payments.method or {method: method for method in PaymentMethod}

    def _address(self, told: "_Told") -> Address | None:
        street = told.maybe("address_street", values.shown)
        if street is None:
            return None
        return Address(
            recipient=told.maybe("address_recipient", values.shown) or "",
            phone=told.maybe("address_phone", values.shown) or "",
            street=street,
            city=told.maybe("address_city", values.shown) or "",
            country=told.maybe("address_country", values.shown) or "",
        )

    def _promotion(self, told: "_Told", gifts: tuple[str, ...], currency: str) -> Promotion | None:
        promotion_id = told.maybe("promotion_id", values.text)
        if promotion_id is None:
            return None
        threshold = self._amount(told, "promotion_threshold", currency)
        if threshold < 1:
            raise Unusable("orders.columns.promotion_threshold is below 1")
        return Promotion(id=promotion_id, threshold_minor=threshold, gift_line_ids=gifts)

    def _agrees(self, order: Order, told: "_Told") -> None:
        """What lines miss of the order would be taken for money that was paid too much."""
        if sum(abs(line.total_minor) for line in order.lines) > MAX_MINOR:
            raise Unusable("it costs more than any order can")
        if "total" not in told:
            return
        total = self._amount(told, "total", order.currency)
        if total != order.total_minor:
            raise Unusable(
                "lines, shipping and discount do not add up to orders.columns.total: "
                f"{order.total_minor} and {total} in minor units"
            )


class _Section:
    """One table of the map: which label is which key of the file, and what is constant."""

    def __init__(
        self, shape: OrdersMap, name: str, constants: Mapping[str, str | int | bool]
    ) -> None:
        self.name = name
        self.constants = constants
        self.keys = {use.label: use.key for use in uses_of(shape) if use.section == name}

    def of(self, row: Row) -> "_Told":
        return _Told(self, row)


class _Told:
    """One row; what goes wrong with a value of it names the key of the file."""

    def __init__(self, section: _Section, row: Row) -> None:
        self._section = section
        self._row = row

    def __contains__(self, label: object) -> bool:
        return label in self._section.keys or label in self._section.constants

    def __getitem__(self, label: str) -> Any:  # noqa: ANN401 - as the driver tells it
        if label in self._section.keys:
            return self._row[label]
        return self._section.constants.get(label)

    def must(self, label: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self[label])
        except Unusable as why:
            key = self._section.keys.get(label, f"{self._section.name}.columns.{label}")
            raise Unusable(f"{key} {why}") from why

    def maybe(self, label: str, read: Callable[[Any], T]) -> T | None:
        return None if self[label] is None else self.must(label, read)

    def id(self, label: str) -> str:
        return self.must(label, _id)


def _id(value: object) -> str:
    told = values.key(value)
    if told is None:
        raise Unusable("is NULL or no id")
    return told


def _currency(told: _Told) -> str:
    def read(value: object) -> str:
        word = values.word(value)
        if word not in EXPONENTS:
            raise Unusable(f"is none of {', '.join(EXPONENTS)}")
        return word

    return told.must("currency", read)


def _meant(value: object, words: Mapping[str, T]) -> T:
    found = words.get(values.word(value) or "")
    if found is None:
        raise Unusable("is NULL, or a word that the map does not have")
    return found


def _at_gateway(told: _Told, method: PaymentMethod, order_id: str, payment_id: str) -> str:
    """Cash and transfers have no id at a gateway; ours has to be one of its own all the same."""
    if method in PAID_BY_HAND and told["gateway_payment_id"] is None:
        return by_hand_id(order_id, payment_id)
    return told.id("gateway_payment_id")


def _unique(key: str, ids: Iterable[object]) -> None:
    seen: set[object] = set()
    for one in ids:
        if one in seen:
            raise Unusable(f"{key} is there twice in one order, or is one that we use ourselves")
        seen.add(one)


def _discounted(lines: Sequence[OrderLine], discount: int) -> list[OrderLine]:
    """Spread over the goods in proportion to what they cost, to the last minor unit."""
    if not discount:
        return [*lines]
    rooms = [line.total_minor if line.kind is LineKind.GOODS else 0 for line in lines]
    if not 0 < discount <= sum(max(0, room) for room in rooms):
        raise Unusable("orders.columns.discount is below 0 or above what the goods cost")
    parts = spread(discount, rooms)
    return [
        replace(line, discount_minor=line.discount_minor + part)
        for line, part in zip(lines, parts, strict=True)
    ]

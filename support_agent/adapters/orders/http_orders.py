"""An order as an API tells it, and as we know it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from zoneinfo import ZoneInfo

from support_agent.adapters.orders.http_map import (
    AddressFields,
    CustomerFields,
    HttpMap,
    LineFields,
    PaymentFields,
)
from support_agent.adapters.orders.http_pointers import Node, Pointer, Source
from support_agent.adapters.orders.http_values import (
    amount,
    currency,
    day,
    identifier,
    instant,
    maybe_text,
    meant,
    moment,
    text,
    truth,
    units,
)
from support_agent.adapters.orders.mapped.values import MoneyReader, word
from support_agent.domain.money import MAX_MINOR, spread
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

SHIPPING = "+shipping"  # the line that stands for a field; no shop has such a line
_MOST_PARTS = 1_000  # lines or payments of one order
_LANGUAGES = frozenset({"vi", "en"})
_OUR_METHODS = MappingProxyType({str(method): method for method in PaymentMethod})


class HttpOrderReader:
    """Reads orders and customers as the map says.

    Raises:
        UnusableAnswer: something is missing, not exact, or contradicts something else; says where.
    """

    def __init__(self, told: HttpMap) -> None:
        self._told = told
        self._zone = ZoneInfo(told.time_zone)
        self._money = MoneyReader(told.money.unit, told.money.scale)
        self._methods = told.payments.method or _OUR_METHODS  # a constant is one of ours already

    def customer(self, node: Node) -> Customer:
        """The customer that stands here; a language that is not ours is none."""
        form: CustomerFields = self._told.customers.fields
        language = word(node.at(form.language).value)
        return Customer(
            id=identifier(node.at(form.id)),
            name=maybe_text(node.at(form.name)) or "",
            language=language if language in _LANGUAGES else None,
        )

    def order(self, node: Node) -> Order:
        """The order that stands here; a status that the map does not have is UNKNOWN."""
        form = self._told.orders.fields
        code = currency(node.at(form.currency))
        order_id = identifier(node.at(form.id))
        lines, gifts = self._lines(node, code)
        order = Order(
            id=order_id,
            customer_id=identifier(node.at(form.customer_id)),
            status=self._status(node.at(form.status)),
            currency=code,
            placed_at=instant(node.at(form.placed_at), self._zone),
            lines=lines,
            payments=self._payments(node, order_id, code),
            delivered_at=self._delivered(node, form.delivered_at, form.delivered_on),
            shipping_address=_address(node, self._told.orders.address),
            note=maybe_text(node.at(form.note)),
            promotion=self._promotion(node, gifts, code),
        )
        if sum(line.total_minor for line in order.lines) > MAX_MINOR:
            node.at(self._told.lines.at).unusable("costs more than any order can")
        total = node.at(form.total)
        if form.total is not None and self._amount(total, code) != order.total_minor:
            total.unusable("is not what the lines add up to")
        return order

    def _status(self, node: Node) -> OrderStatus:
        return self._told.orders.status.get(word(node.value) or "", OrderStatus.UNKNOWN)

    def _amount(self, node: Node, code: str) -> int:
        return amount(node, code, self._money)

    def _if_named(self, node: Node, place: Pointer | None, code: str) -> int:
        """Nothing where the map names no place; in a named one null is not nothing."""
        return 0 if place is None else self._amount(node.at(place), code)

    def _delivered(self, node: Node, at: Pointer | None, on: Pointer | None) -> Moment | None:
        told = moment(node.at(at), self._zone)
        return day(node.at(on), self._zone) if told is None else told

    def _lines(self, order: Node, code: str) -> tuple[tuple[OrderLine, ...], tuple[str, ...]]:
        """The lines, with one of shipping where that is a field, and the ids of those for free."""
        form, whole = self._told.lines, self._told.orders
        array = order.at(form.at)
        nodes = _elements(array)
        lines = [self._line(node, code) for node in nodes]
        if not lines:
            array.unusable("has no lines")
        _check_unique(array, (SHIPPING, OVERPAID, *(line.id for line in lines)))
        gift = form.fields.is_gift
        is_gift = [gift is not None and truth(node.at(gift)) for node in nodes]
        gifts = tuple(line.id for line, free in zip(lines, is_gift, strict=True) if free)
        lines = _discounted(
            order.at(whole.fields.discount),
            lines,
            self._if_named(order, whole.fields.discount, code),
        )
        fee = self._if_named(order, whole.fields.shipping, code)
        if fee:
            lines.append(_shipping(fee, whole.shipping_name))
        if sum(line.kind is LineKind.SHIPPING for line in lines) > 1:
            array.unusable("has more than one line of shipping")
        return tuple(lines), gifts

    def _line(self, node: Node, code: str) -> OrderLine:
        form = self._told.lines.fields
        quantity = units(node.at(form.quantity))
        price = self._amount(node.at(form.unit_price), code)
        discount = self._line_discount(node, form, price * quantity, code)
        promotion = self._if_named(node, form.promotion_discount, code)
        if promotion > discount:
            node.unusable("has a promotion_discount that is no part of its discount")
        received = node.at(form.received_units)
        variant = node.at(form.variant_id)
        return OrderLine(
            id=identifier(node.at(form.id)),
            name=text(node.at(form.name)),
            quantity=quantity,
            unit_price_minor=price,
            discount_minor=discount,
            category=text(node.at(form.category)),
            kind=self._kind(node, form.kind),
            returnable=truth(node.at(form.returnable)),
            delivered_at=self._delivered(node, form.delivered_at, form.delivered_on),
            received_units=units(received) if received.there else None,
            promotion_minor=promotion,
            variant_id=identifier(variant) if variant.there else None,
            options=self._options(node),
        )

    def _line_discount(self, node: Node, form: LineFields, full: int, code: str) -> int:
        discount = self._if_named(node, form.discount, code)
        if form.total is not None:
            discount = full - self._amount(node.at(form.total), code)
        if not 0 <= discount <= full:
            node.unusable("costs less than nothing, or more than its units")
        return discount

    def _kind(self, node: Node, place: Pointer | None) -> LineKind:
        if place is None:
            return LineKind.GOODS
        return meant(node.at(place), self._told.lines.kind, "lines.kind")

    def _options(self, node: Node) -> Mapping[str, str]:
        found = {n: maybe_text(node.at(place)) for n, place in self._told.lines.options.items()}
        return MappingProxyType({name: value for name, value in found.items() if value})

    def _payments(self, order: Node, order_id: str, code: str) -> tuple[Payment, ...]:
        array = order.at(self._told.payments.at)
        captured = [node for node in _elements(array) if self._is_captured(node)]
        payments = tuple(self._payment(node, order_id, code) for node in captured)
        _check_unique(array, (payment.id for payment in payments))
        _check_unique(array, ((p.gateway, p.account, p.gateway_payment_id) for p in payments))
        return payments

    def _is_captured(self, node: Node) -> bool:
        form = self._told.payments
        if form.fields.status is None:
            return True
        return meant(node.at(form.fields.status), form.status, "payments.status") == "captured"

    def _payment(self, node: Node, order_id: str, order_currency: str) -> Payment:
        form: PaymentFields = self._told.payments.fields
        code = order_currency if form.currency is None else currency(node.at(form.currency))
        method = meant(node.at(form.method), self._methods, "payments.method")
        own_id = identifier(node.at(form.id))
        at_gateway = node.at(form.gateway_payment_id)
        # Cash and transfers have no id at a gateway; ours has to be one of its own all the same.
        by_hand = method in PAID_BY_HAND and not at_gateway.there
        return Payment(
            id=own_id,
            gateway=identifier(node.at(form.gateway)),
            account=identifier(node.at(form.account)),
            gateway_payment_id=by_hand_id(order_id, own_id) if by_hand else identifier(at_gateway),
            method=method,
            captured_minor=self._amount(node.at(form.captured), code),
            currency=code,
            disputed=truth(node.at(form.disputed)),
        )

    def _promotion(self, order: Node, gifts: tuple[str, ...], code: str) -> Promotion | None:
        form = self._told.orders.fields
        given = order.at(form.promotion_id)
        if not given.there:
            return None
        return Promotion(
            id=identifier(given),
            threshold_minor=self._amount(order.at(form.promotion_threshold), code),
            gift_line_ids=gifts,
        )


def _elements(array: Node) -> Sequence[Node]:
    nodes = list(array.each())
    if len(nodes) > _MOST_PARTS:
        array.unusable(f"has more than {_MOST_PARTS} elements")
    return nodes


def _check_unique(array: Node, ids: Iterable[object]) -> None:
    told = [*ids]
    if len(set(told)) != len(told):
        array.unusable("has one id twice, or one that we use ourselves")


def _discounted(node: Node, lines: Sequence[OrderLine], discount: int) -> list[OrderLine]:
    """Spread over the goods in proportion to what they cost, to the last minor unit."""
    if not discount:
        return [*lines]
    rooms = [line.total_minor if line.kind is LineKind.GOODS else 0 for line in lines]
    if discount > sum(rooms):
        node.unusable("is more than the goods cost")
    parts = spread(discount, rooms)
    return [
        replace(line, discount_minor=line.discount_minor + part)
        for line, part in zip(lines, parts, strict=True)
    ]


def _shipping(fee: int, name: str) -> OrderLine:
    return OrderLine(
        id=SHIPPING,
        name=name,
        quantity=1,
        unit_price_minor=fee,
        discount_minor=0,
        category="shipping",
        kind=LineKind.SHIPPING,
    )


def _address(order: Node, form: AddressFields | None) -> Address | None:
    def told(place: Source) -> str:
        return maybe_text(order.at(place)) or ""

    if form is None or not order.at(form.street).there:
        return None
    return Address(
        recipient=told(form.recipient),
        phone=told(form.phone),
        street=told(form.street),
        city=told(form.city),
        country=told(form.country),
    )

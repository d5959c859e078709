"""What an orders API looks like, as its TOML file describes it."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from support_agent.adapters.file_entries import FileEntry, Zone, validated
from support_agent.adapters.orders.http_addresses import Address
from support_agent.adapters.orders.http_pointers import Constant, Pointer
from support_agent.adapters.orders.http_pointers import Source as AnySource
from support_agent.adapters.orders.mapped.map_file import read_map
from support_agent.adapters.orders.mapped.shape import Amounts, Name
from support_agent.domain.money import EXPONENTS
from support_agent.domain.orders import LineKind, OrderStatus, PaymentMethod

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# By these a request is framed or its answer chosen.
_NOT_OURS = re.compile(
    r"accept(-encoding)?|connection|content-(length|type)|host|te|trailer|transfer-encoding|upgrade",
    re.IGNORECASE,
)


def _place(value: object) -> Pointer:
    if not isinstance(value, str):
        raise ValueError('must be a JSON pointer such as "/customer/id"')  # noqa: TRY004 - pydantic takes no TypeError
    return Pointer.parse(value)


def _source(value: object) -> AnySource:
    if isinstance(value, str):
        return Pointer.parse(value)
    if isinstance(value, dict) and [*value] == ["value"]:
        told = value["value"]
        if isinstance(told, str | int) and told != "":
            return Constant(told)
    raise ValueError('must be a JSON pointer such as "/currency", or { value = "VND" }')


def _address(places: tuple[str, ...], value: object) -> Address:
    return Address.parse(str(value), places)


def _secret_header(value: str) -> str:
    if not _HEADER.fullmatch(value) or _NOT_OURS.fullmatch(value):
        raise ValueError("is no header that may hold a secret; write Authorization")
    return value


Place = Annotated[Pointer, PlainValidator(_place)]
MaybePlace = Annotated[Pointer | None, PlainValidator(_place)]
Source = Annotated[AnySource, PlainValidator(_source)]
MaybeSource = Annotated[AnySource | None, PlainValidator(_source)]
OrderAddress = Annotated[Address, PlainValidator(partial(_address, ("order_id",)))]
CustomerAddress = Annotated[Address, PlainValidator(partial(_address, ("customer_id",)))]
ListAddress = Annotated[Address, PlainValidator(partial(_address, ("customer_id", "limit")))]
Header = Annotated[str, AfterValidator(_secret_header)]
ROOT = Pointer.parse("")


class Urls(FileEntry):
    """One address a question, all of one server: it alone is told the secret."""

    order: OrderAddress
    customer: CustomerAddress
    list: ListAddress

    @model_validator(mode="after")
    def _of_one_server(self) -> Self:
        if len({address.origin for address in (self.order, self.customer, self.list)}) > 1:
            raise ValueError("order, customer and list must be of one scheme, host and port")
        return self


class CustomerFields(FileEntry):
    id: Place
    name: MaybePlace = None
    language: MaybePlace = None


class Customers(FileEntry):
    """`at` is where the customer stands in the answer to `urls.customer`."""

    fields: CustomerFields
    at: Place = ROOT


class OrderFields(FileEntry):
    id: Place
    customer_id: Place
    status: Place
    currency: Source
    placed_at: Place
    delivered_at: MaybePlace = None
    delivered_on: MaybePlace = None  # a day whose hour means nothing
    total: MaybePlace = None  # what the lines must add up to
    shipping: MaybePlace = None  # where shipping is no line of its own
    discount: MaybePlace = None  # of the whole order, where lines do not carry their shares
    note: MaybePlace = None
    promotion_id: MaybePlace = None
    promotion_threshold: MaybePlace = None


class AddressFields(FileEntry):
    """Where the order went. Without a street there is no address."""

    recipient: Place
    phone: Place
    street: Place
    city: Place
    country: Source = Constant("VN")


class Orders(FileEntry):
    """`at` is where the order stands in the answer to `urls.order`."""

    fields: OrderFields
    status: dict[Name, OrderStatus]
    at: Place = ROOT
    address: AddressFields | None = None
    shipping_name: Name = "Phí vận chuyển"


class LineFields(FileEntry):
    id: Place
    name: Place
    quantity: Source
    unit_price: Place
    discount: MaybePlace = None  # of all units of the line
    total: MaybePlace = None  # in place of discount: what all units cost after it
    promotion_discount: MaybePlace = None  # the part of it that the order's promotion gave
    category: Source = Constant("uncategorised")
    kind: MaybePlace = None
    returnable: Source = Constant(value=True)
    received_units: MaybePlace = None
    delivered_at: MaybePlace = None
    delivered_on: MaybePlace = None
    variant_id: MaybePlace = None
    is_gift: MaybePlace = None  # costs nothing because of the promotion

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.discount is not None and self.total is not None:
            raise ValueError("discount and total exclude each other; remove one")
        return self


class Lines(FileEntry):
    """`at` is the array in the order, the fields are those of each of its elements."""

    fields: LineFields
    at: Place
    kind: dict[Name, LineKind] = Field(default_factory=dict)
    options: dict[Name, Place] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _kinds(self) -> Self:
        _together("kind", self.fields.kind, self.kind, "lines")
        return self


class PaymentFields(FileEntry):
    id: Place
    gateway: Source
    account: Source
    gateway_payment_id: Place
    method: Source
    captured: Place
    currency: MaybeSource = None  # left out: the order's
    status: MaybePlace = None
    disputed: Source = Constant(value=False)


class Payments(FileEntry):
    """As lines. What is in no captured state is no payment."""

    fields: PaymentFields
    at: Place
    method: dict[Name, PaymentMethod] = Field(default_factory=dict)
    status: dict[Name, Literal["captured", "ignored"]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _words(self) -> Self:
        _together("status", self.fields.status, self.status, "payments")
        method = self.fields.method
        _together(
            "method", method if isinstance(method, Pointer) else None, self.method, "payments"
        )
        if isinstance(method, Constant) and method.value not in {*PaymentMethod}:
            raise ValueError(f"fields.method: must be one of {', '.join(PaymentMethod)}")
        return self


class Listing(FileEntry):
    """Of the answer to `urls.list`: the array of one customer's newest orders.

    With `id` its elements are read for their ids alone, and each order by `urls.order`.
    """

    at: Place
    order: Place = ROOT  # where in each element the order stands
    id: MaybePlace = None


class HttpMap(FileEntry):
    """The whole file."""

    version: Literal[1]
    time_zone: Zone  # of times that have none
    urls: Urls
    money: Amounts
    customers: Customers
    orders: Orders
    lines: Lines
    payments: Payments
    list: Listing
    auth_header: Header | None = None
    allow_http: bool = False

    @model_validator(mode="after")
    def _currencies(self) -> Self:
        told = {"orders": self.orders.fields.currency, "payments": self.payments.fields.currency}
        for section, source in told.items():
            if isinstance(source, Constant) and source.value not in EXPONENTS:
                known = ", ".join(EXPONENTS)
                raise ValueError(f"{section}.fields.currency: known currencies are {known}")
        return self

    @model_validator(mode="after")
    def _promotion(self) -> Self:
        order, line = self.orders.fields, self.lines.fields
        if (order.promotion_id is None) != (order.promotion_threshold is None):
            raise ValueError(
                "orders.fields: promotion_id and promotion_threshold need each other; "
                "name both or none"
            )
        if order.promotion_id is None and (line.is_gift or line.promotion_discount):
            raise ValueError(
                "lines.fields: is_gift and promotion_discount need orders.fields.promotion_id"
            )
        return self

    @model_validator(mode="after")
    def _not_in_the_clear(self) -> Self:
        if self.urls.order.in_the_clear and not self.allow_http:
            raise ValueError(
                "urls: plain http to another machine shows orders and the secret to everybody "
                "between; use https, or say allow_http = true"
            )
        return self


def load_http_map(path: Path) -> HttpMap:
    """The map that the file holds.

    Raises:
        ConfigurationError: it cannot be read, is not TOML, or says what a map cannot say.
    """
    return validated(HttpMap, read_map(path), path.name)


def _together(name: str, place: Pointer | None, words: Mapping[str, object], section: str) -> None:
    if place is not None and not words:
        raise ValueError(f"[{section}.{name}] is missing: say what each of its words means")
    if place is None and words:
        raise ValueError(f"fields.{name} is missing: say where these words stand")

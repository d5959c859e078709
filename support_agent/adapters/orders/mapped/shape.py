"""What an orders map may say: tables, columns and words, and no SQL."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from support_agent.adapters.file_entries import FileEntry, Zone
from support_agent.domain.money import EXPONENTS
from support_agent.domain.orders import LineKind, OrderStatus, PaymentMethod

LONGEST = 128  # characters of a name; PostgreSQL cuts longer ones, so no column has one


class Holds(Enum):
    """What a column holds, which says how it is read."""

    ID = "id"
    MONEY = "money"
    TIME = "time"
    COUNT = "count"
    FLAG = "flag"
    WORD = "word"  # of a closed list
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table or view, in a schema or wherever the database looks first."""

    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, by its name in the shop's database."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """The same for every row, because no column says it."""

    value: str | int | bool


Source = Column | Constant


def _name(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or "\0" in value:
        raise ValueError("must be the name of a column, in quotes")
    return value


def _table(value: object) -> TableName:
    hint = 'must be the name of a table or view, such as "orders" or "shop.orders"'
    if not isinstance(value, str) or len(value) > LONGEST or "\0" in value:
        raise ValueError(hint)
    schema, dot, name = value.rpartition(".")
    if not name or "." in schema or (dot and not schema):
        raise ValueError(hint)
    return TableName(name, schema or None)


def _column(value: object) -> Column:
    return Column(_name(value))


def _source(value: object) -> Source:
    if isinstance(value, str):
        return Column(_name(value))
    if isinstance(value, dict) and [*value] == ["value"]:
        told = value["value"]
        if isinstance(told, str | int) and told != "":
            return Constant(told)
    raise ValueError('must be a column\'s name, or the same for all: { value = "..." }')


Table = Annotated[TableName, PlainValidator(_table)]

# Each says how a column is read, and whether NULL may stand in it.
Id = Annotated[Column, PlainValidator(_column), Holds.ID]
Money = Annotated[Column, PlainValidator(_column), Holds.MONEY]
Time = Annotated[Column, PlainValidator(_column), Holds.TIME]
Word = Annotated[Column, PlainValidator(_column), Holds.WORD]
Text = Annotated[Column, PlainValidator(_column), Holds.TEXT]
CountOrValue = Annotated[Source, PlainValidator(_source), Holds.COUNT]
FlagOrValue = Annotated[Source, PlainValidator(_source), Holds.FLAG]
WordOrValue = Annotated[Source, PlainValidator(_source), Holds.WORD]
TextOrValue = Annotated[Source, PlainValidator(_source), Holds.TEXT]
MaybeId = Annotated[Column | None, PlainValidator(_column), Holds.ID]
MaybeMoney = Annotated[Column | None, PlainValidator(_column), Holds.MONEY]
MaybeTime = Annotated[Column | None, PlainValidator(_column), Holds.TIME]
MaybeCount = Annotated[Column | None, PlainValidator(_column), Holds.COUNT]
MaybeFlag = Annotated[Column | None, PlainValidator(_column), Holds.FLAG]
MaybeWord = Annotated[Column | None, PlainValidator(_column), Holds.WORD]
MaybeText = Annotated[Column | None, PlainValidator(_column), Holds.TEXT]
MaybeWordOrValue = Annotated[Source | None, PlainValidator(_source), Holds.WORD]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST)]


class Columns(FileEntry):
    """Columns of one table. Those in `may_be_null` may be empty in a row, the others may not."""

    may_be_null: ClassVar[frozenset[str]] = frozenset()


class Amounts(FileEntry):
    """How the shop writes money.

    `unit`: `major` is 12.50 for twelve dollars and a half, `minor` is 1250. `scale`: how many
    decimals that has, where it is not what the currency has (VND none, USD two).
    """

    unit: Literal["major", "minor"]
    scale: Annotated[int, Field(ge=0, le=6)] | None = None


class CustomerColumns(Columns):
    may_be_null = frozenset({"name", "language"})

    id: Id
    name: Text
    language: MaybeText = None


class Customers(FileEntry):
    table: Table
    columns: CustomerColumns


class OrderColumns(Columns):
    may_be_null = frozenset(
        {"status", "delivered_at", "delivered_on", "note", "promotion_id", "promotion_threshold"}
    )

    id: Id
    customer_id: Id
    status: Word
    currency: WordOrValue
    placed_at: Time
    delivered_at: MaybeTime = None
    delivered_on: MaybeTime = None  # a day whose hour means nothing
    total: MaybeMoney = None  # what the lines must add up to
    shipping: MaybeMoney = None  # where shipping is no line of its own
    discount: MaybeMoney = None  # of the whole order, where lines do not carry their shares
    note: MaybeText = None
    promotion_id: MaybeId = None
    promotion_threshold: MaybeMoney = None


class AddressColumns(Columns):
    """Where the order went. Without a street there is no address."""

    may_be_null = frozenset({"recipient", "phone", "street", "city", "country"})

    recipient: Text
    phone: Text
    street: Text
    city: Text
    country: TextOrValue = Constant("VN")


class Orders(FileEntry):
    table: Table
    columns: OrderColumns
    status: dict[Name, OrderStatus]
    address: AddressColumns | None = None
    shipping_name: Name = "Phí vận chuyển"


class LineColumns(Columns):
    may_be_null = frozenset({"delivered_at", "delivered_on", "received_units", "variant_id"})

    order_id: Id
    id: Id
    name: Text
    quantity: CountOrValue
    unit_price: Money
    discount: MaybeMoney = None  # of all units of the line
    promotion_discount: MaybeMoney = None  # the part of it that the order's promotion gave
    category: TextOrValue = Constant("uncategorised")
    kind: MaybeWord = None
    returnable: FlagOrValue = Constant(value=True)
    received_units: MaybeCount = None
    delivered_at: MaybeTime = None
    delivered_on: MaybeTime = None
    variant_id: MaybeId = None
    position: MaybeCount = None
    is_gift: MaybeFlag = None  # costs nothing because of the promotion


class Lines(FileEntry):
    table: Table
    columns: LineColumns
    kind: dict[Name, LineKind] = Field(default_factory=dict)
    options: dict[Name, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _kinds(self) -> Self:
        _together("kind", self.columns.kind, self.kind, "lines")
        return self


class PaymentColumns(Columns):
    may_be_null = frozenset({"gateway_payment_id"})  # of cash and transfers only

    order_id: Id
    id: Id
    gateway: WordOrValue
    account: WordOrValue
    gateway_payment_id: Id
    method: WordOrValue
    captured: Money
    currency: MaybeWordOrValue = None  # left out: the order's
    status: MaybeWord = None
    disputed: FlagOrValue = Constant(value=False)
    position: MaybeCount = None


class Payments(FileEntry):
    table: Table
    columns: PaymentColumns
    method: dict[Name, PaymentMethod] = Field(default_factory=dict)
    status: dict[Name, Literal["captured", "ignored"]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _words(self) -> Self:
        _together("status", self.columns.status, self.status, "payments")
        method = self.columns.method
        _together("method", method if isinstance(method, Column) else None, self.method, "payments")
        if isinstance(method, Constant) and method.value not in {*PaymentMethod}:
            raise ValueError(f"columns.method: must be one of {', '.join(PaymentMethod)}")
        return self


class OrdersMap(FileEntry):
    """Where orders are in a database that is not ours, and how its words are to be read."""

    version: Literal[1]
    time_zone: Zone  # of times that have none
    money: Amounts
    customers: Customers
    orders: Orders
    lines: Lines
    payments: Payments

    @model_validator(mode="after")
    def _currencies(self) -> Self:
        told = {"orders": self.orders.columns.currency, "payments": self.payments.columns.currency}
        for section, source in told.items():
            if isinstance(source, Constant) and source.value not in EXPONENTS:
                known = ", ".join(EXPONENTS)
                raise ValueError(f"{section}.columns.currency: known currencies are {known}")
        return self

    @model_validator(mode="after")
    def _promotion(self) -> Self:
        order, line = self.orders.columns, self.lines.columns
        if (order.promotion_id is None) != (order.promotion_threshold is None):
            raise ValueError(
                "orders.columns: promotion_id and promotion_threshold need each other; "
                "name both or none"
            )
        if order.promotion_id is None and (line.is_gift or line.promotion_discount):
            raise ValueError(
                "lines.columns: is_gift and promotion_discount need orders.columns.promotion_id"
            )
        return self


def _together(name: str, column: Column | None, words: dict[str, Any], section: str) -> None:
    if column is not None and not words:
        raise ValueError(f"[{section}.{name}] is missing: say what each of its words means")
    if column is None and words:
        raise ValueError(f"columns.{name} is missing: name the column that has these words")

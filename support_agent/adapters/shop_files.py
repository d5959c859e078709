"""Reads the sample shop and the policies from YAML; a mistake in a file is named, not guessed."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeVar
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)

from support_agent.adapters.strict_yaml import read_yaml
from support_agent.domain.assessment import DELIVERED_STATUSES
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.money import EXPONENTS, MAX_MINOR, format_money
from support_agent.domain.orders import (
    Address,
    Customer,
    Moment,
    Order,
    OrderLine,
    OrderStatus,
    Payment,
    PaymentMethod,
)
from support_agent.domain.people import Approver
from support_agent.domain.policy import CurrencyLimits, Policy


def load_policy(path: Path) -> Policy:
    """The policy of one YAML file."""
    return policy_from_body(policy_body(path), source=path.name)


def policy_body(path: Path) -> dict[str, Any]:
    """The file's content as plain JSON data, to be stored and read back by `policy_from_body`."""
    body = read_yaml(path)
    if not isinstance(body, dict):
        raise ConfigurationError(
            "must be a mapping of fields, like standard.yaml", setting=path.name
        )
    return body


def policy_from_body(body: Mapping[str, Any], *, source: str = "policy") -> Policy:
    """The policy a body describes; the same body always gives an equal policy and hash."""
    canonical = _canonical(body, source)
    fields = _validated(_PolicyBody, canonical, source)
    return Policy(
        id=fields.id,
        version=fields.version,
        hash=hashlib.sha256(canonical).hexdigest(),
        valid_from=fields.valid_from,
        time_zone=fields.time_zone,
        window_days=fields.window_days,
        refundable_statuses=fields.refundable_statuses,
        excluded_categories=fields.excluded_categories,
        limits=MappingProxyType({code: lim.to_domain() for code, lim in fields.limits.items()}),
        text=MappingProxyType({"vi": fields.rendered("vi"), "en": fields.rendered("en")}),
    )


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


def _canonical(body: object, source: str) -> bytes:
    """One spelling of the same data: sorted keys, compact, UTF-8."""
    try:
        return json.dumps(
            body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        ).encode()
    except (TypeError, ValueError) as error:
        problem = f"may hold text, whole numbers, lists and mappings only: {error}"
        raise ConfigurationError(problem, setting=source) from error


Entry = TypeVar("Entry", bound=BaseModel)


def _validated(model: type[Entry], canonical: bytes, source: str) -> Entry:
    # Strict JSON mode: text becomes a date or a status, but "250000", true or 1.0 never a number.
    try:
        return model.model_validate_json(canonical)
    except ValidationError as error:
        problems = "; ".join(_problem(dict(detail)) for detail in error.errors(include_url=False))
        raise ConfigurationError(problems, setting=source) from error


def _problem(detail: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            return f"{field}: is not a known field; check its spelling or remove it"
        case "missing":
            return f"{field}: is missing; add it"
        case "value_error":
            message = str(detail["ctx"]["error"])
            return f"{field}: {message}" if field else message
        case _:
            return f"{field}: {detail['msg']}, not {detail['input']!r}"


def _entries(path: Path, model: type[Entry], key: str) -> list[Entry]:
    items = read_yaml(path)
    if not isinstance(items, list):
        raise ConfigurationError("must be a list; start each entry with '- '", setting=path.name)
    entries = []
    for number, item in enumerate(items, start=1):
        name = item.get(key) if isinstance(item, dict) else None
        source = f"{path.name}: entry {number}" + (f" ({name!r})" if name else "")
        entries.append(_validated(model, _canonical(item, source), source))
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


def _instant(value: object) -> datetime:
    hint = "write it like 2026-10-01T10:00:00+07:00"
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise ValueError(f"{value!r} is not a date and time; {hint}")
    if moment.utcoffset() is None:
        raise ValueError(f"{value!r} has no UTC offset; {hint}")
    return moment


def _moment(value: object) -> Moment | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return date.fromisoformat(value)  # the source knows the day only
    return _instant(value)


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, a path, a folder of zones
        raise ValueError(f"{name!r} is not a time zone; write it like Asia/Ho_Chi_Minh") from None
    return name


def _currency(code: str) -> str:
    if code not in EXPONENTS:
        raise ValueError(f"{code!r} is not a known currency; known are {', '.join(EXPONENTS)}")
    return code


Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)]
Text = Annotated[str, Field(min_length=1)]
Instant = Annotated[datetime, PlainValidator(_instant)]
MaybeMoment = Annotated[Moment | None, PlainValidator(_moment)]
Zone = Annotated[str, AfterValidator(_zone)]
Currency = Annotated[str, AfterValidator(_currency)]
Amount = Annotated[int, Field(ge=0, le=MAX_MINOR)]
Limit = Annotated[int, Field(ge=1, le=MAX_MINOR)]


class _Entry(BaseModel):
    """What a file may say: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Limits(_Entry):
    # No defaults: a limit that is forgotten must not read as "no limit"; null says that.
    auto: Amount
    levels: Annotated[tuple[Limit, ...], Field(min_length=1)]
    four_eyes_from: Limit | None
    auto_per_customer_day: Amount | None
    auto_per_customer_30_days: Amount | None
    auto_per_installation_day: Amount | None
    per_approver_day: Amount | None

    @model_validator(mode="after")
    def _ascend(self) -> Self:
        if any(low >= high for low, high in pairwise(self.levels)):
            raise ValueError(f"levels must rise from level to level, not {list(self.levels)}")
        if self.auto > self.levels[0]:
            raise ValueError(f"auto {self.auto} must not be above the first level {self.levels[0]}")
        if self.four_eyes_from is not None and self.four_eyes_from <= self.auto:
            raise ValueError("four_eyes_from must be above auto: what is automatic has no approver")
        return self

    def to_domain(self) -> CurrencyLimits:
        return CurrencyLimits(**self.model_dump())


class _Texts(_Entry):
    vi: Text
    en: Text


class _PolicyBody(_Entry):
    id: Id
    version: Annotated[int, Field(ge=1)]
    valid_from: Instant
    time_zone: Zone
    window_days: Annotated[int, Field(ge=0, le=3650)] | None
    refundable_statuses: Annotated[frozenset[OrderStatus], Field(min_length=1)]
    excluded_categories: frozenset[Text]
    limits: dict[Currency, _Limits]
    text: _Texts

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if wrong := sorted(self.refundable_statuses.difference(DELIVERED_STATUSES)):
            allowed = ", ".join(sorted(DELIVERED_STATUSES))
            raise ValueError(f"refundable_statuses: {', '.join(wrong)} is none of {allowed}")
        for language in ("vi", "en"):
            self.rendered(language)
        return self

    def rendered(self, language: Literal["vi", "en"]) -> str:
        """The customer's text with its numbers filled in from the fields, so that both agree."""
        template: str = getattr(self.text, language)
        known = self._numbers()
        for _, name, spec, conversion in _parsed(template, f"text.{language}"):
            if name is not None and (name not in known or spec or conversion):
                names = ", ".join(f"{{{known_name}}}" for known_name in known)
                raise ValueError(f"text.{language}: {{{name}}} cannot be filled; known are {names}")
        return template.format(**known)

    def _numbers(self) -> dict[str, str]:
        numbers = {} if self.window_days is None else {"window_days": str(self.window_days)}
        for code, limits in self.limits.items():
            numbers[f"auto_{code}"] = format_money(limits.auto, code)
            numbers[f"top_{code}"] = format_money(limits.levels[-1], code)
        return numbers


def _parsed(template: str, field: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{field}: {error}; write a literal brace twice") from None


class _CustomerEntry(_Entry):
    id: Id
    name: Text
    language: Literal["vi", "en"] | None = None

    def to_domain(self) -> Customer:
        return Customer(id=self.id, name=self.name, language=self.language)


class _AddressEntry(_Entry):
    recipient: Text
    phone: Text
    street: Text
    city: Text
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "VN"


class _LineEntry(_Entry):
    id: Id
    name: Text
    quantity: Annotated[int, Field(ge=1, le=10_000)]
    unit_price_minor: Amount
    discount_minor: Amount = 0
    category: Text
    returnable: bool = True
    delivered_at: MaybeMoment = None
    variant_id: Id | None = None
    options: dict[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _discount_fits(self) -> Self:
        if self.discount_minor > self.unit_price_minor * self.quantity:
            raise ValueError("discount_minor is above the price of all units; lower it")
        return self

    def to_domain(self) -> OrderLine:
        fields = self.model_dump() | {"options": MappingProxyType(dict(self.options))}
        return OrderLine(**fields)


class _PaymentEntry(_Entry):
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


class _OrderEntry(_Entry):
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

    def to_domain(self) -> Order:
        address = self.shipping_address
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
        )


class _ApproverEntry(_Entry):
    name: Id
    person_id: Id
    level: Annotated[int, Field(ge=1, le=9)]
    limits: dict[Currency, Amount]
    customer_ids: frozenset[Id] = frozenset()
    disabled: bool = False

    def to_domain(self) -> Approver:
        fields = self.model_dump() | {"limits": MappingProxyType(dict(self.limits))}
        return Approver(**fields)

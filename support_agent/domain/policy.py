"""The refund policy as data: what is in force, and the verdict it gives on an order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType

from support_agent.domain.orders import OrderStatus
from support_agent.domain.reasons import Language, Reason


class Verdict(StrEnum):
    ELIGIBLE = "ELIGIBLE"
    PARTIAL = "PARTIAL"
    INELIGIBLE = "INELIGIBLE"
    NEEDS_REVIEW = "NEEDS_REVIEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrencyLimits:
    """Limits of one currency, in minor units. Tiers look at the order's cumulative amount."""

    auto: int  # paid without a person up to and including this
    levels: tuple[
        int, ...
    ]  # levels[n - 1]: highest cumulative amount a level-n approver may let pass
    four_eyes_from: int | None  # two different persons from here on
    auto_per_customer_day: int | None
    auto_per_customer_30_days: int | None
    auto_per_installation_day: int | None
    per_approver_day: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One version of the policy. `hash` is SHA-256 over the canonical body."""

    id: str
    version: int
    hash: str
    valid_from: datetime
    time_zone: str  # IANA name; days are civil days there
    window_days: int | None  # None: no window
    refundable_statuses: frozenset[OrderStatus]
    excluded_categories: frozenset[str]
    limits: Mapping[str, CurrencyLimits]  # by currency
    text: Mapping[Language, str]  # what a customer is told

    @property
    def top_level(self) -> int:
        """The highest approver level any currency names."""
        return max((len(limits.levels) for limits in self.limits.values()), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineBalance:
    """What is gone from one line: money in minor units, whole units in `units_taken`."""

    line_id: str
    total_minor: int
    quantity: int
    reserved_minor: int = 0
    refunded_minor: int = 0
    units_taken: int = 0  # reserved or refunded

    @property
    def left_minor(self) -> int:
        return max(0, self.total_minor - self.reserved_minor - self.refunded_minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentBalance:
    """What is left of one payment, in minor units."""

    payment_id: str
    captured_minor: int
    reserved_minor: int = 0
    refunded_minor: int = 0
    charged_back_minor: int = 0
    overdrawn_minor: int = 0
    disputed: bool = False
    frozen: bool = False

    @property
    def left_minor(self) -> int:
        gone = self.reserved_minor + self.refunded_minor + self.charged_back_minor
        return max(0, self.captured_minor - gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderBooks:
    """Our books of one order: the balances, and which requests took what."""

    lines: tuple[LineBalance, ...] = ()
    payments: tuple[PaymentBalance, ...] = ()
    open_request_ids: tuple[str, ...] = ()
    refunded_request_ids: tuple[str, ...] = ()

    @property
    def taken_minor(self) -> int:
        """Reserved and refunded over all payments: the order's cumulative amount so far."""
        return sum(p.reserved_minor + p.refunded_minor for p in self.payments)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAssessment:
    """The verdict on one line; `refundable_minor` is what could be asked for now.

    `facts` fill this line's reasons: another line of the order may have other days.
    """

    line_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    days_since_delivery: int | None
    last_day: date | None
    refundable_minor: int
    units_left: int
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The verdict on an order. Days and last day are those of the line that ends first."""

    order_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    lines: tuple[LineAssessment, ...]
    currency: str
    days_since_delivery: int | None
    last_day: date | None
    window_days: int | None
    max_refundable_minor: int
    facts: Mapping[str, str]  # fills the reasons' sentences
    policy_id: str
    policy_version: int
    policy_hash: str

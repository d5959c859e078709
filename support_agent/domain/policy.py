"""The refund policy as data: what is in force, and the verdict it gives on an order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType

from support_agent.domain.orders import LineKind, OrderStatus, PaymentMethod
from support_agent.domain.reasons import Language, Reason


class ShippingRule(StrEnum):
    """When the shipping line is refunded without a person's word."""

    NEVER = "never"
    FULL_RETURN = "full_return"  # once nothing of the goods is kept


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
    per_pair_day: int | None = None  # of one approver for one customer


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
    tender_order: tuple[PaymentMethod, ...] = ()  # which payments give back first; then as taken
    shipping: ShippingRule = ShippingRule.NEVER
    clawback: bool = False  # a promotion that is lost is taken off the refund
    return_required: bool = False  # no more is refunded than came back to the shop

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
    def taken_minor(self) -> int:
        return self.reserved_minor + self.refunded_minor

    @property
    def left_minor(self) -> int:
        return max(0, self.total_minor - self.taken_minor)

    @property
    def units_kept(self) -> int:
        return max(0, self.quantity - self.units_taken)


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
class PromotionAtStake:
    """What a promotion gave, by line, where the policy takes it back once it is lost."""

    threshold_minor: int
    value_minor: Mapping[str, int]  # goods that earn it, at the price before the promotion
    given_minor: Mapping[str, int]  # its share of the discounts, and the price of the gifts


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAssessment:
    """The verdict on one line; `refundable_minor` is what could be asked for now.

    `facts` fill this line's reasons: another line of the order may have other days.
    """

    line_id: str
    balance: LineBalance
    kind: LineKind
    verdict: Verdict
    reasons: tuple[Reason, ...]
    days_since_delivery: int | None
    last_day: date | None
    refundable_minor: int
    held_minor: int  # of units that came back, kept because a promotion is lost
    units_left: int
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The verdict on an order. Days and last day are those of the line that ends first.

    `max_refundable_minor` is what all of it comes to: with shipping where the rule gives it, and
    without what a lost promotion keeps back.
    """

    order_id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    lines: tuple[LineAssessment, ...]
    currency: str
    days_since_delivery: int | None
    last_day: date | None
    window_days: int | None
    max_refundable_minor: int
    left_minor: int  # on the payments, whatever the lines allow
    overpaid_minor: int  # captured beyond the order's total and still there; staff give it back
    promotion: PromotionAtStake | None
    facts: Mapping[str, str]  # fills the reasons' sentences
    policy_id: str
    policy_version: int
    policy_hash: str

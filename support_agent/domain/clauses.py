"""Which field of the policy stands behind a reason, so that who reads a verdict can look it up."""

from collections.abc import Mapping
from types import MappingProxyType

from support_agent.domain.policy import Policy
from support_agent.domain.reasons import Reason

R = Reason

# Reasons that no field of the policy decides (a dispute, a balance) are not here.
CLAUSES: Mapping[Reason, str] = MappingProxyType(
    {
        R.WITHIN_WINDOW: "window_days: {window_days}",
        R.WINDOW_EXPIRED: "window_days: {window_days}",
        R.NON_RETURNABLE: "excluded_categories",
        R.STATUS_UNKNOWN: "refundable_statuses",
        R.ORDER_NOT_SHIPPED: "refundable_statuses",
        R.ORDER_SHIPPING: "refundable_statuses",
        R.ORDER_CANCELLED: "refundable_statuses",
        R.LINE_NOT_DELIVERED: "refundable_statuses",
        R.SHIPPING_KEPT: "shipping: {shipping}",
        R.RETURN_NOT_RECEIVED: "return_required",
        R.PROMOTION_LOST: "clawback",
        R.CURRENCY_WITHOUT_LIMITS: "limits",
    }
)
LIMITS: Mapping[Reason, str] = MappingProxyType(
    {
        R.ABOVE_AUTO_LIMIT: "auto",
        R.ABOVE_POLICY_LIMIT: "levels",
        R.CAP_CUSTOMER_DAY: "auto_per_customer_day",
        R.CAP_CUSTOMER_30_DAYS: "auto_per_customer_30_days",
        R.CAP_INSTALLATION_DAY: "auto_per_installation_day",
        R.CAP_APPROVER_DAY: "per_approver_day",
        R.CAP_PAIR_DAY: "per_pair_day",
    }
)


def clause_of(reason: Reason, policy: Policy, currency: str) -> str | None:
    """The policy's field as a policy file writes it, `limits.VND.auto: 200000`; None for none."""
    field = LIMITS.get(reason)
    if field is None:
        clause = CLAUSES.get(reason)
        return clause and clause.format(window_days=policy.window_days, shipping=policy.shipping)
    limits = policy.limits.get(currency)
    if limits is None:
        return f"limits.{currency}"
    value = getattr(limits, field)
    return f"limits.{currency}.{field}: {list(value) if isinstance(value, tuple) else value}"


def level_clauses(policy: Policy, currency: str, *, approvals: int) -> tuple[str, ...]:
    """What of the policy sets the level, and asks for more than one person."""
    limits = policy.limits.get(currency)
    if limits is None:
        return (f"limits.{currency}",)
    levels = f"limits.{currency}.levels: {list(limits.levels)}"
    if approvals == 1:
        return (levels,)
    return (levels, f"limits.{currency}.four_eyes_from: {limits.four_eyes_from}")

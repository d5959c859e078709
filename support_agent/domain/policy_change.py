"""Where a new policy lets more money pass than the one before it."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from support_agent.domain.money import format_money
from support_agent.domain.policy import CurrencyLimits, Policy, ShippingRule

# Ceilings by field: None is no ceiling at all.
CEILINGS: Mapping[str, str] = MappingProxyType(
    {
        "four_eyes_from": "four eyes from",
        "auto_per_customer_day": "automatic per customer and day",
        "auto_per_customer_30_days": "automatic per customer and 30 days",
        "auto_per_installation_day": "automatic per day",
        "per_approver_day": "per approver and day",
        "per_pair_day": "per approver, customer and day",
    }
)


def raised_by(before: Policy, after: Policy) -> tuple[str, ...]:
    """What `after` allows that `before` did not, each in a few words; empty when nothing."""
    return (*_rules(before, after), *_limits(before, after))


def _rules(before: Policy, after: Policy) -> Iterator[str]:
    if after.top_level < before.top_level:
        # Whoever has the top level decides what no limit is set for, and raises limits.
        yield f"top level: {before.top_level} -> {after.top_level}"
    if _is_higher(before.window_days, after.window_days):
        yield f"window: {_days(before.window_days)} -> {_days(after.window_days)}"
    if gone := sorted(before.excluded_categories - after.excluded_categories):
        yield f"no longer excluded: {', '.join(gone)}"
    if new := sorted(after.refundable_statuses - before.refundable_statuses):
        yield f"refundable now: {', '.join(new)}"
    if before.shipping is ShippingRule.NEVER and after.shipping is not ShippingRule.NEVER:
        yield f"shipping: {before.shipping} -> {after.shipping}"
    if before.clawback and not after.clawback:
        yield "a promotion that is lost is no longer taken off"
    if before.return_required and not after.return_required:
        yield "goods need not come back any more"


def _limits(before: Policy, after: Policy) -> Iterator[str]:
    for currency in sorted(before.limits.keys() | after.limits.keys()):
        old, new = before.limits.get(currency), after.limits.get(currency)
        if old is None:
            yield f"{currency}: limits where there were none"
        elif new is None:
            yield f"{currency}: no limits any more, so no amount is refused"
        else:
            yield from _of_currency(currency, old, new)


def _of_currency(currency: str, old: CurrencyLimits, new: CurrencyLimits) -> Iterator[str]:
    def change(name: str, low: int | None, high: int | None) -> str:
        return f"{currency} {name}: {_amount(low, currency)} -> {_amount(high, currency)}"

    if new.auto > old.auto:
        yield change("automatic", old.auto, new.auto)
    for level, limit in enumerate(new.levels, start=1):
        # A level that did not exist passed nothing above the top one.
        earlier = old.levels[min(level, len(old.levels)) - 1]
        if limit > earlier:
            yield change(f"level {level}", earlier, limit)
    for field, name in CEILINGS.items():
        low, high = getattr(old, field), getattr(new, field)
        if _is_higher(low, high):
            yield change(name, low, high)


def _is_higher(before: int | None, after: int | None) -> bool:
    return before is not None and (after is None or after > before)


def _amount(minor: int | None, currency: str) -> str:
    return "no limit" if minor is None else format_money(minor, currency)


def _days(days: int | None) -> str:
    return "none" if days is None else f"{days} days"

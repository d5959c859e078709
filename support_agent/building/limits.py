"""Limits, budgets and terms as the services and the loop take them."""

from datetime import timedelta

from support_agent.agent.budget import RunLimits
from support_agent.domain.usage import Allowance, Allowances, Measure, Scope
from support_agent.services.retention import KeptFor
from support_agent.services.terms import RefundTerms
from support_agent.settings import Settings


def run_limits(settings: Settings) -> RunLimits:
    """Limits of a run, as the loop counts them."""
    limits = settings.limits
    return RunLimits(
        max_steps=limits.max_steps,
        max_calls_per_step=limits.max_calls_per_step,
        max_tool_calls=limits.max_tool_calls,
        run_seconds=limits.run_seconds,
        tool_seconds=limits.tool_seconds,
        max_tokens=limits.max_tokens,
        max_cost_micros=limits.max_cost_micros,
        max_consecutive_errors=limits.max_consecutive_errors,
        max_identical_calls=limits.max_identical_calls,
    )


def usage_allowances(settings: Settings) -> Allowances:
    """What each scope may use, from settings."""
    budgets = settings.budgets

    def allowance(scope: str) -> Allowance:
        return Allowance(**{measure: getattr(budgets, f"{scope}_{measure}") for measure in Measure})

    return {
        Scope.CONVERSATION: allowance("conversation"),
        Scope.CUSTOMER: allowance("customer_day"),
        Scope.CHANNEL: allowance("channel_day"),
        Scope.INSTALLATION: allowance("installation_day"),
    }


def kept_for(settings: Settings) -> KeptFor:
    """How long each class is kept; no days are for good."""
    kept = settings.retention

    def days(many: int) -> timedelta | None:
        return timedelta(days=many) if many else None

    return KeptFor(
        conversations=days(kept.conversation_days),
        deliveries=days(kept.delivery_days),
        provider_events=days(kept.provider_event_days),
        usage=days(kept.usage_days),
    )


def refund_terms(settings: Settings) -> RefundTerms:
    """Terms of quoting, filing, deciding and paying."""
    return RefundTerms(
        quote_valid_for=settings.quote_valid_for,
        decide_within=settings.decide_within,
        request_waits_for=settings.request_waits_for,
        approved_valid_for=settings.approved_valid_for,
        consent_implied=settings.consent.request_refund == "implied",
        gateway_timeout_s=settings.payments.timeout_seconds,
        zone=settings.zone,
    )

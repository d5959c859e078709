"""The gateway that settings name, and what checks its events."""

from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.adapters.payments.stripe_events import StripeEvents
from support_agent.domain.errors import ConfigurationError
from support_agent.settings import Settings


def stripe_gateway(settings: Settings) -> StripeGateway:
    """The gateway of the account PAYMENTS__STRIPE_ACCOUNT names.

    Raises:
        ConfigurationError: key or account are not set, or the key is none of Stripe's.
    """
    payments = settings.payments
    if payments.stripe_key is None:
        raise ConfigurationError(
            "is needed when PAYMENTS__KIND=stripe; a restricted key (rk_...) that may read the "
            "account, charges, payment intents and disputes and write refunds is enough",
            setting="SUPPORT_AGENT_PAYMENTS__STRIPE_KEY",
        )
    return StripeGateway(
        key=payments.stripe_key.get_secret_value(),
        account=_stripe_account(settings),
        timeout_s=payments.timeout_seconds,
        url=payments.stripe_url,
    )


def stripe_events(settings: Settings) -> StripeEvents:
    """What checks the signatures of the webhook endpoint PAYMENTS__WEBHOOK_SECRETS belongs to.

    Raises:
        ConfigurationError: no secret or no account is set.
    """
    if not settings.payments.secrets:
        raise ConfigurationError(
            "is needed to receive events; copy the signing secret (whsec_...) of the endpoint",
            setting="SUPPORT_AGENT_PAYMENTS__WEBHOOK_SECRETS",
        )
    return StripeEvents(secrets=settings.payments.secrets, account=_stripe_account(settings))


def _stripe_account(settings: Settings) -> str:
    if settings.payments.stripe_account is None:
        raise ConfigurationError(
            "is needed when PAYMENTS__KIND=stripe; write the account's id, acct_...",
            setting="SUPPORT_AGENT_PAYMENTS__STRIPE_ACCOUNT",
        )
    return settings.payments.stripe_account

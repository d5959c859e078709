"""The gateway that settings name, and what checks its events."""

from functools import partial

from support_agent.adapters.payments.refusing import RefusingGateway
from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.adapters.payments.stripe_events import StripeEvents
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.payments import PaymentGateway
from support_agent.settings import Settings

KEY = "SUPPORT_AGENT_PAYMENTS__STRIPE_KEY"


def has_gateway(settings: Settings) -> bool:
    """Whether this process can reach the gateway that settings name, as payouts must."""
    return settings.payments.kind != "stripe" or settings.payments.stripe_key is not None


def stripe_or_none(settings: Settings) -> PaymentGateway:
    """Stripe, or what stands in its place where PAYOUTS__RUN=worker leaves payouts to a worker.

    Asked all the same it is no refusal of the gateway's, which would pause payouts everywhere.

    Raises:
        ConfigurationError: as `stripe_gateway`.
    """
    if has_gateway(settings) or settings.payouts.run == "here":
        return stripe_gateway(settings)
    return RefusingGateway(
        name="stripe",
        livemode=settings.profile == "prod",
        books_only=False,
        why="is not set here (PAYOUTS__RUN=worker); run this where the worker that pays runs",
        error=partial(ConfigurationError, setting=KEY),
    )


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
            setting=KEY,
        )
    return StripeGateway(
        key=payments.stripe_key.get_secret_value(),
        account=_stripe_account(settings),
        timeout_s=payments.timeout_seconds,
        url=payments.stripe_url,
    )


def no_gateway(settings: Settings, *, why: str) -> RefusingGateway:
    """In place of the gateway that settings name; needs none of its keys."""
    payments = settings.payments
    return RefusingGateway(
        name=payments.kind,
        livemode=payments.moves_real_money,
        books_only=payments.kind == "ledger" and payments.ledger_is_books_only,
        why=why,
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

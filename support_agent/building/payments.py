"""The gateway that settings name, and what checks its events."""

from functools import partial

from support_agent.adapters.payments.guarded import GuardedGateway
from support_agent.adapters.payments.http import HttpGateway
from support_agent.adapters.payments.refusing import RefusingEvents, RefusingGateway
from support_agent.adapters.payments.stripe import StripeGateway
from support_agent.adapters.payments.stripe_events import StripeEvents
from support_agent.building.plugins import load_class, made
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.payments import PaymentGateway
from support_agent.settings import Settings

PREFIX = "SUPPORT_AGENT_PAYMENTS__"
CLASS = f"{PREFIX}CLASS"
# What a process that pays has of each kind, and one that leaves it to a worker has not.
CREDENTIALS = {
    "stripe": f"{PREFIX}STRIPE_KEY",
    "http": f"{PREFIX}SIGNING_SECRETS",
    "class": CLASS,
}


def has_gateway(settings: Settings) -> bool:
    """Whether this process can reach the gateway that settings name, as payouts must."""
    payments = settings.payments
    match payments.kind:
        case "stripe":
            return payments.stripe_key is not None
        case "http":
            return bool(payments.signers)
        case "class":
            return not isinstance(class_or_none(settings), RefusingGateway)
        case _:
            return True


def is_reached(gateway: PaymentGateway) -> bool:
    """`has_gateway` of one that was made already: a class of somebody's own is made only once."""
    return not isinstance(gateway, RefusingGateway)


def gateway_credentials(settings: Settings) -> str:
    """The setting that a process needs to pay."""
    return CREDENTIALS[settings.payments.kind]


def stripe_or_none(settings: Settings) -> PaymentGateway:
    """Stripe, or what stands in its place where PAYOUTS__RUN=worker leaves payouts to a worker.

    Raises:
        ConfigurationError: as `stripe_gateway`.
    """
    if has_gateway(settings) or settings.payouts.run == "here":
        return stripe_gateway(settings)
    return _elsewhere(settings, name="stripe", livemode=settings.profile == "prod")


def http_or_none(settings: Settings) -> PaymentGateway:
    """The shop's refund endpoint, or what stands in its place; see `stripe_or_none`.

    Raises:
        ConfigurationError: as `http_gateway`.
    """
    if has_gateway(settings) or settings.payouts.run == "here":
        return http_gateway(settings)
    return _elsewhere(settings, name=HttpGateway.name, livemode=settings.payments.livemode)


def class_or_none(settings: Settings) -> PaymentGateway:
    """The class of PAYMENTS__CLASS, or what stands in its place; see `stripe_or_none`.

    It says itself that its credentials are not here: with a ConfigurationError when it is made.

    Raises:
        ConfigurationError: as `class_gateway`.
    """
    try:
        return class_gateway(settings)
    except ConfigurationError as error:
        of_its_own = isinstance(error.__cause__, ConfigurationError)
        if settings.payouts.run == "here" or not of_its_own:
            raise
    found = load_class(str(settings.payments.class_), setting=CLASS)
    name, books_only = getattr(found, "name", None), getattr(found, "books_only", None)
    if not isinstance(name, str) or not isinstance(books_only, bool):
        raise ConfigurationError(
            f"{settings.payments.class_!r} cannot be made here, and its name and books_only are no "
            "attributes of the class",
            setting=CLASS,
        )
    return _elsewhere(
        settings, name=name, livemode=settings.payments.livemode, books_only=books_only
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
            setting=CREDENTIALS["stripe"],
        )
    return StripeGateway(
        key=payments.stripe_key.get_secret_value(),
        account=_stripe_account(settings),
        timeout_s=payments.timeout_seconds,
        url=payments.stripe_url,
    )


def http_gateway(settings: Settings) -> HttpGateway:
    """The shop's own refund endpoint at PAYMENTS__URL; docs/refund-endpoint.md says what it does.

    Raises:
        ConfigurationError: address, account or secrets are not set, or the extra is not installed.
    """
    payments = settings.payments
    needed = {
        "URL": (payments.url, "write the address of the shop's refund endpoint"),
        "ACCOUNT": (payments.account, "write whose payments are refunded there"),
        "SIGNING_SECRETS": (
            payments.signers,
            "write whsec_ and the base64 of 32 random bytes; the endpoint verifies with the same",
        ),
    }
    for name, (value, what_to_do) in needed.items():
        if not value:
            raise ConfigurationError(
                f"is needed when PAYMENTS__KIND=http; {what_to_do}", setting=f"{PREFIX}{name}"
            )
    return HttpGateway(
        url=str(payments.url),
        account=str(payments.account),
        secrets=payments.signers,
        livemode=payments.livemode,
        timeout_s=payments.timeout_seconds,
    )


def class_gateway(settings: Settings) -> GuardedGateway:
    """A gateway of somebody's own, made without arguments and held to the port.

    Raises:
        ConfigurationError: it cannot be made, lacks something of the port, or is not in the mode
            that PAYMENTS__LIVEMODE tells.
    """
    value, wanted = settings.payments.class_, settings.payments.livemode
    gateway: PaymentGateway = made(value, setting=CLASS, port=PaymentGateway)
    name: object = gateway.name
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"{value!r} has no name that is a text", setting=CLASS)
    for flag in ("livemode", "books_only"):
        if not isinstance(getattr(gateway, flag), bool):
            raise ConfigurationError(f"{value!r}: {flag} is neither True nor False", setting=CLASS)
    if gateway.livemode is not wanted:
        raise ConfigurationError(
            f"is {str(wanted).lower()}, but {value!r} says livemode={gateway.livemode}; "
            "make them equal",
            setting=f"{PREFIX}LIVEMODE",
        )
    return GuardedGateway(gateway)


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


def no_events(settings: Settings) -> RefusingEvents:
    """Of a gateway that reports nothing by itself: the reconciler asks it."""
    return RefusingEvents(f"with PAYMENTS__KIND={settings.payments.kind} nobody sends events")


def _elsewhere(
    settings: Settings, *, name: str, livemode: bool, books_only: bool = False
) -> RefusingGateway:
    """Where PAYOUTS__RUN=worker leaves payouts to a worker.

    Asked all the same it is no refusal of the gateway's, which would pause payouts everywhere.
    """
    return RefusingGateway(
        name=name,
        livemode=livemode,
        books_only=books_only,
        why="is not set here (PAYOUTS__RUN=worker); run this where the worker that pays runs",
        error=partial(ConfigurationError, setting=gateway_credentials(settings)),
    )


def _stripe_account(settings: Settings) -> str:
    if settings.payments.stripe_account is None:
        raise ConfigurationError(
            "is needed when PAYMENTS__KIND=stripe; write the account's id, acct_...",
            setting="SUPPORT_AGENT_PAYMENTS__STRIPE_ACCOUNT",
        )
    return settings.payments.stripe_account

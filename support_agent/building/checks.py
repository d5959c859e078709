"""What must fit together before anything is served."""

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.policy import Policy
from support_agent.ports.storage import Transaction
from support_agent.services.policies import PoliciesInForce
from support_agent.settings import Settings


def check_installation(tx: Transaction, settings: Settings) -> None:
    """Nothing that pretends stands beside a live database or a live key.

    Raises:
        ConfigurationError: it does; says what to change.
    """
    live = tx.installation.is_live()
    real_money = live or settings.payments.moves_real_money
    dangers = settings.live_dangers() if real_money else ()
    if dangers:
        what = "this database" if live else "the key in PAYMENTS__STRIPE_KEY"
        raise ConfigurationError(f"{what} is live: {'; '.join(dangers)}")


def check_policy(tx: Transaction, policies: PoliciesInForce, settings: Settings) -> None:
    """The stored policy is unchanged and counts days where the shop does."""
    stored = tx.policies.in_force()
    if stored is None:
        return
    check_zone(policies.parsed(stored), settings)


def check_zone(policy: Policy, settings: Settings) -> None:
    """A policy counts civil days where the shop does.

    Raises:
        ConfigurationError: it does not; names both.
    """
    if policy.time_zone != settings.shop.time_zone:
        raise ConfigurationError(
            f"is {settings.shop.time_zone!r}, but policy {policy.id!r} counts days in "
            f"{policy.time_zone!r}; make them equal",
            setting="SUPPORT_AGENT_SHOP__TIME_ZONE",
        )

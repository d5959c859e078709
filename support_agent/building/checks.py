"""What must fit together before anything is served."""

from contextlib import suppress
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from support_agent.domain.errors import ConfigurationError, OrdersUnavailable
from support_agent.domain.policy import Policy
from support_agent.ports.orders import OrderRepository
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
        what = "this database is live" if live else _what_is_live(settings)
        raise ConfigurationError(f"{what}: {'; '.join(dangers)}")


def _what_is_live(settings: Settings) -> str:
    """What moves real money beside a database that is not live."""
    if settings.payments.kind == "stripe":
        return "the key in PAYMENTS__STRIPE_KEY is live"
    return "PAYMENTS__LIVEMODE=true moves real money"


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


def check_ledger(settings: Settings) -> None:
    """The ledger gateway plays at paying the sample shop's orders; of others it keeps the books.

    Raises:
        ConfigurationError: it would tell customers of another shop that they were paid.
    """
    payments = settings.payments
    played = payments.kind == "ledger" and not payments.ledger_is_books_only
    if settings.orders.kind != "sql" and played:
        raise ConfigurationError(
            f"is 'ledger', which moves no money, but ORDERS__KIND={settings.orders.kind} are real "
            "orders; set SUPPORT_AGENT_PAYMENTS__LEDGER_IS_BOOKS_ONLY=true if refunds are only to "
            "be recorded and somebody else pays them, or name a gateway",
            setting="SUPPORT_AGENT_PAYMENTS__KIND",
        )


def check_own_tables(settings: Settings) -> None:
    """Our tables do not go among those of the shop whose orders we only read.

    A schema of the shop's server may be ours; the same role would be led to the same one.

    Raises:
        ConfigurationError: they would.
    """
    if settings.orders.kind != "mapped" or settings.orders.url is None:
        return
    try:
        shop = _place(make_url(settings.orders.url))
    except (ArgumentError, ValueError):
        return  # told when it is opened
    if shop in {_place(make_url(url)) for url in _our_addresses(settings)}:
        raise ConfigurationError(
            "is the shop's own database, that of ORDERS__URL, which is only ever read; name one "
            "of its own for this program",
            setting="SUPPORT_AGENT_DATABASE__URL",
        )


def _our_addresses(settings: Settings) -> tuple[str, ...]:
    return settings.database.url, settings.of_owner.database.url


def _place(url: URL) -> tuple[object, ...]:
    if url.get_backend_name() == "sqlite":
        return ("sqlite", Path(url.database or "").resolve())
    role = (url.username, url.host or "", url.port or 5432, url.database)
    return (*role, tuple(sorted(url.query.items())))


async def check_orders(orders: OrderRepository) -> None:
    """A map fits the shop's database; one that does not answer now is asked again with an order.

    Raises:
        ConfigurationError: it does not; says what to change.
    """
    from support_agent.adapters.orders.mapped.orders import (  # noqa: PLC0415 - as building/orders.py
        MappedOrders,
    )

    if isinstance(orders, MappedOrders):
        with suppress(OrdersUnavailable):  # told in the log; the queue is served all the same
            await orders.check()

"""The ground: settings, clock, keys, database, queue, and the foreign systems we ask."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from dependency_injector import containers, providers

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import load_keys
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.adapters.payments.ledger import LedgerEvents, LedgerGateway
from support_agent.adapters.queue.inline import InlineQueue
from support_agent.adapters.queue.procrastinate import ProcrastinateQueue
from support_agent.adapters.system import SortableIds, SystemClock
from support_agent.agent.budget import RunLimits
from support_agent.building.closing import closed_later
from support_agent.building.limits import refund_terms, run_limits, usage_allowances
from support_agent.building.models import (
    Prices,
    chat_model,
    price_sheet,
    small_model,
)
from support_agent.building.orders import http_orders, mapped_orders, own_orders
from support_agent.building.payments import (
    class_or_none,
    http_or_none,
    no_events,
    stripe_events,
    stripe_or_none,
)
from support_agent.domain.signing import KeyRing
from support_agent.domain.usage import Allowances
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.events import EventVerifier
from support_agent.ports.model import ChatModel
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import PaymentGateway
from support_agent.ports.queue import TurnQueue
from support_agent.services.terms import RefundTerms
from support_agent.settings import Settings, load_settings
from support_agent.testing.clock import FixedClock

Once = providers.ThreadSafeSingleton  # a plain Singleton built eight instances under eight threads


def machine_clock() -> Callable[[], datetime]:
    """What time this machine has, whatever business time is."""
    return SystemClock().now


class Foundation(containers.DeclarativeContainer):
    """What everything stands on, and the outside: orders, gateway, model."""

    settings: providers.Provider[Settings] = Once(load_settings)
    terms: providers.Provider[RefundTerms] = Once(refund_terms, settings)
    limits: providers.Provider[RunLimits] = Once(run_limits, settings)
    allowances: providers.Provider[Allowances] = Once(usage_allowances, settings)

    to_close: providers.Provider[list[Any]] = Once(list)

    ids: providers.Provider[Ids] = Once(SortableIds)
    clock: providers.Provider[Clock] = providers.Selector(
        settings.provided.clock.kind,
        system=Once(SystemClock),
        fixed=Once(FixedClock, settings.provided.clock.now),
    )
    # Held against the database's clock before a payment is sent again; tests move both.
    wall_clock: providers.Provider[Callable[[], datetime]] = Once(machine_clock)
    keys: providers.Provider[KeyRing] = Once(
        load_keys,
        configured=settings.provided.security.keys,
        database_url=settings.provided.database.url,
    )
    database: providers.Provider[SqlDatabase] = Once(
        closed_later,
        to_close,
        providers.Object(SqlDatabase),
        settings.provided.database.url,
        keys,
        busy_timeout_s=settings.provided.database.busy_seconds,
    )
    queue: providers.Provider[TurnQueue] = providers.Selector(
        settings.provided.queue.kind,
        inline=Once(InlineQueue),
        procrastinate=Once(ProcrastinateQueue, database_url=settings.provided.database.url),
    )

    orders: providers.Provider[OrderRepository] = providers.Selector(
        settings.provided.orders.kind,
        sql=Once(SqlOrders, database),
        mapped=Once(closed_later, to_close, providers.Object(mapped_orders), settings),
        http=Once(closed_later, to_close, providers.Object(http_orders), settings),
        **{"class": Once(own_orders, settings, to_close)},
    )
    gateway: providers.Provider[PaymentGateway] = providers.Selector(
        settings.provided.payments.kind,
        ledger=Once(
            closed_later,
            to_close,
            providers.Object(LedgerGateway),
            database,
            books_only=settings.provided.payments.ledger_is_books_only,
        ),
        stripe=Once(closed_later, to_close, providers.Object(stripe_or_none), settings),
        http=Once(closed_later, to_close, providers.Object(http_or_none), settings),
        **{"class": Once(closed_later, to_close, providers.Object(class_or_none), settings)},
    )
    events: providers.Provider[EventVerifier] = providers.Selector(
        settings.provided.payments.kind,
        ledger=Once(LedgerEvents),
        stripe=Once(stripe_events, settings),
        http=Once(no_events, settings),
        **{"class": Once(no_events, settings)},
    )
    prices: providers.Provider[Prices] = Once(price_sheet, settings)
    model: providers.Provider[ChatModel] = Once(chat_model, settings, prices, to_close)
    small_model: providers.Provider[ChatModel | None] = Once(
        small_model, settings, prices, to_close
    )

"""The composition root: what is built from what. The only file that imports dependency_injector.

Spring's words: a class attribute is a @Bean, `Selector` is @ConditionalOnProperty, `List` is
List<Tool>, `open_container` is @PostConstruct and @PreDestroy.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any

from dependency_injector import containers, providers

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import load_keys
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.adapters.payments.ledger import LedgerEvents, LedgerGateway
from support_agent.adapters.policy_files import policy_from_body
from support_agent.adapters.system import SortableIds, SystemClock
from support_agent.agent.answers import Answers
from support_agent.agent.asides import Asides
from support_agent.agent.budget import RunLimits
from support_agent.agent.intent import Intents
from support_agent.agent.loop import AgentLoop
from support_agent.agent.metering import Metering
from support_agent.agent.prompt import SYSTEM
from support_agent.agent.recap import Recaps
from support_agent.agent.summaries import Summaries
from support_agent.agent.tool_runner import ToolRunner
from support_agent.agent.turns import Agent
from support_agent.agent.views import Marks, Views
from support_agent.building.checks import check_installation, check_policy
from support_agent.building.closing import closed_later
from support_agent.building.limits import refund_terms, run_limits, usage_allowances
from support_agent.building.models import (
    Prices,
    chat_model,
    dearest_price,
    intents_of,
    price_sheet,
    small_model,
)
from support_agent.building.payments import stripe_events, stripe_gateway
from support_agent.domain.people import Proof
from support_agent.domain.signing import KeyRing
from support_agent.domain.usage import Allowances
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.events import EventVerifier
from support_agent.ports.model import ChatModel
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import PaymentGateway
from support_agent.ports.tool import Tool
from support_agent.services.approvals import Approvals
from support_agent.services.approvers import Approvers
from support_agent.services.audit import check_keys
from support_agent.services.breaker import Breaker
from support_agent.services.clearance import Clearance
from support_agent.services.conversations import ConversationDesk
from support_agent.services.destinations import Destinations
from support_agent.services.disputes import Disputes
from support_agent.services.escalations import Escalations
from support_agent.services.filing import Filing
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.gateway_refunds import GatewayRefunds
from support_agent.services.order_lookup import OrderLookup
from support_agent.services.outcomes import Outcomes
from support_agent.services.payouts import Payouts
from support_agent.services.policies import PoliciesInForce
from support_agent.services.policy_activation import PolicyActivation
from support_agent.services.policy_check import PolicyCheck
from support_agent.services.provider_events import ProviderEvents
from support_agent.services.quotes import Quotes
from support_agent.services.reconciliation import Reconciliation
from support_agent.services.refunds import RefundLife
from support_agent.services.reports import Reporting
from support_agent.services.rereads import Rereads
from support_agent.services.resolutions import Resolutions
from support_agent.services.retries import Retries
from support_agent.services.seeding import Seeding
from support_agent.services.sending import Sending
from support_agent.services.staff import StaffDesk
from support_agent.services.switches import Switchboard
from support_agent.services.terms import RefundTerms
from support_agent.services.unknown_orders import UnknownOrders
from support_agent.services.usage import UsageMeter
from support_agent.services.usage_tasks import UnusualRule, UnusualUse
from support_agent.settings import Settings, load_settings
from support_agent.testing.clock import FixedClock
from support_agent.tools.cancel_refund import CancelRefund
from support_agent.tools.hand_off import HandOff
from support_agent.tools.list_orders import ListOrders
from support_agent.tools.lookup_order import LookupOrder
from support_agent.tools.quote_refund import QuoteRefund
from support_agent.tools.refund_policy import RefundPolicy
from support_agent.tools.refund_status import RefundStatus
from support_agent.tools.request_refund import RequestRefund

MONEY_TOOLS = frozenset({RequestRefund.name})
Once = providers.ThreadSafeSingleton  # a plain Singleton built eight instances under eight threads


def machine_clock() -> Callable[[], datetime]:
    """What time this machine has, whatever business time is."""
    return SystemClock().now


class Container(containers.DeclarativeContainer):
    """Everything, each built once on first use. Nobody is handed the container itself."""

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

    orders: providers.Provider[OrderRepository] = providers.Selector(
        settings.provided.orders.kind, sql=Once(SqlOrders, database)
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
        stripe=Once(closed_later, to_close, providers.Object(stripe_gateway), settings),
    )
    events: providers.Provider[EventVerifier] = providers.Selector(
        settings.provided.payments.kind,
        ledger=Once(LedgerEvents),
        stripe=Once(stripe_events, settings),
    )
    prices: providers.Provider[Prices] = Once(price_sheet, settings)
    model: providers.Provider[ChatModel] = Once(chat_model, settings, prices, to_close)
    small_model: providers.Provider[ChatModel | None] = Once(
        small_model, settings, prices, to_close
    )

    policies: providers.Provider[PoliciesInForce] = Once(
        PoliciesInForce, parse=providers.Object(policy_from_body), keys=keys
    )
    policy_activation: providers.Provider[PolicyActivation] = Once(
        PolicyActivation, policies=policies, keys=keys, clock=clock
    )
    policy_check: providers.Provider[PolicyCheck] = Once(
        PolicyCheck, database=database, orders=orders, policies=policies, clock=clock
    )
    lookup: providers.Provider[OrderLookup] = Once(
        OrderLookup, orders=orders, database=database, clock=clock
    )
    switchboard: providers.Provider[Switchboard] = Once(Switchboard, keys=keys, clock=clock)
    life: providers.Provider[RefundLife] = Once(
        RefundLife, clock=clock, books_only=gateway.provided.books_only
    )
    quotes: providers.Provider[Quotes] = Once(
        Quotes,
        policies=policies,
        switchboard=switchboard,
        terms=terms,
        keys=keys,
        clock=clock,
        ids=ids,
    )
    destinations: providers.Provider[Destinations] = Once(
        Destinations, database=database, orders=orders, keys=keys, clock=clock, ids=ids
    )
    filing: providers.Provider[Filing] = Once(
        Filing, quotes=quotes, life=life, terms=terms, keys=keys, clock=clock, ids=ids
    )
    calls: providers.Provider[GatewayCalls] = Once(
        GatewayCalls, gateway=gateway, timeout_s=terms.provided.gateway_timeout_s
    )
    breaker: providers.Provider[Breaker] = Once(
        Breaker, database=database, switchboard=switchboard, clock=clock
    )
    clearance: providers.Provider[Clearance] = Once(
        Clearance, policies=policies, keys=keys, clock=clock, gateway=gateway
    )
    outcomes: providers.Provider[Outcomes] = Once(
        Outcomes, database=database, life=life, keys=keys, clock=clock
    )
    sending: providers.Provider[Sending] = Once(
        Sending, database=database, calls=calls, outcomes=outcomes, breaker=breaker
    )
    reconciliation: providers.Provider[Reconciliation] = Once(
        Reconciliation,
        database=database,
        calls=calls,
        sending=sending,
        clearance=clearance,
        outcomes=outcomes,
        breaker=breaker,
        switchboard=switchboard,
        life=life,
        clock=clock,
        wall_clock=wall_clock,
    )
    rereads: providers.Provider[Rereads] = Once(
        Rereads, database=database, calls=calls, outcomes=outcomes, breaker=breaker, clock=clock
    )
    gateway_refunds: providers.Provider[GatewayRefunds] = Once(
        GatewayRefunds,
        database=database,
        calls=calls,
        outcomes=outcomes,
        breaker=breaker,
        clock=clock,
        lookback=settings.provided.gateway_lookback,
    )
    provider_events: providers.Provider[ProviderEvents] = Once(
        ProviderEvents,
        database=database,
        calls=calls,
        verifier=events,
        gateway_refunds=gateway_refunds,
        disputes=Once(Disputes, keys=keys, clock=clock),
        breaker=breaker,
        clock=clock,
        wall_clock=wall_clock,
        account=settings.provided.payments.stripe_account,
    )
    payouts: providers.Provider[Payouts] = Once(
        Payouts,
        database=database,
        orders=orders,
        calls=calls,
        sending=sending,
        clearance=clearance,
        breaker=breaker,
        switchboard=switchboard,
        reconciliation=reconciliation,
        rereads=rereads,
        gateway_refunds=gateway_refunds,
        life=life,
        clock=clock,
        ids=ids,
    )
    approvals: providers.Provider[Approvals] = Once(
        Approvals,
        database=database,
        orders=orders,
        life=life,
        policies=policies,
        terms=terms,
        keys=keys,
        clock=clock,
        ids=ids,
        proof=Once(Proof, settings.provided.approvals.proof),
    )
    staff: providers.Provider[StaffDesk] = Once(
        StaffDesk, database=database, orders=orders, filing=filing, keys=keys
    )
    retries: providers.Provider[Retries] = Once(
        Retries,
        database=database,
        orders=orders,
        gateway=gateway,
        life=life,
        policies=policies,
        terms=terms,
        keys=keys,
        clock=clock,
    )
    resolutions: providers.Provider[Resolutions] = Once(
        Resolutions,
        database=database,
        gateway=gateway,
        life=life,
        terms=terms,
        keys=keys,
        clock=clock,
        ids=ids,
    )
    escalations: providers.Provider[Escalations] = Once(
        Escalations,
        database=database,
        life=life,
        policies=policies,
        terms=terms,
        keys=keys,
        clock=clock,
    )
    reporting: providers.Provider[Reporting] = Once(Reporting, database=database, clock=clock)
    approvers: providers.Provider[Approvers] = Once(
        Approvers, database=database, orders=orders, clock=clock
    )
    desk: providers.Provider[ConversationDesk] = Once(
        ConversationDesk,
        database=database,
        orders=orders,
        clock=clock,
        ids=ids,
        default_language=settings.provided.shop.language,
    )
    seeding: providers.Provider[Seeding] = Once(
        Seeding,
        database=database,
        shop=orders,
        policies=policies,
        clock=clock,
        moves_real_money=settings.provided.payments.moves_real_money,
    )

    # A new tool is one file and one line here.
    tools: providers.Provider[list[Tool[Any]]] = providers.List(
        Once(
            LookupOrder, lookup=lookup, quotes=quotes, database=database, zone=terms.provided.zone
        ),
        Once(ListOrders, lookup=lookup, zone=terms.provided.zone),
        Once(RefundPolicy, policies=policies, database=database),
        Once(QuoteRefund, lookup=lookup, quotes=quotes, zone=terms.provided.zone),
        Once(RequestRefund, lookup=lookup, filing=filing, payouts=payouts, database=database),
        Once(RefundStatus, database=database, clock=clock),
        Once(CancelRefund, life=life, database=database, clock=clock),
        Once(HandOff, clock=clock, ids=ids),
    )
    tool_runner: providers.Provider[ToolRunner] = Once(
        ToolRunner,
        tools=tools,
        database=database,
        unknown_orders=Once(
            UnknownOrders, clock=clock, limit=settings.provided.limits.unknown_orders
        ),
        money_tools=providers.Object(MONEY_TOOLS),
    )
    system_prompt: providers.Provider[str] = providers.Object(SYSTEM)
    meter: providers.Provider[UsageMeter] = Once(
        UsageMeter, allowances=allowances, clock=clock, zone=terms.provided.zone
    )
    unusual_use: providers.Provider[UnusualUse] = Once(
        UnusualUse,
        database=database,
        clock=clock,
        zone=terms.provided.zone,
        rule=Once(
            UnusualRule,
            factor=settings.provided.budgets.unusual_factor,
            least_requests=settings.provided.budgets.unusual_requests,
            least_tokens=settings.provided.budgets.unusual_tokens,
        ),
    )
    metering: providers.Provider[Metering] = Once(
        Metering,
        meter=meter,
        database=database,
        price=Once(dearest_price, settings, prices),
        max_output_tokens=settings.provided.model.max_output_tokens,
        limits=limits,
    )
    marks: providers.Provider[Marks] = Once(
        Marks,
        high=settings.provided.history.high_water_tokens,
        low=settings.provided.history.low,
    )
    asides: providers.Provider[Asides] = Once(
        Asides,
        model=small_model,
        metering=metering,
        timeout_s=settings.provided.limits.model_seconds,
    )
    summaries: providers.Provider[Summaries] = Once(
        Summaries, asides=asides, longest=marks.provided.summary_chars
    )
    intents: providers.Provider[Intents | None] = Once(
        intents_of, settings.provided.model.intent, asides
    )
    views: providers.Provider[Views] = Once(
        Views,
        system=system_prompt,
        tools=tool_runner.provided.specs,
        marks=marks,
        recaps=Once(Recaps, database=database, clock=clock, summaries=summaries, intents=intents),
        database=database,
    )
    loop: providers.Provider[AgentLoop] = Once(
        AgentLoop,
        model=model,
        tools=tool_runner,
        views=views,
        metering=metering,
        database=database,
        clock=clock,
        system=system_prompt,
    )
    answers: providers.Provider[Answers] = Once(
        Answers,
        clock=clock,
        zone=terms.provided.zone,
        books_only=gateway.provided.books_only,
        link_hosts=settings.provided.shop.hosts,
    )
    agent: providers.Provider[Agent] = Once(
        Agent,
        database=database,
        desk=desk,
        loop=loop,
        limits=limits,
        terms=terms,
        clock=clock,
        ids=ids,
        answers=answers,
        max_chars=settings.provided.limits.message_chars,
    )


@asynccontextmanager
async def open_container(
    settings: Settings | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    check_history: bool = True,
) -> AsyncIterator[Container]:
    """A checked container for the time of the block; closed in reverse order after it.

    Args:
        settings: taken from the environment when left out.
        overrides: other objects by provider name, e.g. `{"model": ScriptedModel(...)}`.
        check_history: stop when the audit chain's newest event is not signed by our keys; only
            what examines a broken chain leaves it out.

    Raises:
        ConfigurationError: settings, schema, policy or a live database do not fit together.
    """
    container = Container()
    replaced = dict(overrides or {})
    if settings is not None:
        replaced["settings"] = settings
    container.override_providers(
        **{name: providers.Object(value) for name, value in replaced.items()}
    )
    try:
        await check(container, history=check_history)
        yield container
    finally:
        await _close(container)


async def check(container: Container, *, history: bool = True) -> None:
    """Stop the start when something does not fit, before anything is served."""
    settings = container.settings()
    if settings.payments.kind == "stripe":
        container.gateway()  # says at once which of its settings is missing
    database = container.database()
    await database.check_schema()
    await database.read(lambda tx: check_installation(tx, settings))
    await database.read(lambda tx: check_policy(tx, container.policies(), settings))
    if history:
        await database.read(lambda tx: check_keys(tx, container.keys()))


async def _close(container: Container) -> None:
    """Close what was built, the last built first, also when closing one of them fails.

    What a caller put in is the caller's to close.
    """
    async with AsyncExitStack() as last_first:
        for built in container.to_close():
            last_first.push_async_callback(built.aclose)

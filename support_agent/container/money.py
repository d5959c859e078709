"""The refund and its queue: policy, quotes, filing, decisions, payouts and who may do what."""

from dependency_injector import providers

from support_agent.adapters.customer_tokens import CustomerTokens
from support_agent.adapters.policy_files import policy_from_body
from support_agent.building.api import customer_tokens_of
from support_agent.building.orders import talk_orders
from support_agent.container.foundation import Foundation, Once
from support_agent.domain.people import Proof
from support_agent.services.api_keys import ApiKeys
from support_agent.services.approvals import Approvals
from support_agent.services.approvers import Approvers
from support_agent.services.breaker import Breaker
from support_agent.services.clearance import Clearance
from support_agent.services.customer_refunds import CustomerRefunds
from support_agent.services.decision_desk import DecisionDesk
from support_agent.services.destinations import Destinations
from support_agent.services.disputes import Disputes
from support_agent.services.escalations import Escalations
from support_agent.services.filing import Filing
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.gateway_refunds import GatewayRefunds
from support_agent.services.order_lookup import OrderLookup
from support_agent.services.outcomes import Outcomes
from support_agent.services.paid_elsewhere import PaidElsewhere, Payer
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


class Money(Foundation):
    """Quoting, filing, deciding and paying, and the rules and people of it."""

    policies: providers.Provider[PoliciesInForce] = Once(
        PoliciesInForce, parse=providers.Object(policy_from_body), keys=Foundation.keys
    )
    policy_activation: providers.Provider[PolicyActivation] = Once(
        PolicyActivation, policies=policies, keys=Foundation.keys, clock=Foundation.clock
    )
    policy_check: providers.Provider[PolicyCheck] = Once(
        PolicyCheck,
        database=Foundation.database,
        orders=Foundation.orders,
        policies=policies,
        clock=Foundation.clock,
    )
    lookup: providers.Provider[OrderLookup] = Once(
        OrderLookup, orders=Foundation.orders, database=Foundation.database, clock=Foundation.clock
    )
    # For tools that only tell; whatever quotes, files, decides or pays asks the shop anew.
    talk_lookup: providers.Provider[OrderLookup] = Once(
        OrderLookup,
        orders=Once(talk_orders, Foundation.orders, Foundation.settings),
        database=Foundation.database,
        clock=Foundation.clock,
    )
    switchboard: providers.Provider[Switchboard] = Once(
        Switchboard, keys=Foundation.keys, clock=Foundation.clock
    )
    life: providers.Provider[RefundLife] = Once(
        RefundLife, clock=Foundation.clock, books_only=Foundation.gateway.provided.books_only
    )
    quotes: providers.Provider[Quotes] = Once(
        Quotes,
        policies=policies,
        switchboard=switchboard,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
        ids=Foundation.ids,
    )
    destinations: providers.Provider[Destinations] = Once(
        Destinations,
        database=Foundation.database,
        orders=Foundation.orders,
        keys=Foundation.keys,
        clock=Foundation.clock,
        ids=Foundation.ids,
    )
    filing: providers.Provider[Filing] = Once(
        Filing,
        quotes=quotes,
        life=life,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
        ids=Foundation.ids,
    )
    calls: providers.Provider[GatewayCalls] = Once(
        GatewayCalls,
        gateway=Foundation.gateway,
        timeout_s=Foundation.terms.provided.gateway_timeout_s,
    )
    breaker: providers.Provider[Breaker] = Once(
        Breaker, database=Foundation.database, switchboard=switchboard, clock=Foundation.clock
    )
    clearance: providers.Provider[Clearance] = Once(
        Clearance,
        policies=policies,
        keys=Foundation.keys,
        clock=Foundation.clock,
        gateway=Foundation.gateway,
    )
    outcomes: providers.Provider[Outcomes] = Once(
        Outcomes,
        database=Foundation.database,
        life=life,
        keys=Foundation.keys,
        clock=Foundation.clock,
    )
    sending: providers.Provider[Sending] = Once(
        Sending, database=Foundation.database, calls=calls, outcomes=outcomes, breaker=breaker
    )
    reconciliation: providers.Provider[Reconciliation] = Once(
        Reconciliation,
        database=Foundation.database,
        calls=calls,
        sending=sending,
        clearance=clearance,
        outcomes=outcomes,
        breaker=breaker,
        switchboard=switchboard,
        life=life,
        clock=Foundation.clock,
        wall_clock=Foundation.wall_clock,
    )
    rereads: providers.Provider[Rereads] = Once(
        Rereads,
        database=Foundation.database,
        calls=calls,
        outcomes=outcomes,
        breaker=breaker,
        clock=Foundation.clock,
    )
    gateway_refunds: providers.Provider[GatewayRefunds] = Once(
        GatewayRefunds,
        database=Foundation.database,
        calls=calls,
        outcomes=outcomes,
        breaker=breaker,
        clock=Foundation.clock,
        lookback=Foundation.settings.provided.gateway_lookback,
    )
    provider_events: providers.Provider[ProviderEvents] = Once(
        ProviderEvents,
        database=Foundation.database,
        calls=calls,
        verifier=Foundation.events,
        gateway_refunds=gateway_refunds,
        disputes=Once(Disputes, keys=Foundation.keys, clock=Foundation.clock),
        breaker=breaker,
        clock=Foundation.clock,
        wall_clock=Foundation.wall_clock,
        account=Foundation.settings.provided.payments.stripe_account,
    )
    payouts: providers.Provider[Payouts] = Once(
        Payouts,
        database=Foundation.database,
        orders=Foundation.orders,
        calls=calls,
        sending=sending,
        clearance=clearance,
        breaker=breaker,
        switchboard=switchboard,
        reconciliation=reconciliation,
        rereads=rereads,
        gateway_refunds=gateway_refunds,
        life=life,
        clock=Foundation.clock,
        ids=Foundation.ids,
    )
    # What pays after a decision or a filing; payouts themselves are the worker's, too.
    payer: providers.Provider[Payer] = providers.Selector(
        Foundation.settings.provided.payouts.run,
        here=payouts,
        worker=Once(PaidElsewhere, database=Foundation.database, queue=Foundation.queue),
    )
    approvals: providers.Provider[Approvals] = Once(
        Approvals,
        database=Foundation.database,
        orders=Foundation.orders,
        life=life,
        policies=policies,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
        ids=Foundation.ids,
        proof=Once(Proof, Foundation.settings.provided.approvals.proof),
    )
    decision_desk: providers.Provider[DecisionDesk] = Once(
        DecisionDesk,
        database=Foundation.database,
        approvals=approvals,
        payer=payer,
        by_worker=Foundation.settings.provided.payouts.by_worker,
    )
    customer_refunds: providers.Provider[CustomerRefunds] = Once(
        CustomerRefunds,
        database=Foundation.database,
        life=life,
        clock=Foundation.clock,
        books_only=Foundation.gateway.provided.books_only,
    )
    staff: providers.Provider[StaffDesk] = Once(
        StaffDesk,
        database=Foundation.database,
        orders=Foundation.orders,
        filing=filing,
        keys=Foundation.keys,
    )
    retries: providers.Provider[Retries] = Once(
        Retries,
        database=Foundation.database,
        orders=Foundation.orders,
        gateway=Foundation.gateway,
        life=life,
        policies=policies,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
    )
    resolutions: providers.Provider[Resolutions] = Once(
        Resolutions,
        database=Foundation.database,
        gateway=Foundation.gateway,
        life=life,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
        ids=Foundation.ids,
    )
    escalations: providers.Provider[Escalations] = Once(
        Escalations,
        database=Foundation.database,
        life=life,
        policies=policies,
        terms=Foundation.terms,
        keys=Foundation.keys,
        clock=Foundation.clock,
    )
    reporting: providers.Provider[Reporting] = Once(
        Reporting, database=Foundation.database, clock=Foundation.clock
    )
    api_keys: providers.Provider[ApiKeys] = Once(
        ApiKeys,
        database=Foundation.database,
        keys=Foundation.keys,
        clock=Foundation.clock,
        wall_clock=Foundation.wall_clock,
        ids=Foundation.ids,
    )
    customer_tokens: providers.Provider[CustomerTokens | None] = Once(
        customer_tokens_of, Foundation.settings
    )
    approvers: providers.Provider[Approvers] = Once(
        Approvers, database=Foundation.database, orders=Foundation.orders, clock=Foundation.clock
    )
    seeding: providers.Provider[Seeding] = Once(
        Seeding,
        database=Foundation.database,
        shop=Foundation.orders,
        policies=policies,
        clock=Foundation.clock,
        moves_real_money=Foundation.settings.provided.payments.moves_real_money,
        orders_kind=Foundation.settings.provided.orders.kind,
    )

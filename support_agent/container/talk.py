"""The agent: tools, the loop, what it is shown, what it may spend, and its turns."""

from typing import Any

from dependency_injector import providers

from support_agent.agent.answers import Answers
from support_agent.agent.asides import Asides
from support_agent.agent.beginning import Beginning
from support_agent.agent.cancelling import Cancelling
from support_agent.agent.carrying import Carrying
from support_agent.agent.ending import Ending
from support_agent.agent.intent import Intents
from support_agent.agent.loop import AgentLoop
from support_agent.agent.metering import Metering
from support_agent.agent.prompt import SYSTEM
from support_agent.agent.recap import Recaps
from support_agent.agent.restoring import Restoring
from support_agent.agent.summaries import Summaries
from support_agent.agent.tool_runner import ToolRunner
from support_agent.agent.turns import Agent, Patience
from support_agent.agent.views import Marks, Views
from support_agent.building.models import (
    dearest_price,
    intents_of,
)
from support_agent.building.tools import all_tools, tools_of_others
from support_agent.container.desk import Desk
from support_agent.container.foundation import Once
from support_agent.ports.tool import Tool
from support_agent.services.inbox import Inbox
from support_agent.services.unknown_orders import UnknownOrders
from support_agent.services.usage import UsageMeter
from support_agent.services.usage_tasks import UnusualRule, UnusualUse
from support_agent.tools.cancel_refund import CancelRefund
from support_agent.tools.hand_off import HandOff
from support_agent.tools.list_orders import ListOrders
from support_agent.tools.lookup_order import LookupOrder
from support_agent.tools.quote_refund import QuoteRefund
from support_agent.tools.refund_policy import RefundPolicy
from support_agent.tools.refund_status import RefundStatus
from support_agent.tools.request_refund import RequestRefund

MONEY_TOOLS = frozenset({RequestRefund.name})


class Talk(Desk):
    """The agent and what it may call. A new tool is one file and one line of `own_tools`."""

    # A new tool is one file and one line here.
    own_tools: providers.Provider[list[Tool[Any]]] = providers.List(
        Once(
            LookupOrder,
            lookup=Desk.talk_lookup,
            quotes=Desk.quotes,
            database=Desk.database,
            zone=Desk.terms.provided.zone,
        ),
        Once(ListOrders, lookup=Desk.talk_lookup, zone=Desk.terms.provided.zone),
        Once(RefundPolicy, policies=Desk.policies, database=Desk.database),
        Once(QuoteRefund, lookup=Desk.lookup, quotes=Desk.quotes, zone=Desk.terms.provided.zone),
        Once(
            RequestRefund,
            lookup=Desk.lookup,
            filing=Desk.filing,
            payouts=Desk.payer,
            database=Desk.database,
        ),
        Once(RefundStatus, database=Desk.database, clock=Desk.clock),
        Once(CancelRefund, life=Desk.life, database=Desk.database, clock=Desk.clock),
        Once(HandOff, clock=Desk.clock, ids=Desk.ids),
    )
    other_tools: providers.Provider[list[Tool[Any]]] = Once(
        tools_of_others, Desk.settings, Desk.to_close
    )
    tools: providers.Provider[list[Tool[Any]]] = providers.Callable(
        all_tools, own_tools, other_tools
    )
    tool_runner: providers.Provider[ToolRunner] = Once(
        ToolRunner,
        tools=tools,
        database=Desk.database,
        unknown_orders=Once(
            UnknownOrders, clock=Desk.clock, limit=Desk.settings.provided.limits.unknown_orders
        ),
        money_tools=providers.Object(MONEY_TOOLS),
    )
    system_prompt: providers.Provider[str] = providers.Object(SYSTEM)
    meter: providers.Provider[UsageMeter] = Once(
        UsageMeter, allowances=Desk.allowances, clock=Desk.clock, zone=Desk.terms.provided.zone
    )
    unusual_use: providers.Provider[UnusualUse] = Once(
        UnusualUse,
        database=Desk.database,
        clock=Desk.clock,
        zone=Desk.terms.provided.zone,
        rule=Once(
            UnusualRule,
            factor=Desk.settings.provided.budgets.unusual_factor,
            least_requests=Desk.settings.provided.budgets.unusual_requests,
            least_tokens=Desk.settings.provided.budgets.unusual_tokens,
        ),
    )
    metering: providers.Provider[Metering] = Once(
        Metering,
        meter=meter,
        database=Desk.database,
        price=Once(dearest_price, Desk.settings, Desk.prices),
        max_output_tokens=Desk.settings.provided.model.max_output_tokens,
        limits=Desk.limits,
    )
    marks: providers.Provider[Marks] = Once(
        Marks,
        high=Desk.settings.provided.history.high_water_tokens,
        low=Desk.settings.provided.history.low,
    )
    asides: providers.Provider[Asides] = Once(
        Asides,
        model=Desk.small_model,
        metering=metering,
        timeout_s=Desk.settings.provided.limits.model_seconds,
    )
    summaries: providers.Provider[Summaries] = Once(
        Summaries, asides=asides, longest=marks.provided.summary_chars
    )
    intents: providers.Provider[Intents | None] = Once(
        intents_of, Desk.settings.provided.model.intent, asides
    )
    views: providers.Provider[Views] = Once(
        Views,
        system=system_prompt,
        tools=tool_runner.provided.specs,
        marks=marks,
        recaps=Once(
            Recaps, database=Desk.database, clock=Desk.clock, summaries=summaries, intents=intents
        ),
        database=Desk.database,
    )
    loop: providers.Provider[AgentLoop] = Once(
        AgentLoop,
        model=Desk.model,
        tools=tool_runner,
        views=views,
        metering=metering,
        database=Desk.database,
        clock=Desk.clock,
        system=system_prompt,
    )
    answers: providers.Provider[Answers] = Once(
        Answers,
        clock=Desk.clock,
        zone=Desk.terms.provided.zone,
        books_only=Desk.gateway.provided.books_only,
        link_hosts=Desk.settings.provided.shop.hosts,
    )
    inbox: providers.Provider[Inbox] = Once(
        Inbox,
        queue=Desk.queue,
        clock=Desk.clock,
        debounce_s=Desk.settings.provided.queue.debounce_seconds,
    )
    ending: providers.Provider[Ending] = Once(
        Ending, loop=loop, answers=answers, queue=Desk.queue, clock=Desk.clock
    )
    beginning: providers.Provider[Beginning] = Once(
        Beginning,
        inbox=inbox,
        memory=Desk.memory,
        restoring=Once(Restoring, loop=loop, limits=Desk.limits, terms=Desk.terms),
        ending=ending,
        clock=Desk.clock,
        ids=Desk.ids,
        lease_s=Desk.settings.provided.lease_s,
        debounce_s=Desk.settings.provided.queue.debounce_seconds,
        max_attempts=Desk.settings.provided.queue.max_attempts,
    )
    agent: providers.Provider[Agent] = Once(
        Agent,
        database=Desk.database,
        desk=Desk.desk,
        inbox=inbox,
        beginning=beginning,
        cancelling=Once(Cancelling, ending=ending, clock=Desk.clock),
        carrying=Once(Carrying, database=Desk.database, loop=loop, ending=ending),
        patience=Once(
            Patience,
            turn_s=Desk.settings.provided.queue.wait_seconds,
            database_s=Desk.settings.provided.lease_s,
        ),
        max_chars=Desk.settings.provided.limits.message_chars,
    )

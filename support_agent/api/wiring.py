"""What routes are handed of the container, by name; nobody else sees it.

All of it is `async`, though nothing is waited for: FastAPI takes plain functions to a thread each.
"""

from typing import Annotated

from fastapi import Depends, Request

from support_agent.agent.turns import Agent
from support_agent.api.streams import Streams
from support_agent.api.taking import Taking
from support_agent.api.turns import Turns
from support_agent.container import Container
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database
from support_agent.services.api_keys import ApiKeys
from support_agent.services.approvals import Approvals
from support_agent.services.conversation_access import ConversationAccess
from support_agent.services.customer_refunds import CustomerRefunds
from support_agent.services.decision_desk import DecisionDesk
from support_agent.services.hand_off_desk import HandOffDesk
from support_agent.services.provider_events import ProviderEvents
from support_agent.services.webhooks import Webhooks
from support_agent.settings import Settings


async def container_of(request: Request) -> Container:
    """The container of this application: two of them in one process never mix."""
    container: Container = request.app.state.container
    return container


_Container = Annotated[Container, Depends(container_of)]


async def _agent(container: _Container) -> Agent:
    return container.agent()


async def _database(container: _Container) -> Database:
    return container.database()


async def _approvals(container: _Container) -> Approvals:
    return container.approvals()


async def _settings(container: _Container) -> Settings:
    return container.settings()


async def _clock(container: _Container) -> Clock:
    return container.clock()


async def _api_keys(container: _Container) -> ApiKeys:
    return container.api_keys()


async def _decision_desk(container: _Container) -> DecisionDesk:
    return container.decision_desk()


async def _customer_refunds(container: _Container) -> CustomerRefunds:
    return container.customer_refunds()


async def _conversation_access(container: _Container) -> ConversationAccess:
    return container.conversation_access()


async def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


async def _turns(request: Request, container: _Container) -> Turns:
    queue = container.settings().queue
    return Turns(
        agent=container.agent(),
        background=request.app.state.background,
        here=queue.kind == "inline" and not queue.debounce_seconds,
        poke=request.app.state.streams.poke,
    )


async def _taking(turns: Annotated[Turns, Depends(_turns)], container: _Container) -> Taking:
    return Taking(
        turns=turns,
        database=container.database(),
        access=container.conversation_access(),
        most_s=container.settings().api.max_wait_seconds,
    )


async def _hand_off_desk(container: _Container) -> HandOffDesk:
    return container.hand_off_desk()


async def _webhooks(container: _Container) -> Webhooks:
    return container.webhooks()


async def _provider_events(container: _Container) -> ProviderEvents | None:
    """None where no gateway of ours sends events, or nothing could tell that one is genuine."""
    payments = container.settings().payments
    takes = payments.kind == "stripe" and payments.secrets
    return container.provider_events() if takes else None


AgentOf = Annotated[Agent, Depends(_agent)]
DatabaseOf = Annotated[Database, Depends(_database)]
ApprovalsOf = Annotated[Approvals, Depends(_approvals)]
SettingsOf = Annotated[Settings, Depends(_settings)]
ClockOf = Annotated[Clock, Depends(_clock)]
ApiKeysOf = Annotated[ApiKeys, Depends(_api_keys)]
DecisionDeskOf = Annotated[DecisionDesk, Depends(_decision_desk)]
CustomerRefundsOf = Annotated[CustomerRefunds, Depends(_customer_refunds)]
HandOffDeskOf = Annotated[HandOffDesk, Depends(_hand_off_desk)]
WebhooksOf = Annotated[Webhooks, Depends(_webhooks)]
ProviderEventsOf = Annotated[ProviderEvents | None, Depends(_provider_events)]
ConversationAccessOf = Annotated[ConversationAccess, Depends(_conversation_access)]
StreamsOf = Annotated[Streams, Depends(_streams)]
TurnsOf = Annotated[Turns, Depends(_turns)]
TakingOf = Annotated[Taking, Depends(_taking)]

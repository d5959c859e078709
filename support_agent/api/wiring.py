"""What routes are handed of the container, by name; nobody else sees it."""

from typing import Annotated

from fastapi import Depends, Request

from support_agent.agent.turns import Agent
from support_agent.container import Container
from support_agent.ports.storage import Database
from support_agent.services.approvals import Approvals
from support_agent.settings import Settings


def container_of(request: Request) -> Container:
    """The container of this application: two of them in one process never mix."""
    container: Container = request.app.state.container
    return container


_Container = Annotated[Container, Depends(container_of)]


def _agent(container: _Container) -> Agent:
    return container.agent()


def _database(container: _Container) -> Database:
    return container.database()


def _approvals(container: _Container) -> Approvals:
    return container.approvals()


def _settings(container: _Container) -> Settings:
    return container.settings()


AgentOf = Annotated[Agent, Depends(_agent)]
DatabaseOf = Annotated[Database, Depends(_database)]
ApprovalsOf = Annotated[Approvals, Depends(_approvals)]
SettingsOf = Annotated[Settings, Depends(_settings)]

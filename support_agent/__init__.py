"""A customer-support order agent: the model proposes, the code disposes.

The public names below are loaded on first use, so that importing one part costs only that part.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support_agent.agent.turns import Agent, Incoming, TurnResult
    from support_agent.container import Container, open_container
    from support_agent.domain.conversation import Assurance
    from support_agent.domain.errors import (
        ConfigurationError,
        Conflict,
        DatabaseUnavailable,
        InvalidInput,
        NotAuthorised,
        NotFound,
        Refused,
        SupportAgentError,
    )
    from support_agent.domain.people import customer_principal
    from support_agent.ports.tool import ReadTool, Tool, WriteTool
    from support_agent.services.conversations import Binding
    from support_agent.settings import Settings, load_settings

__all__ = [
    "Agent",
    "Assurance",
    "Binding",
    "ConfigurationError",
    "Conflict",
    "Container",
    "DatabaseUnavailable",
    "Incoming",
    "InvalidInput",
    "NotAuthorised",
    "NotFound",
    "ReadTool",
    "Refused",
    "Settings",
    "SupportAgentError",
    "Tool",
    "TurnResult",
    "WriteTool",
    "customer_principal",
    "load_settings",
    "open_container",
]

_HOMES = {
    "Agent": "agent.turns",
    "Assurance": "domain.conversation",
    "Binding": "services.conversations",
    "ConfigurationError": "domain.errors",
    "Conflict": "domain.errors",
    "Container": "container",
    "DatabaseUnavailable": "domain.errors",
    "Incoming": "agent.turns",
    "InvalidInput": "domain.errors",
    "NotAuthorised": "domain.errors",
    "NotFound": "domain.errors",
    "ReadTool": "ports.tool",
    "Refused": "domain.errors",
    "Settings": "settings",
    "SupportAgentError": "domain.errors",
    "Tool": "ports.tool",
    "TurnResult": "agent.turns",
    "WriteTool": "ports.tool",
    "customer_principal": "domain.people",
    "load_settings": "settings",
    "open_container": "container",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)

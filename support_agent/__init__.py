"""A customer-support order agent: the model proposes, the code disposes.

The public names below are loaded on first use, so that importing one part costs only that part.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support_agent.adapters.payments.http import HttpGateway
    from support_agent.agent.turns import Agent, Incoming, TurnResult
    from support_agent.container import Container, open_container
    from support_agent.domain.conversation import Assurance
    from support_agent.domain.errors import (
        ConfigurationError,
        Conflict,
        DatabaseUnavailable,
        GatewayBusy,
        GatewayRefusesUs,
        IdempotencyMismatch,
        InvalidInput,
        NotAuthorised,
        NotFound,
        OrdersUnavailable,
        PaymentDeclined,
        PaymentOutcomeUnknown,
        Refused,
        SupportAgentError,
    )
    from support_agent.domain.orders import (
        Address,
        Customer,
        LineKind,
        Order,
        OrderLine,
        OrderStatus,
        Payment,
        PaymentMethod,
        Promotion,
    )
    from support_agent.domain.people import customer_principal
    from support_agent.ports.orders import OrderRepository
    from support_agent.ports.payments import (
        GatewayRefund,
        GatewayStatus,
        PaymentGateway,
        PaymentRef,
        PaymentState,
        RefundInstruction,
    )
    from support_agent.ports.tool import (
        Arguments,
        CallContext,
        Effect,
        ReadTool,
        Tool,
        ToolOutput,
        WriteTool,
    )
    from support_agent.services.conversations import Binding
    from support_agent.settings import Settings, load_settings

__all__ = [
    "Address",
    "Agent",
    "Arguments",
    "Assurance",
    "Binding",
    "CallContext",
    "ConfigurationError",
    "Conflict",
    "Container",
    "Customer",
    "DatabaseUnavailable",
    "Effect",
    "GatewayBusy",
    "GatewayRefund",
    "GatewayRefusesUs",
    "GatewayStatus",
    "HttpGateway",
    "IdempotencyMismatch",
    "Incoming",
    "InvalidInput",
    "LineKind",
    "NotAuthorised",
    "NotFound",
    "Order",
    "OrderLine",
    "OrderRepository",
    "OrderStatus",
    "OrdersUnavailable",
    "Payment",
    "PaymentDeclined",
    "PaymentGateway",
    "PaymentMethod",
    "PaymentOutcomeUnknown",
    "PaymentRef",
    "PaymentState",
    "Promotion",
    "ReadTool",
    "RefundInstruction",
    "Refused",
    "Settings",
    "SupportAgentError",
    "Tool",
    "ToolOutput",
    "TurnResult",
    "WriteTool",
    "customer_principal",
    "load_settings",
    "open_container",
]

_HOMES = {
    "Address": "domain.orders",
    "Agent": "agent.turns",
    "Arguments": "ports.tool",
    "Assurance": "domain.conversation",
    "Binding": "services.conversations",
    "CallContext": "ports.tool",
    "ConfigurationError": "domain.errors",
    "Conflict": "domain.errors",
    "Container": "container",
    "Customer": "domain.orders",
    "DatabaseUnavailable": "domain.errors",
    "Effect": "ports.tool",
    "GatewayBusy": "domain.errors",
    "GatewayRefund": "ports.payments",
    "GatewayRefusesUs": "domain.errors",
    "GatewayStatus": "ports.payments",
    "HttpGateway": "adapters.payments.http",
    "IdempotencyMismatch": "domain.errors",
    "Incoming": "agent.turns",
    "InvalidInput": "domain.errors",
    "LineKind": "domain.orders",
    "NotAuthorised": "domain.errors",
    "NotFound": "domain.errors",
    "Order": "domain.orders",
    "OrderLine": "domain.orders",
    "OrderRepository": "ports.orders",
    "OrderStatus": "domain.orders",
    "OrdersUnavailable": "domain.errors",
    "Payment": "domain.orders",
    "PaymentDeclined": "domain.errors",
    "PaymentGateway": "ports.payments",
    "PaymentMethod": "domain.orders",
    "PaymentOutcomeUnknown": "domain.errors",
    "PaymentRef": "ports.payments",
    "PaymentState": "ports.payments",
    "Promotion": "domain.orders",
    "ReadTool": "ports.tool",
    "RefundInstruction": "ports.payments",
    "Refused": "domain.errors",
    "Settings": "settings",
    "SupportAgentError": "domain.errors",
    "Tool": "ports.tool",
    "ToolOutput": "ports.tool",
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

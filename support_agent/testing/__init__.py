"""Public test kit: a scripted model, simulators and contract suites for adapters.

The names below are loaded on first use, so that one part costs only that part.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support_agent.testing.contract_check import ContractBroken
    from support_agent.testing.gateway_backstage import Backstage, CapturedPayment, Needs
    from support_agent.testing.gateway_contract import CHECKS as GATEWAY_CHECKS
    from support_agent.testing.gateway_contract import checks_for
    from support_agent.testing.orders_contract import CHECKS as ORDERS_CHECKS
    from support_agent.testing.orders_contract import CUSTOMERS, ORDERS, check_orders
    from support_agent.testing.refund_endpoint import RefundEndpoint
    from support_agent.testing.refund_endpoint_contract import ENDPOINT_CHECKS, EndpointAt
    from support_agent.testing.scripted import ScriptedModel

__all__ = [
    "CUSTOMERS",
    "ENDPOINT_CHECKS",
    "GATEWAY_CHECKS",
    "ORDERS",
    "ORDERS_CHECKS",
    "Backstage",
    "CapturedPayment",
    "ContractBroken",
    "EndpointAt",
    "Needs",
    "RefundEndpoint",
    "ScriptedModel",
    "check_orders",
    "checks_for",
]

_HOMES = {
    "Backstage": "gateway_backstage:Backstage",
    "CUSTOMERS": "orders_contract:CUSTOMERS",
    "CapturedPayment": "gateway_backstage:CapturedPayment",
    "ContractBroken": "contract_check:ContractBroken",
    "ENDPOINT_CHECKS": "refund_endpoint_contract:ENDPOINT_CHECKS",
    "EndpointAt": "refund_endpoint_contract:EndpointAt",
    "GATEWAY_CHECKS": "gateway_contract:CHECKS",
    "Needs": "gateway_backstage:Needs",
    "ORDERS": "orders_contract:ORDERS",
    "ORDERS_CHECKS": "orders_contract:CHECKS",
    "RefundEndpoint": "refund_endpoint:RefundEndpoint",
    "ScriptedModel": "scripted:ScriptedModel",
    "check_orders": "orders_contract:check_orders",
    "checks_for": "gateway_contract:checks_for",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = home.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), there)

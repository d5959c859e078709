"""List the customer's own orders."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any, ClassVar

from support_agent.ports.tool import Arguments, CallContext, ReadTool, ToolOutput
from support_agent.services.order_lookup import MOST_ORDERS, OrderLookup
from support_agent.tools.order_view import order_headline


class ListOrdersArguments(Arguments):
    pass


class ListOrders(ReadTool[ListOrdersArguments]):
    """Shows the asker's newest orders in short."""

    name: ClassVar[str] = "list_orders"
    description: ClassVar[str] = (
        f"List this customer's newest orders, at most {MOST_ORDERS} (liệt kê đơn hàng). Use it "
        "when the customer names no order id. Takes no arguments. Returns id, status, total and "
        "dates."
    )
    arguments = ListOrdersArguments

    def __init__(self, *, lookup: OrderLookup, zone: tzinfo) -> None:
        self._lookup = lookup
        self._zone = zone

    async def run(self, arguments: ListOrdersArguments, context: CallContext) -> ToolOutput:
        orders = await self._lookup.owned_list(context.asker)
        content = {
            "orders": [order_headline(order, self._zone) for order in orders],
            "has_more": len(orders) == MOST_ORDERS,
        }
        return ToolOutput(content=content)

    def headline(self, content: Mapping[str, Any]) -> str:
        return ", ".join(f"{order['order_id']}={order['status']}" for order in content["orders"])

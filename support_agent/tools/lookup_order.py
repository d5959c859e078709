"""Look one order up, with what the policy says of it today."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any, ClassVar

from support_agent.ports.storage import Database
from support_agent.ports.tool import Arguments, CallContext, ReadTool, ToolOutput
from support_agent.services.order_lookup import OrderLookup
from support_agent.services.quotes import Quotes
from support_agent.tools.arguments import OrderId
from support_agent.tools.order_view import line_view, order_headline, verdict_view


class LookupOrderArguments(Arguments):
    order_id: OrderId


class LookupOrder(ReadTool[LookupOrderArguments]):
    """Shows the asker's own order."""

    name: ClassVar[str] = "lookup_order"
    description: ClassVar[str] = (
        "Look up one order of this customer by its id (tra cứu đơn hàng theo mã). Use it first for "
        "any question about an order. Returns status, total, delivery date, lines, and `refund`: "
        "whether it can be refunded today, days since delivery, the last day, the largest amount "
        "and the reasons. An order of somebody else answers as not found."
    )
    arguments = LookupOrderArguments

    def __init__(
        self, *, lookup: OrderLookup, quotes: Quotes, database: Database, zone: tzinfo
    ) -> None:
        self._lookup = lookup
        self._quotes = quotes
        self._database = database
        self._zone = zone

    async def run(self, arguments: LookupOrderArguments, context: CallContext) -> ToolOutput:
        order = await self._lookup.owned(arguments.order_id, context.asker)
        assessment, books = await self._database.read(
            lambda tx: self._quotes.assess(tx, order), brief=True
        )
        assessed = {line.line_id: line for line in assessment.lines}
        content = order_headline(order, self._zone) | {
            "lines": [line_view(line, assessed.get(line.id), self._zone) for line in order.lines],
            "refund": verdict_view(assessment, context.language, books.open_request_ids),
        }
        return ToolOutput(content=content)

    def headline(self, content: Mapping[str, Any]) -> str:
        parts = [f"status={content['status']}", f"total={content['total']}"]
        if "delivered_at" in content:
            parts.append(f"deliveredAt={content['delivered_at']}")
        return ", ".join(parts)

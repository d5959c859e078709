"""Say where the customer's refund requests stand."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from support_agent.domain.errors import RequestNotFound
from support_agent.domain.groups import grouped
from support_agent.domain.refunds import RefundRequest
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, RequestFilter, Transaction
from support_agent.ports.tool import Arguments, CallContext, ReadTool, ToolOutput
from support_agent.services.stored_requests import group_of, note_foreign_request
from support_agent.tools.arguments import OrderId, RequestId

MOST_REQUESTS = 10


class RefundStatusArguments(Arguments):
    request_id: RequestId | None = None
    order_id: Annotated[OrderId | None, Field(description="All requests of one order")] = None


class RefundStatus(ReadTool[RefundStatusArguments]):
    """Shows the asker's own requests."""

    name: ClassVar[str] = "refund_status"
    description: ClassVar[str] = (
        "Where refund requests of this customer stand (trạng thái hoàn tiền). Give request_id, "
        "or order_id, or nothing for the newest ones. Returns id, order, amount and status of "
        "each; `part_of` names the request one was filed with, over several payments. The shop's "
        "code states them to the customer beside your answer."
    )
    arguments = RefundStatusArguments

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def run(self, arguments: RefundStatusArguments, context: CallContext) -> ToolOutput:
        requests = await self._database.read(lambda tx: self._find(tx, arguments, context))
        if arguments.request_id is not None and not requests:
            await self._missing(arguments.request_id, context)
        content = {"requests": [_row(r, group) for group in grouped(requests) for r in group]}
        return ToolOutput(content=content, request_ids=tuple(request.id for request in requests))

    def _find(
        self, tx: Transaction, arguments: RefundStatusArguments, context: CallContext
    ) -> tuple[RefundRequest, ...]:
        """What belongs together is told together, also where a page would end inside a group."""
        mine = context.asker.customer_id
        if arguments.request_id is not None:
            request = tx.requests.get(arguments.request_id)
            return group_of(tx, request) if request and request.customer_id == mine else ()
        where = RequestFilter(customer_id=mine, order_id=arguments.order_id)
        groups = grouped(tx.requests.list(where, limit=MOST_REQUESTS).data)
        return tuple(request for group in groups for request in group_of(tx, group[0]))

    async def _missing(self, request_id: str, context: CallContext) -> None:
        await self._database.transact(
            lambda tx: note_foreign_request(tx, request_id, context.asker, self._clock)
        )
        raise RequestNotFound(request_id)

    def headline(self, content: Mapping[str, Any]) -> str:
        return ", ".join(f"{r['request_id']}={r['status']}" for r in content["requests"]) or "none"


def _row(request: RefundRequest, group: tuple[RefundRequest, ...]) -> dict[str, Any]:
    row = {
        "request_id": request.id,
        "order_id": request.order_id,
        "amount": request.amount_minor,
        "currency": request.currency,
        "status": request.status.value,
    }
    # Asked for, decided and cancelled with the first; each is paid by itself.
    return row if request is group[0] else row | {"part_of": group[0].id}

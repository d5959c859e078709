"""File the quoted refund, once the customer said yes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from support_agent.domain.errors import QuoteNotFound
from support_agent.domain.orders import Order
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import Database, Transaction
from support_agent.ports.tool import Arguments, CallContext, Effect, ToolOutput, WriteTool
from support_agent.services.filing import Filing
from support_agent.services.order_lookup import OrderLookup
from support_agent.services.paid_elsewhere import Payer
from support_agent.tools.arguments import QuoteId


class RequestRefundArguments(Arguments):
    quote_id: QuoteId


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    quote_id: str
    order: Order


class RequestRefund(WriteTool[RequestRefundArguments, Prepared]):
    """The only tool that can lead to money; takes a quote and nothing else."""

    name: ClassVar[str] = "request_refund"
    description: ClassVar[str] = (
        "File the refund of a quote (gửi yêu cầu hoàn tiền). Use it only after the customer "
        "answered the quote with a yes. Takes the quote_id and nothing else. Returns request_id "
        "and status; the shop's code tells the customer amount and status. Over several payments "
        "it is one request a payment, handled as one. The same quote again returns the same "
        "request."
    )
    effect: ClassVar[Effect] = Effect.MONEY
    arguments = RequestRefundArguments

    def __init__(
        self, *, lookup: OrderLookup, filing: Filing, payouts: Payer, database: Database
    ) -> None:
        self._lookup = lookup
        self._filing = filing
        self._payouts = payouts
        self._database = database

    async def prepare(self, arguments: RequestRefundArguments, context: CallContext) -> Prepared:
        quote = await self._database.read(lambda tx: tx.quotes.get(arguments.quote_id), brief=True)
        if quote is None:
            raise QuoteNotFound(arguments.quote_id)
        if quote.customer_id != context.asker.customer_id:
            await self._lookup.note_foreign("quote", quote.id, context.asker)
            raise QuoteNotFound(arguments.quote_id)
        order = await self._lookup.owned(quote.order_id, context.asker)
        return Prepared(quote_id=quote.id, order=order)

    def apply(self, tx: Transaction, prepared: Prepared, context: CallContext) -> ToolOutput:
        requests = self._filing.file(
            tx, quote_id=prepared.quote_id, order=prepared.order, asker=context.asker
        )
        first = requests[0]
        content: dict[str, Any] = {
            "request_id": first.id,
            "order_id": first.order_id,
            "status": first.status.value,
            "amount": sum(request.amount_minor for request in requests),
            "currency": first.currency,
            "needs_person": first.status is RequestStatus.PENDING_APPROVAL,
        }
        if len(requests) > 1:
            content["parts"] = [
                {
                    "request_id": request.id,
                    "amount": request.amount_minor,
                    "destination": request.method.value,
                    "status": request.status.value,
                }
                for request in requests
            ]
        return ToolOutput(content=content, request_ids=tuple(r.id for r in requests))

    async def after_commit(self, output: ToolOutput, context: CallContext) -> None:
        """What was approved automatically is paid at once; the answer states what came of it."""
        if output.request_ids:  # all of one group: one that cannot be tried keeps no other back
            await self._payouts.pay_group(output.request_ids[0], notify=False)

    def headline(self, content: Mapping[str, Any]) -> str:
        return ", ".join(f"{key}={content[key]}" for key in ("request_id", "status", "amount"))

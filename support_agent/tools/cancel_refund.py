"""Take a refund request back before it is paid."""

from typing import ClassVar

from support_agent.domain.errors import RequestNotFound
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Transaction
from support_agent.ports.tool import Arguments, CallContext, Effect, ToolOutput, WriteTool
from support_agent.services.refunds import RefundLife
from support_agent.services.stored_requests import group_of, note_foreign_request
from support_agent.tools.arguments import RequestId


class CancelRefundArguments(Arguments):
    request_id: RequestId


class CancelRefund(WriteTool[CancelRefundArguments, str]):
    """Cancels the asker's own request."""

    name: ClassVar[str] = "cancel_refund"
    description: ClassVar[str] = (
        "Cancel a refund request of this customer that was not paid yet (huỷ yêu cầu hoàn tiền). "
        "Use it only when the customer asks for it. Takes the request_id. Returns the new status."
    )
    effect: ClassVar[Effect] = Effect.WRITE
    arguments = CancelRefundArguments

    def __init__(self, *, life: RefundLife, database: Database, clock: Clock) -> None:
        self._life = life
        self._database = database
        self._clock = clock

    async def prepare(self, arguments: CancelRefundArguments, context: CallContext) -> str:
        foreign = await self._database.transact(
            lambda tx: note_foreign_request(tx, arguments.request_id, context.asker, self._clock)
        )
        if foreign:
            raise RequestNotFound(arguments.request_id)
        return arguments.request_id

    def apply(self, tx: Transaction, prepared: str, context: CallContext) -> ToolOutput:
        request = self._life.cancel(tx, prepared, context.asker)
        content = {"request_id": request.id, "status": request.status.value}
        together = tuple(member.id for member in group_of(tx, request))
        return ToolOutput(content=content, request_ids=together)

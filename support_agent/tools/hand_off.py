"""Give the conversation to a person."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from support_agent.domain.conversation import Assurance
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.storage import Transaction
from support_agent.ports.tool import Arguments, CallContext, Effect, ToolOutput, WriteTool
from support_agent.services.hand_offs import hand_off
from support_agent.services.tasks import HAND_OFF


class HandOffArguments(Arguments):
    reason: Annotated[
        str,
        StringConstraints(min_length=1, max_length=500),
        Field(description="Why a person is needed, in one sentence"),
    ]


class HandOff(WriteTool[HandOffArguments, str]):
    """Ends the bot's part: a staff task is made and the run stops."""

    name: ClassVar[str] = "hand_off"
    description: ClassVar[str] = (
        "Pass this conversation to a person at the shop (gặp nhân viên). Use it when the customer "
        "asks for a person or you cannot help. It ends your part of the conversation."
    )
    effect: ClassVar[Effect] = Effect.WRITE
    assurance: ClassVar[Assurance] = Assurance.NONE
    arguments = HandOffArguments

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    async def prepare(self, arguments: HandOffArguments, context: CallContext) -> str:
        return arguments.reason

    def apply(self, tx: Transaction, prepared: str, context: CallContext) -> ToolOutput:
        hand_off(
            tx,
            context.asker,
            task_id=self._ids.new("task"),
            kind=HAND_OFF,
            at=self._clock.now(),
        )
        return ToolOutput(content={"status": "handed_off"}, hands_off=True)

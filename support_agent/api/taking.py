"""What a customer's message is sent as, and how the request that brought it is answered."""

import hashlib
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Header, Request
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, Field

from support_agent.api.guarded import problems
from support_agent.api.idempotency import key_of
from support_agent.api.prefer import APPLIED, wait_of
from support_agent.api.problems import ProblemError
from support_agent.api.schemas import Body, Shape
from support_agent.api.shapes_talk import (
    TurnShape,
    taken_shape,
    turn_shape,
)
from support_agent.api.turns import TakenIn, Turns
from support_agent.domain.access import Acting, Caller
from support_agent.domain.conversation import Message
from support_agent.domain.errors import ConversationNotFound
from support_agent.domain.runs import Run
from support_agent.ports.storage import Database, Transaction
from support_agent.services.conversation_access import ConversationAccess, binding_of
from support_agent.services.inbox import Incoming, Posted

LONGEST_NAME = 100
TAKING: dict[int | str, dict[str, Any]] = {
    200: {"model": TurnShape, "description": "It was answered within the time that was preferred"},
    **problems({404: "No such conversation, or another customer's; or no such customer"}),
}


def _printable(text: str) -> str:
    if not text.isprintable() or text.isspace():
        raise ValueError("must be printable characters")
    return text


Operator = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=LONGEST_NAME,
        description="Who at the shop typed this for the customer. It only takes authority away: "
        "that person may not approve what comes of it.",
    ),
    AfterValidator(lambda name: None if name is None else _printable(name)),
]
Prefer = Annotated[
    list[str] | None,
    Header(
        description="`wait=20` (RFC 7240): answer with the finished turn if it ends within so many "
        "seconds. What cannot be read is ignored.",
    ),
]


class MessageBody(Body):
    """What a customer writes."""

    text: str = Field(min_length=1, examples=["Cho mình hỏi đơn A100 đang ở đâu?"])
    message_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="The sender's own id of the message: sent again under it, it is one message. "
        "Without it the `Idempotency-Key` counts as one.",
    )
    operator: Operator = None


def incoming_of(
    body: MessageBody, acting: Acting, request: Request, *, conversation_id: str | None
) -> Incoming:
    """The message as a channel hands it over."""
    return Incoming(
        text=body.text,
        binding=binding_of(acting),
        conversation_id=conversation_id,
        operator=body.operator,
        message_id=body.message_id or _id_of(key_of(request.headers), conversation_id, body.text),
    )


def acting_of(caller: Caller) -> Acting:
    """The customer that is spoken for, who is needed here."""
    if caller.acting is None:  # the route's scope lets nobody in who does not say it
        raise ProblemError(400, "CUSTOMER_NEEDED", "say for which customer this is")
    return caller.acting


class Taking:
    """Takes a message and answers as the client prefers: with the finished turn, or at once."""

    def __init__(
        self, *, turns: Turns, database: Database, access: ConversationAccess, most_s: float
    ) -> None:
        self._turns = turns
        self._database = database
        self._access = access
        self._most_s = most_s

    async def answer(
        self, incoming: Incoming, acting: Acting, request: Request, prefer: list[str] | None
    ) -> JSONResponse:
        """200 with the turn when it ended in time, else 202 and where to look.

        Raises:
            InvalidInput, CustomerNotFound, ConversationNotFound: as `Agent.take`.
            IdentityNotVerified: the conversation is of a customer who was proved.
        """
        if incoming.conversation_id is not None:
            await self._access.conversation(incoming.conversation_id, acting)
        taken = await self._turns.take(incoming)
        if taken.posted.is_known:  # whichever conversation it came in before
            await self._access.conversation(taken.posted.conversation_id, acting)
        wait_s = wait_of(prefer or (), most_s=self._most_s)
        applied = {APPLIED: f"wait={wait_s}"} if wait_s else {}
        if wait_s:
            turn = await self._turn(taken, request, wait_s)
            if turn is not None:
                return _given(turn, 200, applied)
        message, run = await self._database.read(lambda tx: _stored(tx, taken.posted), brief=True)
        where = (
            f"/v1/conversations/{message.conversation_id}/messages"
            if run is None
            else f"/v1/runs/{run.id}"
        )
        # Where this is mounted may be named in letters that no header holds.
        location = {"Location": f"{quote(request.scope.get('root_path', ''))}{where}"}
        return _given(taken_shape(message, run), 202, applied | location)

    async def _turn(self, taken: TakenIn, request: Request, wait_s: float) -> TurnShape | None:
        result = await self._turns.answer(taken, within_s=wait_s, is_gone=request.is_disconnected)
        if result is None:
            return None
        message, _ = await self._database.read(lambda tx: _stored(tx, taken.posted), brief=True)
        return turn_shape(result, message)


def _given(shape: Shape, status: int, headers: dict[str, str]) -> JSONResponse:
    return JSONResponse(shape.model_dump(mode="json"), status_code=status, headers=headers)


def _stored(tx: Transaction, posted: Posted) -> tuple[Message, Run | None]:
    message = tx.conversations.message(posted.conversation_id, posted.seq)
    if message is None:
        raise ConversationNotFound(posted.conversation_id)
    return message, tx.runs.get(message.run_id) if message.run_id else None


def _id_of(key: str | None, conversation_id: str | None, text: str) -> str | None:
    """Of this route, as the key itself is. Hashed, for a key may be longer than a message's id.

    A key is forgotten after a day and may then name another message, which is not to be lost.
    """
    if key is None:
        return None
    named = f"{conversation_id or ''}:{key}:{text}"
    return f"idempotency-key:{hashlib.sha256(named.encode()).hexdigest()}"

"""Routes of `/v1/conversations`: what customers write, and what they are answered."""

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from support_agent.api.access import CallerOf
from support_agent.api.events import TalkPlace, TalkStory
from support_agent.api.guarded import guarded_router, needs, problems
from support_agent.api.problems import ProblemError
from support_agent.api.schemas import Cursor, Limit, Listed, listed
from support_agent.api.shapes_talk import (
    ConversationShape,
    MessageShape,
    TakenShape,
    conversation_shape,
)
from support_agent.api.streams import EVENTS, EventStream, LastEventId
from support_agent.api.taking import TAKING, MessageBody, Prefer, acting_of, incoming_of
from support_agent.api.wiring import ConversationAccessOf, DatabaseOf, StreamsOf, TakingOf
from support_agent.domain.access import Scope
from support_agent.domain.conversation import Message
from support_agent.domain.errors import InvalidInput
from support_agent.ports.storage import Page, Transaction
from support_agent.services.paging import page_of

router = guarded_router("conversations")
SEEN = needs(Scope.CUSTOMERS_ACT, Scope.CONVERSATIONS_READ)
MISSING = problems({404: "No such conversation, or another customer's"})


@router.post(
    "/v1/conversations",
    dependencies=[needs(Scope.CUSTOMERS_ACT)],
    status_code=202,
    response_model=TakenShape,
    responses=TAKING,
)
async def open_conversation(
    body: MessageBody, caller: CallerOf, taking: TakingOf, request: Request, prefer: Prefer = None
) -> JSONResponse:
    """Open a conversation for the customer with their first message.

    Its answer comes as that of every message: see `post_message`.
    """
    acting = acting_of(caller)
    incoming = incoming_of(body, acting, request, conversation_id=None)
    return await taking.answer(incoming, acting, request, prefer)


@router.get("/v1/conversations", dependencies=[SEEN])
async def list_conversations(
    caller: CallerOf,
    access: ConversationAccessOf,
    *,
    customer_id: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    handed_off: Annotated[bool, Query(description="Only those that a person has.")] = False,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[ConversationShape]:
    """Conversations, the newest first. A key that speaks for a customer gets that customer's."""
    acting = caller.acting
    if acting is not None and customer_id not in {None, acting.customer_id}:
        raise ProblemError(403, "NOT_THIS_CUSTOMER", "the key speaks for another customer here")
    page = await access.page(
        acting, customer_id=customer_id, handed_off=handed_off, limit=limit, cursor=cursor
    )
    return listed(page, ConversationShape, [conversation_shape(found) for found in page.data])


@router.get("/v1/conversations/{conversation_id}", dependencies=[SEEN], responses=MISSING)
async def get_conversation(
    conversation_id: str, caller: CallerOf, access: ConversationAccessOf
) -> ConversationShape:
    """One conversation, without its messages."""
    return conversation_shape(await access.conversation(conversation_id, caller.acting))


@router.get("/v1/conversations/{conversation_id}/messages", dependencies=[SEEN], responses=MISSING)
async def list_messages(
    conversation_id: str,
    caller: CallerOf,
    access: ConversationAccessOf,
    database: DatabaseOf,
    *,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Listed[MessageShape]:
    """What was written in a conversation, the oldest first."""
    await access.conversation(conversation_id, caller.acting)
    after = _seq_of(cursor)

    def read(tx: Transaction) -> Page[Message]:
        rows = tx.conversations.messages(conversation_id, after_seq=after, limit=limit + 1)
        return page_of(rows, limit, lambda row: str(row.seq))

    page = await database.read(read)
    return listed(page, MessageShape, [MessageShape.model_validate(row) for row in page.data])


@router.post(
    "/v1/conversations/{conversation_id}/messages",
    dependencies=[needs(Scope.CUSTOMERS_ACT)],
    status_code=202,
    response_model=TakenShape,
    responses=TAKING,
)
async def post_message(
    conversation_id: str,
    body: MessageBody,
    caller: CallerOf,
    taking: TakingOf,
    request: Request,
    prefer: Prefer = None,
) -> JSONResponse:
    """Write a message for the customer. It is committed before anything else, and answered.

    That takes seconds. The answer is 202 with the run that reads it, whose address is in
    `Location`; look there, or follow its events. With `Prefer: wait=20` it is 200 and the whole
    turn when that has ended in time. Turns go on when the client does not wait any more.

    The same `message_id` again is the same message, and gets the answer that it got.
    """
    acting = acting_of(caller)
    incoming = incoming_of(body, acting, request, conversation_id=conversation_id)
    return await taking.answer(incoming, acting, request, prefer)


@router.get(
    "/v1/conversations/{conversation_id}/events",
    dependencies=[SEEN],
    status_code=200,
    response_class=EventStream,
    responses=EVENTS | MISSING,
)
async def stream_conversation(
    conversation_id: str,
    caller: CallerOf,
    access: ConversationAccessOf,
    streams: StreamsOf,
    last_event_id: LastEventId = None,
) -> Response:
    """Follow a conversation: `message` (as in the list), and `run` when one has begun or ended.

    From its first message on, or behind the event of `Last-Event-ID`. It ends when the key or the
    customer's token does; come back with that header, and nothing is missed or sent twice.
    """
    await access.conversation(conversation_id, caller.acting)
    return await streams.open(TalkStory(conversation_id, TalkPlace.read(last_event_id)), caller)


def _seq_of(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 16):
        raise InvalidInput("cursor", "was not handed out by this list; start again without one")
    return int(cursor)

"""What a person is shown who takes a conversation over: facts first, the words of others last."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from support_agent.domain.conversation import Author, Conversation, Message
from support_agent.domain.memory import Memory, OrderFact
from support_agent.domain.refunds import OPEN, Quote, RefundRequest
from support_agent.domain.runs import CallTools, RunStep
from support_agent.ports.storage import RequestFilter, Task, Transaction
from support_agent.services.hand_off_desk import stored_conversation

MOST_TRIED = 20
MOST_REQUESTS = 20
HANDED_OFF_BY = "hand_off"  # the tool whose call handed it over


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A call of the agent; `refusal` is the code it ended with, None when it did what it should."""

    tool: str
    arguments: str
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationBrief:
    """What code knows of a conversation; the model's reason and the messages are others' words."""

    conversation: Conversation
    tasks: tuple[Task, ...]  # of this conversation, that are not done
    orders: tuple[OrderFact, ...]  # that the agent looked up
    quotes: tuple[Quote, ...]  # that wait for the customer's answer
    requests: tuple[RefundRequest, ...]  # made here, and open ones of the same customer
    tried: tuple[Tried, ...]  # the newest last
    messages: tuple[Message, ...]
    model_reason: str | None  # why the agent asked for a person, in its words

    @property
    def unanswered(self) -> int:
        """How many messages the customer has written since anybody answered."""
        said = [m.seq for m in self.messages if m.author in {Author.STAFF, Author.AGENT}]
        last = max(said, default=0)
        return sum(m.author is Author.CUSTOMER and m.seq > last for m in self.messages)


def conversation_brief(tx: Transaction, conversation_id: str) -> ConversationBrief:
    """The conversation as it is now.

    Raises:
        ConversationNotFound: unknown id.
    """
    conversation = stored_conversation(tx, conversation_id)
    steps = tx.runs.steps_of_conversation(conversation_id)
    tried = tuple(_tried(steps))
    return ConversationBrief(
        conversation=conversation,
        tasks=tx.tasks.open_of(conversation_id),
        orders=_remembered(steps).orders,
        quotes=tx.quotes.open_in(conversation_id),
        requests=_requests(tx, conversation),
        tried=tried[-MOST_TRIED:],
        messages=tx.conversations.messages(conversation_id),
        model_reason=_reason(tried),
    )


def _requests(tx: Transaction, conversation: Conversation) -> tuple[RefundRequest, ...]:
    if conversation.customer_id is None:
        return ()
    mine = RequestFilter(customer_id=conversation.customer_id)
    found = tx.requests.list(mine, limit=MOST_REQUESTS).data
    here = conversation.id
    return tuple(r for r in found if r.conversation_id == here or r.status in OPEN)


def _remembered(steps: Sequence[RunStep]) -> Memory:
    memory = Memory()
    for step in steps:
        for recorded in step.calls:
            if recorded.observation is not None and recorded.observation.ok:
                memory = memory.told(recorded.observation.content)
    return memory


def _tried(steps: Sequence[RunStep]) -> Iterator[Tried]:
    for step in steps:
        for recorded in step.calls if isinstance(step.decision, CallTools) else ():
            call, seen = recorded.call, recorded.observation
            code = "NO_ANSWER" if seen is None else None if seen.ok else seen.error_code or "ERROR"
            yield Tried(tool=call.name, arguments=call.arguments, refusal=code)


def _reason(tried: Sequence[Tried]) -> str | None:
    """Of the newest hand-over by the agent; the arguments of a model may be anything."""
    for call in reversed(tried):
        if call.tool == HANDED_OFF_BY and call.refusal is None:
            try:
                return str(json.loads(call.arguments)["reason"])
            except (ValueError, TypeError, KeyError, RecursionError):
                return None
    return None

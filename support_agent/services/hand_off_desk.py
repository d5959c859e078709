"""The desk of whoever has a conversation instead of the agent: take it, answer, hand it back."""

from datetime import datetime

from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Author, Conversation, Message
from support_agent.domain.errors import (
    ConversationHandedOff,
    ConversationNotFound,
    ConversationNotHandedOff,
    TaskAlreadyDone,
)
from support_agent.domain.people import Principal
from support_agent.domain.text import clean_message, redact_cards, visible
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.hand_offs import for_the_agent, hand_over
from support_agent.services.outgoing import send_later
from support_agent.services.tasks import (
    CUSTOMER_WROTE,
    HAND_OFF,
    HANDED_OVER,
    finish,
    stored_task,
)

LONGEST_ANSWER = 4_000


class HandOffDesk:
    """While a person has a conversation the agent says nothing in it.

    Each takes the conversation's row before its tasks, so that no two of them wait for one another.
    """

    def __init__(self, *, database: Database, queue: TurnQueue, clock: Clock, ids: Ids) -> None:
        self._database = database
        self._queue = queue
        self._clock = clock
        self._ids = ids

    async def take(self, conversation_id: str, *, by: Principal) -> Task:
        """A person takes it over; what the agent is just about to answer is not said any more.

        Raises:
            ConversationNotFound: unknown id, or it was erased.
            ConversationHandedOff: a person has it already.
        """
        task = Task(
            id=self._ids.new("task"),
            kind=HAND_OFF,
            subject=conversation_id,
            conversation_id=conversation_id,
            created_at=self._clock.now(),
        )

        def write(tx: Transaction) -> Task:
            _check_open(tx, conversation_id)
            if not hand_over(tx, task, by=by):
                raise ConversationHandedOff(conversation_id)
            return task

        return await self._database.transact(write)

    async def answer(self, conversation_id: str, text: str, *, by: Principal) -> Message:
        """A message of staff to the customer, also through the outbox.

        Raises:
            InvalidInput: empty, too long or not text.
            ConversationNotFound: unknown id, or it was erased.
            ConversationNotHandedOff: the agent would answer beside the person.
        """
        clean = redact_cards(clean_message(text, max_chars=LONGEST_ANSWER))
        shown = visible(clean, LONGEST_ANSWER * 2, keep_newlines=True)
        return await self._database.transact(
            lambda tx: self._answer(tx, conversation_id, shown, by)
        )

    def _answer(self, tx: Transaction, conversation_id: str, text: str, by: Principal) -> Message:
        now = self._clock.now()
        _check_open(tx, conversation_id)
        seq = tx.conversations.append(
            conversation_id, author=Author.STAFF, text=text, at=now, run_id=None
        )
        # Looked at with the row in hand: nobody hands it back meanwhile.
        if not stored_conversation(tx, conversation_id).handed_off:
            raise ConversationNotHandedOff(conversation_id)
        send_later(tx, conversation_id, seq, at=now)
        self._finish_all(tx, conversation_id, {CUSTOMER_WROTE}, by, now)
        tx.audit.append(
            AuditEvent(
                action="conversation.answered",
                actor=by,
                subject=conversation_id,
                at=now,
                data={"message": str(seq)},
            )
        )
        return Message(
            conversation_id=conversation_id, seq=seq, author=Author.STAFF, text=text, at=now
        )

    async def give_back(self, conversation_id: str, *, by: Principal) -> int:
        """The agent answers again; what it was handed over for is done with it.

        What the customer wrote since a person last answered is the agent's to answer now: how many
        messages. It sees all that was said meanwhile.

        Raises:
            ConversationNotFound: unknown id.
            ConversationNotHandedOff: the agent has it.
        """

        def write(tx: Transaction) -> int:
            stored_conversation(tx, conversation_id)
            unread = self._give_back(tx, conversation_id, by)
            if unread is None:
                raise ConversationNotHandedOff(conversation_id)
            return unread

        return await self._database.transact(write)

    async def finish(self, task_id: str, *, by: Principal) -> Task:
        """The task, done. One that a conversation was handed over with gives that back.

        Otherwise a customer who writes again after a person helped would be answered by nobody.

        Raises:
            TaskNotFound: unknown id.
            TaskAlreadyDone: with who did it, and when.
        """
        return await self._database.transact(lambda tx: self._finish(tx, task_id, by))

    def _finish(self, tx: Transaction, task_id: str, by: Principal) -> Task:
        task = stored_task(tx, task_id)
        if task.done_at is not None:
            raise TaskAlreadyDone(task_id, by=task.done_by, at=task.done_at)
        held = task.conversation_id if task.kind in HANDED_OVER else None
        if held is not None and self._give_back(tx, held, by) is not None:
            return stored_task(tx, task_id)  # done with all that it was handed over for
        return finish(tx, task_id, by=by, at=self._clock.now())

    def _give_back(self, tx: Transaction, conversation_id: str, by: Principal) -> int | None:
        """How much the agent has to answer now; None when it had the conversation."""
        if not tx.conversations.give_back(conversation_id):
            return None
        now = self._clock.now()
        done = self._finish_all(tx, conversation_id, HANDED_OVER | {CUSTOMER_WROTE}, by, now)
        tx.audit.append(
            AuditEvent(
                action="conversation.given_back",
                actor=by,
                subject=conversation_id,
                at=now,
                data={"task": done[0].id} if done else {},
            )
        )
        unread = for_the_agent(tx, conversation_id)
        if unread:
            self._queue.wake(tx, conversation_id)
        return unread

    def _finish_all(
        self,
        tx: Transaction,
        conversation_id: str,
        kinds: set[str] | frozenset[str],
        by: Principal,
        at: datetime,
    ) -> tuple[Task, ...]:
        tasks = [task for task in tx.tasks.open_of(conversation_id) if task.kind in kinds]
        return tuple(finish(tx, task.id, by=by, at=at) for task in tasks)


def _check_open(tx: Transaction, conversation_id: str) -> None:
    if stored_conversation(tx, conversation_id).erased:
        raise ConversationNotFound(conversation_id)


def stored_conversation(tx: Transaction, conversation_id: str) -> Conversation:
    """The conversation as its row is now.

    Raises:
        ConversationNotFound: unknown id.
    """
    conversation = tx.conversations.get(conversation_id)
    if conversation is None:
        raise ConversationNotFound(conversation_id)
    return conversation

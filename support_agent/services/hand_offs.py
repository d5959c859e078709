"""Gives a conversation to a person: the agent's part ends and a staff task is made."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Author
from support_agent.domain.people import Asker, Principal, PrincipalKind
from support_agent.ports.storage import Task, Transaction
from support_agent.services.tasks import CUSTOMER_WROTE

GIVEN_TO_A_PERSON = "conversation.handed_off"
NO_DATA: Mapping[str, str] = MappingProxyType({})


def hand_off(
    tx: Transaction,
    asker: Asker,
    *,
    task_id: str,
    kind: str,
    at: datetime,
    data: Mapping[str, str] = NO_DATA,
) -> bool:
    """Hand it over with a task of this kind; False when a person has it already."""
    task = Task(
        id=task_id,
        kind=kind,
        subject=asker.conversation_id,
        conversation_id=asker.conversation_id,
        created_at=at,
    )
    return hand_over(tx, task, by=asker.principal, data=data)


def hand_over(
    tx: Transaction, task: Task, *, by: Principal, data: Mapping[str, str] = NO_DATA
) -> bool:
    """Hand the task's conversation over; False when a person has it already."""
    if not tx.conversations.hand_off(task.subject):
        return False
    tx.tasks.add(task)
    tx.audit.append(
        AuditEvent(
            action=GIVEN_TO_A_PERSON,
            actor=by,
            subject=task.subject,
            at=task.created_at,
            data={"task": task.id, **data},
        )
    )
    return True


def called_by_the_agent(tx: Transaction, conversation_id: str) -> bool:
    """Whether a turn called the person who has it; else they took it themselves."""
    row = tx.audit.latest_for(conversation_id, prefix=GIVEN_TO_A_PERSON)
    return row is not None and row.event.actor.kind is PrincipalKind.CUSTOMER


def for_the_agent(tx: Transaction, conversation_id: str) -> int:
    """What was written to a person who gave it back without an answer is unread; how much."""
    messages = tx.conversations.messages(conversation_id)
    last = max((m.seq for m in messages if m.author is Author.STAFF), default=0)
    return tx.conversations.unread_again(conversation_id, after_seq=last)


def customer_wrote(tx: Transaction, conversation_id: str, *, at: datetime) -> None:
    """Tell the person who has the conversation, once until they answer.

    Before their first answer the task of the hand-off itself says that somebody waits.
    """
    messages = tx.conversations.messages(conversation_id)
    answers = [message.seq for message in messages if message.author is Author.STAFF]
    if answers:
        tx.tasks.add(
            Task(
                id=f"task_{CUSTOMER_WROTE}_{conversation_id}_{answers[-1]}",
                kind=CUSTOMER_WROTE,
                subject=conversation_id,
                conversation_id=conversation_id,
                created_at=at,
            )
        )

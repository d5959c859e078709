"""Staff tasks: what a person has to do, and the record that they did it."""

from dataclasses import replace
from datetime import datetime

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import TaskAlreadyDone, TaskNotFound
from support_agent.domain.people import Principal
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Task, Transaction

HAND_OFF = "hand_off"
UNKNOWN_ORDERS = "unknown_orders"
HANDED_OVER = frozenset({HAND_OFF, UNKNOWN_ORDERS})  # done, they give the conversation back
PAY_BY_HAND = "pay_by_hand"


def finish(tx: Transaction, task_id: str, *, by: Principal, clock: Clock) -> Task:
    """The task, done. A hand-off that is done gives its conversation back to the agent.

    Otherwise a customer who writes again after a person helped would be answered by nobody.

    Raises:
        TaskNotFound: unknown id.
        TaskAlreadyDone: with who did it, and when.
    """
    now = clock.now()
    if not tx.tasks.finish(task_id, by=by.id, at=now):
        task = _stored(tx, task_id)
        raise TaskAlreadyDone(task_id, by=task.done_by, at=task.done_at)
    task = _stored(tx, task_id)
    event = done_event(task, by=by, at=now)
    tx.audit.append(event)
    if task.kind in HANDED_OVER and task.conversation_id is not None:
        _give_back(tx, event, task.conversation_id)
    return task


def done_event(task: Task, *, by: Principal, at: datetime) -> AuditEvent:
    """That a person did it, or ended what it was about."""
    data = {"kind": task.kind, "subject": task.subject}
    return AuditEvent(action="task.done", actor=by, subject=task.id, at=at, data=data)


def _give_back(tx: Transaction, done: AuditEvent, conversation_id: str) -> None:
    if tx.conversations.give_back(conversation_id):
        tx.audit.append(
            replace(
                done,
                action="conversation.given_back",
                subject=conversation_id,
                data={"task": done.subject},
            )
        )


def _stored(tx: Transaction, task_id: str) -> Task:
    task = tx.tasks.get(task_id)
    if task is None:
        raise TaskNotFound(task_id)
    return task

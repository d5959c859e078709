"""Staff tasks: what a person has to do, and the record that they did it."""

from datetime import datetime

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import TaskAlreadyDone, TaskNotFound
from support_agent.domain.people import Principal
from support_agent.ports.storage import Task, Transaction

HAND_OFF = "hand_off"
UNKNOWN_ORDERS = "unknown_orders"
DEAD_RUN = "dead_run"
CUSTOMER_WROTE = "customer_wrote"
# Tasks of somebody who has a conversation: done, they give it back to the agent.
HANDED_OVER = frozenset({HAND_OFF, UNKNOWN_ORDERS, DEAD_RUN})
PAY_BY_HAND = "pay_by_hand"


def stored_task(tx: Transaction, task_id: str) -> Task:
    """The task as its row is now.

    Raises:
        TaskNotFound: unknown id.
    """
    task = tx.tasks.get(task_id)
    if task is None:
        raise TaskNotFound(task_id)
    return task


def finish(tx: Transaction, task_id: str, *, by: Principal, at: datetime) -> Task:
    """The task, done, and nothing else; see `HandOffDesk.finish` for what follows from it.

    Raises:
        TaskNotFound: unknown id.
        TaskAlreadyDone: with who did it, and when.
    """
    if not tx.tasks.finish(task_id, by=by.id, at=at):
        task = stored_task(tx, task_id)
        raise TaskAlreadyDone(task_id, by=task.done_by, at=task.done_at)
    task = stored_task(tx, task_id)
    tx.audit.append(done_event(task, by=by, at=at))
    return task


def done_event(task: Task, *, by: Principal, at: datetime) -> AuditEvent:
    """That a person did it, or ended what it was about."""
    data = {"kind": task.kind, "subject": task.subject}
    return AuditEvent(action="task.done", actor=by, subject=task.id, at=at, data=data)

"""Gives a conversation to a person: the agent's part ends and a staff task is made."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from support_agent.domain.audit import AuditEvent
from support_agent.domain.people import Asker
from support_agent.ports.storage import Task, Transaction

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
    conversation_id = asker.conversation_id
    if not tx.conversations.hand_off(conversation_id):
        return False
    tx.tasks.add(
        Task(
            id=task_id,
            kind=kind,
            subject=conversation_id,
            conversation_id=conversation_id,
            created_at=at,
        )
    )
    tx.audit.append(
        AuditEvent(
            action="conversation.handed_off",
            actor=asker.principal,
            subject=conversation_id,
            at=at,
            data={"task": task_id, **data},
        )
    )
    return True

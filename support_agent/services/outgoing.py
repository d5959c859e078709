"""What leaves us, written with what caused it: messages of customers who do not wait, and runs."""

from datetime import datetime

from support_agent.domain.conversation import Released
from support_agent.domain.runs import Run, RunStatus
from support_agent.domain.webhooks import EventType
from support_agent.ports.storage import RunEnd, Transaction

CUSTOMER = "conversation.message"


def send_later(tx: Transaction, conversation_id: str, seq: int, *, at: datetime) -> None:
    """Let the message leave by its conversation's channel once this transaction is committed.

    After it was appended: then the events of a conversation are numbered as its messages are.
    """
    tx.outbox.add(
        CUSTOMER,
        key=f"{conversation_id}:{seq}",
        body={"conversation_id": conversation_id, "seq": str(seq)},
        at=at,
    )


# A person has the conversation after these.
_WITH_STAFF = frozenset({RunStatus.HANDED_OFF, RunStatus.DEAD})


def tell_of_run(tx: Transaction, run: Run, end: RunEnd, released: Released) -> None:
    """Let other systems know how the run ended, if any listens; costs nothing otherwise.

    A run that was resumed ends again; by then it has another owner.
    """
    if not released.is_listened:
        return
    handed_over = end.status in _WITH_STAFF
    tx.outbox.add(
        EventType.RUN_HANDED_OFF if handed_over else EventType.RUN_COMPLETED,
        key=f"{run.id}:{run.epoch}",
        body={
            "run_id": run.id,
            "conversation_id": run.conversation_id,
            "status": end.status,
            "stop_reason": end.stop_reason,
        },
        at=end.at,
        deliver=False,
    )

"""Messages for customers who do not wait for them: written with the event that sends them."""

from datetime import datetime

from support_agent.ports.storage import Transaction

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

"""`TurnQueue` without a queue: who takes a message answers it, and a worker looks for the rest."""

from collections.abc import Sequence

from support_agent.ports.storage import Transaction


class InlineQueue:
    """Wakes nobody. What is unread stands in the database, and a worker's sweep finds it there."""

    def wake(self, tx: Transaction, conversation_id: str, *, delay_s: float = 0) -> None:
        """Nothing to do: the message itself is the mark."""

    def wake_payouts(self, tx: Transaction) -> None:
        """Nothing to do: an approved request is the mark."""

    def asleep(self, tx: Transaction, conversation_ids: Sequence[str]) -> tuple[str, ...]:
        """All of them."""
        return tuple(conversation_ids)

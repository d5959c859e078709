"""Waking whoever answers conversations and pays: a wake-up carries no work, the database does."""

from collections.abc import Sequence
from typing import Protocol

from support_agent.ports.storage import Transaction


class TurnQueue(Protocol):
    """Tells a worker that there is something to do.

    Invariants:
        - A wake-up belongs to the transaction it is given: rolled back, there is none.
        - It may be lost, come twice, late or in any order: a sweep finds what is unread, whoever is
          woken for nothing does nothing.
    """

    def wake(self, tx: Transaction, conversation_id: str, *, delay_s: float = 0) -> None:
        """There is something unread in the conversation, to be looked at in `delay_s` seconds."""
        ...

    def wake_payouts(self, tx: Transaction) -> None:
        """A request was approved, and another process pays."""
        ...

    def asleep(self, tx: Transaction, conversation_ids: Sequence[str]) -> tuple[str, ...]:
        """Those of them that no wake-up waits for, in the same order."""
        ...

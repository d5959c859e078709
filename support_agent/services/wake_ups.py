"""The sweep of a shop with a queue: whoever should have been woken and was not, is."""

from functools import partial

from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import Database, Transaction
from support_agent.services.chores import Counts, counted

PAGE = 200


class WakeUps:
    """Wakes conversations with something unread, or with a run whose owner is gone."""

    def __init__(self, *, database: Database, queue: TurnQueue) -> None:
        self._database = database
        self._queue = queue

    async def run(self) -> Counts:
        """Once over all of them; those that a wake-up waits for are left alone."""
        woken = 0
        last: str | None = None
        while True:
            due, count = await self._database.transact(partial(self._page, last=last))
            woken += count
            if len(due) < PAGE:
                return counted(woken, "CONVERSATIONS")
            last = due[-1]

    def _page(self, tx: Transaction, last: str | None) -> tuple[tuple[str, ...], int]:
        due = tx.conversations.due(limit=PAGE, after=last)
        asleep = self._queue.asleep(tx, due)
        for conversation_id in asleep:
            self._queue.wake(tx, conversation_id)
        return due, len(asleep)

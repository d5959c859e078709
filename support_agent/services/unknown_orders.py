"""Orders a customer asks for and does not have: a few are slips, many look like a search."""

import json
from collections.abc import Iterable

from support_agent.domain.people import Asker
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction
from support_agent.services.hand_offs import hand_off
from support_agent.services.tasks import UNKNOWN_ORDERS


class UnknownOrders:
    """Calls a person after `limit` different ids in one conversation, and after each `limit` more.

    Another customer's order counts as one that does not exist, as it does everywhere. The count is
    taken from the stored calls: it survives runs, restarts and views that no longer show them.
    """

    def __init__(self, *, clock: Clock, limit: int) -> None:
        self._clock = clock
        self._limit = limit

    def called_a_person(self, tx: Transaction, asker: Asker, arguments: str) -> bool:
        """In the transaction that records these as not found: whether it was one too many."""
        before = tx.runs.not_found(asker.conversation_id)
        count = len(order_ids((*before, arguments)))
        times = count // self._limit
        task_id = f"task_{UNKNOWN_ORDERS}_{asker.conversation_id}_{times}"
        if times == 0 or tx.tasks.get(task_id) is not None:
            return False
        return hand_off(
            tx,
            asker,
            task_id=task_id,
            kind=UNKNOWN_ORDERS,
            at=self._clock.now(),
            data={"unknown_orders": str(count)},
        )


def order_ids(arguments: Iterable[str]) -> frozenset[str]:
    """The different ids in calls' arguments; a call whose id cannot be read counts by its text."""
    return frozenset(_order_id(text).casefold() for text in arguments)


def _order_id(text: str) -> str:
    try:
        value = json.loads(text)
        if isinstance(value, str):  # an object inside a string, which the tool runner unwraps
            value = json.loads(value)
        return str(value["order_id"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return text

"""Paying from a process that must not: it files and approves, a worker with the key pays."""

from typing import Protocol

from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.queue import TurnQueue
from support_agent.ports.storage import Database, Transaction
from support_agent.services.stored_requests import group_of, stored_request


class Payer(Protocol):
    """Pays what was approved just now, or sees to it that it is paid."""

    async def pay_group(self, request_id: str, *, notify: bool = True) -> tuple[RefundRequest, ...]:
        """The requests that are paid together, as they are now; see `Payouts.pay_group`."""
        ...


class PaidElsewhere:
    """Stands where `Payouts` does when PAYOUTS__RUN=worker; sends nothing to a gateway.

    The approval is committed by now. A wake-up that is lost costs time only: workers look for what
    is approved by themselves. The customer is told when it is paid.
    """

    def __init__(self, *, database: Database, queue: TurnQueue) -> None:
        self._database = database
        self._queue = queue

    async def pay_group(self, request_id: str, *, notify: bool = True) -> tuple[RefundRequest, ...]:
        """The requests that are paid together, as they are; the worker is woken.

        Raises:
            RequestNotFound: unknown id.
        """
        return await self._database.transact(lambda tx: self._hand_over(tx, request_id))

    def _hand_over(self, tx: Transaction, request_id: str) -> tuple[RefundRequest, ...]:
        members = group_of(tx, stored_request(tx, request_id))
        if any(member.status is RequestStatus.APPROVED for member in members):
            self._queue.wake_payouts(tx)
        return members

"""Reading refunds again that succeeded: a provider may let one fail up to weeks later."""

from datetime import datetime, timedelta

import structlog

from support_agent.domain.errors import AlreadyDecided, PaymentError
from support_agent.domain.refunds import Attempt, AttemptStatus, RefundRequest
from support_agent.ports.clock import Clock
from support_agent.ports.payments import GatewayRefund
from support_agent.ports.storage import Database, Transaction
from support_agent.services.breaker import Breaker
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.outcomes import Outcomes, mismatch_of, task_about
from support_agent.services.stored_requests import stored_request

log = structlog.get_logger(__name__)
STILL_ASKED = timedelta(days=45)  # after it was sent
ASKED_EVERY = timedelta(days=1)
MOST_AT_ONCE = 200


class Rereads:
    """Asks once a day about what is refunded; only a refund that says failed changes anything."""

    def __init__(
        self,
        *,
        database: Database,
        calls: GatewayCalls,
        outcomes: Outcomes,
        breaker: Breaker,
        clock: Clock,
    ) -> None:
        self._database = database
        self._calls = calls
        self._outcomes = outcomes
        self._breaker = breaker
        self._clock = clock

    async def run(self) -> tuple[RefundRequest, ...]:
        """The requests that turned out not to be refunded after all."""
        now, due = await self._database.read(_due)
        going_on = self._calls.worth_asking()
        failed: list[RefundRequest] = []
        for attempt in due:
            if not going_on():
                break
            request = await self._asked(attempt, now)
            if request is not None:
                failed.append(request)
        return tuple(failed)

    async def _asked(self, attempt: Attempt, now: datetime) -> RefundRequest | None:
        if not self._calls.knows(attempt):  # asked about, in turn, when its gateway is ours again
            await self._database.transact(lambda tx: tx.attempts.mark_checked(attempt.id, now))
            return None
        try:
            async with self._breaker.watching(self._calls.gateway.name):
                found = await self._calls.known(attempt)
            return await self._database.transact(lambda tx: self._told(tx, attempt, found, now))
        except PaymentError as error:
            log.warning("reread.put_off", refund_id=attempt.request_id, problem=str(error))
        except AlreadyDecided:
            log.info("reread.moved_meanwhile", refund_id=attempt.request_id)
        return None

    def _told(
        self, tx: Transaction, attempt: Attempt, found: GatewayRefund | None, now: datetime
    ) -> RefundRequest | None:
        before = stored_request(tx, attempt.request_id)
        after = before
        if found is None:
            tx.tasks.add(task_about(before, "refund_vanished", self._clock))
        elif mismatch_of(attempt, found) is not None:
            tx.tasks.add(task_about(before, "refund_changed", self._clock))
        else:
            after = self._outcomes.apply(tx, attempt, found, notify=True)
        tx.attempts.mark_checked(attempt.id, now)
        return after if after.version != before.version else None


def _due(tx: Transaction) -> tuple[datetime, tuple[Attempt, ...]]:
    now = tx.database_now()
    due = tx.attempts.due_for_check(
        sent_after=now - STILL_ASKED, checked_before=now - ASKED_EVERY, limit=MOST_AT_ONCE
    )
    return now, tuple(attempt for attempt in due if attempt.status is AttemptStatus.SUCCEEDED)

"""What came of an attempt to pay: the gateway's word, or its silence, becomes a state once."""

from collections.abc import Mapping
from types import MappingProxyType

from support_agent.domain.errors import AlreadyDecided
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import Attempt, AttemptStatus, RefundRequest, RequestStatus
from support_agent.ports.clock import Clock
from support_agent.ports.payments import GatewayRefund, GatewayStatus
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.refunds import RefundLife, stored_request

S = RequestStatus

# What the gateway's word means for the attempt and the request.
MEANING: Mapping[GatewayStatus, tuple[AttemptStatus, RequestStatus]] = MappingProxyType(
    {
        GatewayStatus.SUCCEEDED: (AttemptStatus.SUCCEEDED, S.REFUNDED),
        GatewayStatus.PENDING: (AttemptStatus.PENDING, S.PROVIDER_PENDING),
        GatewayStatus.REQUIRES_ACTION: (AttemptStatus.PENDING, S.PROVIDER_PENDING),
        GatewayStatus.FAILED: (AttemptStatus.FAILED, S.FAILED),
        GatewayStatus.CANCELED: (AttemptStatus.FAILED, S.FAILED),
    }
)
# The outcome is still open; in any other state it is known, and a second word changes nothing.
UNSETTLED = (S.PAYING, S.PROVIDER_PENDING, S.IN_DOUBT)


class Outcomes:
    """Settles attempts. Who tells the outcome does not matter: the sender or the reconciler."""

    def __init__(self, *, database: Database, life: RefundLife, clock: Clock) -> None:
        self._database = database
        self._life = life
        self._clock = clock

    async def answered(
        self, attempt: Attempt, answer: GatewayRefund, *, notify: bool
    ) -> RefundRequest:
        """The gateway told what it did; an answer about something else goes to a person."""
        asked = (attempt.key, attempt.amount_minor, attempt.currency)
        if (answer.key, answer.amount_minor, answer.currency) != asked:
            return await self._settle(
                attempt,
                AttemptStatus.UNKNOWN,
                S.MANUAL_REVIEW,
                provider_id=answer.provider_refund_id,
                error="AMOUNT_MISMATCH",
                notify=notify,
            )
        attempt_status, status = MEANING[answer.status]
        return await self._settle(
            attempt,
            attempt_status,
            status,
            provider_id=answer.provider_refund_id,
            error=answer.failure_code,
            notify=notify,
        )

    async def declined(self, attempt: Attempt, *, code: str, notify: bool) -> RefundRequest:
        """Positive evidence that nothing was paid."""
        return await self._settle(
            attempt, AttemptStatus.FAILED, S.FAILED, error=code, notify=notify
        )

    async def refused_key(self, attempt: Attempt, *, code: str, notify: bool) -> RefundRequest:
        """The gateway knows the key with other parameters: our bug, a person must look."""
        return await self._settle(
            attempt, AttemptStatus.UNKNOWN, S.MANUAL_REVIEW, error=code, notify=notify
        )

    async def unknown(self, attempt: Attempt, *, notify: bool) -> RefundRequest:
        """No answer: it may have been paid. The reserve stays, nothing is sent again."""
        return await self._settle(
            attempt, AttemptStatus.UNKNOWN, S.IN_DOUBT, error=None, notify=notify
        )

    async def _settle(
        self,
        attempt: Attempt,
        attempt_status: AttemptStatus,
        to: RequestStatus,
        *,
        error: str | None,
        provider_id: str | None = None,
        notify: bool,
    ) -> RefundRequest:
        def settle(tx: Transaction) -> RefundRequest:
            request = stored_request(tx, attempt.request_id)
            if request.status not in UNSETTLED or request.status is to:
                return request
            if to is S.IN_DOUBT and request.status is not S.PAYING:
                return request
            data = {"attempt": attempt.id, "provider_refund": provider_id or ""}
            moved = self._life.transition(tx, request, to, actor=SYSTEM, notify=notify, data=data)
            tx.attempts.finish(
                attempt.id, attempt_status, provider_refund_id=provider_id, error_code=error
            )
            if to in {S.FAILED, S.MANUAL_REVIEW}:
                tx.tasks.add(task_about(moved, "payout_problem", self._clock))
            return moved

        try:
            return await self._database.transact(settle)
        except AlreadyDecided:  # somebody else told the same outcome at the same time
            return await self._database.read(lambda tx: stored_request(tx, attempt.request_id))


def task_about(request: RefundRequest, kind: str, clock: Clock) -> Task:
    """Something for a person to do about a request; once a kind and round."""
    return Task(
        id=f"task_{kind}_{request.id}_{request.round}",
        kind=kind,
        subject=request.id,
        conversation_id=request.conversation_id,
        created_at=clock.now(),
    )

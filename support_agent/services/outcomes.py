"""What came of an attempt to pay: the gateway's word, or its silence, becomes a state once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import structlog

from support_agent.domain.approvals import Choice, Decision
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import AlreadyDecided
from support_agent.domain.people import SYSTEM
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.payments import GatewayRefund, GatewayStatus
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.gateway_calls import sent_by
from support_agent.services.refunds import RefundLife
from support_agent.services.second_look import second_look_task
from support_agent.services.standing import is_tampered
from support_agent.services.stored_requests import stored_request

log = structlog.get_logger(__name__)
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
# The outcome is still open; in any other state it is known, and a second word changes nothing
# but one: what was refunded may fail late.
UNSETTLED = (S.PAYING, S.PROVIDER_PENDING, S.IN_DOUBT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """What is to become of an attempt and its request."""

    attempt: AttemptStatus
    to: RequestStatus
    provider_id: str | None = None
    error: str | None = None


class Outcomes:
    """Settles attempts. Who tells the outcome does not matter: sender, reconciler or event."""

    def __init__(
        self, *, database: Database, life: RefundLife, keys: KeyRing, clock: Clock
    ) -> None:
        self._database = database
        self._life = life
        self._keys = keys
        self._clock = clock

    async def answered(
        self, attempt: Attempt, answer: GatewayRefund, *, notify: bool
    ) -> RefundRequest:
        """The gateway told what it did; an answer about something else goes to a person."""
        return await self._committed(
            attempt, lambda tx: self.apply(tx, attempt, answer, notify=notify)
        )

    def apply(
        self, tx: Transaction, attempt: Attempt, answer: GatewayRefund, *, notify: bool
    ) -> RefundRequest:
        """`answered` inside the caller's transaction.

        Raises:
            AlreadyDecided: somebody else moved the request at the same moment.
        """
        of_another = _is_of_another(tx, attempt, answer)
        mismatch = "REFUND_OF_ANOTHER" if of_another else mismatch_of(attempt, answer)
        if mismatch is not None:
            log.error("payout.mismatch", refund_id=attempt.request_id, problem=mismatch)
            status, to = AttemptStatus.UNKNOWN, S.MANUAL_REVIEW
        else:
            status, to = MEANING[answer.status]
        waits = answer.status if answer.status is GatewayStatus.REQUIRES_ACTION else None
        word = _Word(
            attempt=status,
            to=to,
            provider_id=None if of_another else answer.provider_refund_id,
            error=mismatch or answer.failure_code or waits,
        )
        return self._settle(tx, attempt, word, notify=notify)

    async def declined(self, attempt: Attempt, *, code: str, notify: bool) -> RefundRequest:
        """Positive evidence that nothing was paid."""
        word = _Word(attempt=AttemptStatus.FAILED, to=S.FAILED, error=code)
        return await self._told(attempt, word, notify=notify)

    async def given_up(self, attempt: Attempt, *, code: str, notify: bool) -> RefundRequest:
        """No machine can tell, or it is a bug of ours: a person must look. The reserve stays."""
        log.error("payout.given_up", refund_id=attempt.request_id, problem=code)
        word = _Word(attempt=AttemptStatus.UNKNOWN, to=S.MANUAL_REVIEW, error=code)
        return await self._told(attempt, word, notify=notify)

    async def unknown(self, attempt: Attempt, *, notify: bool) -> RefundRequest:
        """No answer: it may have been paid. The reserve stays."""
        word = _Word(attempt=AttemptStatus.UNKNOWN, to=S.IN_DOUBT)
        return await self._told(attempt, word, notify=notify)

    async def _told(self, attempt: Attempt, word: _Word, *, notify: bool) -> RefundRequest:
        return await self._committed(
            attempt, lambda tx: self._settle(tx, attempt, word, notify=notify)
        )

    async def _committed(
        self, attempt: Attempt, work: Callable[[Transaction], RefundRequest]
    ) -> RefundRequest:
        try:
            return await self._database.transact(work)
        except AlreadyDecided:  # somebody else told the same outcome at the same time
            return await self._database.read(
                lambda tx: stored_request(tx, attempt.request_id), brief=True
            )

    def _settle(
        self, tx: Transaction, attempt: Attempt, word: _Word, *, notify: bool
    ) -> RefundRequest:
        request = stored_request(tx, attempt.request_id)
        if attempt.number != request.attempt_no:  # of an earlier attempt, which is final
            return request
        if not _is_news(request, word):
            self._keep_id(tx, request, attempt, word)
            return request
        if not is_attempt_of(request, attempt) or is_tampered(tx, request, self._keys):
            return hold_back(tx, request, Reason.RECORD_CHANGED, self._clock)
        if _is_proved_paid(tx, request):  # by a person, with evidence: a person looks again
            tx.tasks.add(task_about(request, "late_failure", self._clock))
            return request
        data = {"attempt": attempt.id, "provider_refund": word.provider_id or ""}
        moved = self._life.transition(tx, request, word.to, actor=SYSTEM, notify=notify, data=data)
        if not notify and moved.status is not S.IN_DOUBT:  # of a doubt they may have been told
            self._life.tell_unless_stated(tx, request, moved)
        tx.attempts.finish(
            attempt.id, word.attempt, provider_refund_id=word.provider_id, error_code=word.error
        )
        for task in self._tasks(request, moved):
            tx.tasks.add(task)
        return moved

    def _tasks(self, before: RefundRequest, moved: RefundRequest) -> tuple[Task, ...]:
        if moved.status is S.REFUNDED:
            drawn = second_look_task(moved, self._keys, self._clock)
            return () if drawn is None else (drawn,)
        if moved.status in {S.FAILED, S.MANUAL_REVIEW}:
            kind = "late_failure" if before.status is S.REFUNDED else "payout_problem"
            return (task_about(moved, kind, self._clock),)
        return ()

    def _keep_id(
        self, tx: Transaction, request: RefundRequest, attempt: Attempt, word: _Word
    ) -> None:
        """Who ends a manual review should find the refund at the provider.

        One that shows up after a person said, with the proof of another payment, that it was paid
        may be the same money twice.
        """
        stored = tx.attempts.live(request.id)
        if (
            request.status in {S.MANUAL_REVIEW, S.REFUNDED}
            and stored is not None
            and stored.id == attempt.id
            and stored.provider_refund_id is None
            and word.provider_id is not None
            and tx.requests.hold(request)
        ):
            tx.attempts.finish(
                attempt.id,
                stored.status,
                provider_refund_id=word.provider_id,
                error_code=stored.error_code,
            )
            pays = word.to in {S.REFUNDED, S.PROVIDER_PENDING, S.MANUAL_REVIEW}
            if request.status is S.REFUNDED and pays and not _is_proof(tx, request, word):
                tx.tasks.add(task_about(request, "paid_after_all", self._clock))


def _is_news(request: RefundRequest, word: _Word) -> bool:
    """Whether the word changes the state: each outcome once, and never back."""
    if request.status is S.REFUNDED:
        return word.to is S.FAILED and word.provider_id is not None
    if request.status not in UNSETTLED or request.status is word.to:
        return False
    return word.to is not S.IN_DOUBT or request.status is S.PAYING


def _is_proved_paid(tx: Transaction, request: RefundRequest) -> bool:
    return bool(_proofs(tx, request))


def _is_proof(tx: Transaction, request: RefundRequest, word: _Word) -> bool:
    """Whether the refund that the word is about is the one by which a person proved it paid."""
    return any(decision.evidence == word.provider_id for decision in _proofs(tx, request))


def _proofs(tx: Transaction, request: RefundRequest) -> tuple[Decision, ...]:
    return tuple(
        decision
        for decision in tx.decisions.of(request.id)
        if decision.choice is Choice.PAID and decision.round == request.round
    )


def mismatch_of(attempt: Attempt, answer: GatewayRefund) -> str | None:
    """What an answer tells that is not what was asked for; None when it is about the attempt."""
    sent = sent_by(attempt)
    other_id = answer.other_payment_id
    paid = answer.payment
    same_payment = (paid.gateway, paid.account) == (sent.gateway, sent.account) and (
        sent.gateway_payment_id in {paid.gateway_payment_id, other_id}
    )
    checks = (
        (answer.key == sent.key, "KEY_MISMATCH"),
        (attempt.provider_refund_id in {None, answer.provider_refund_id}, "REFUND_ID_MISMATCH"),
        (same_payment, "PAYMENT_MISMATCH"),
        (answer.currency == sent.currency, "CURRENCY_MISMATCH"),
        (answer.amount_minor == sent.amount_minor, "AMOUNT_MISMATCH"),
    )
    return next((problem for right, problem in checks if not right), None)


def _is_of_another(tx: Transaction, attempt: Attempt, answer: GatewayRefund) -> bool:
    """Whether another attempt has this very refund already: one refund pays one of them."""
    known = tx.attempts.by_provider_id(attempt.gateway, answer.provider_refund_id)
    return known is not None and known.id != attempt.id and known.account == attempt.account


def is_attempt_of(request: RefundRequest, attempt: Attempt) -> bool:
    """Whether the attempt is the one that the request's own, signed, row names."""
    return (
        attempt.request_id,
        attempt.number,
        attempt.round,
        attempt.key,
        attempt.gateway,
        attempt.account,
        attempt.gateway_payment_id,
        attempt.amount_minor,
        attempt.currency,
    ) == (
        request.id,
        request.attempt_no,
        request.round,
        attempt_key(request.id, request.attempt_no),
        request.gateway,
        request.account,
        request.gateway_payment_id,
        request.amount_minor,
        request.currency,
    )


def hold_back(
    tx: Transaction, request: RefundRequest, reason: Reason, clock: Clock
) -> RefundRequest:
    """Leave the request as it is, once with an audit event and a staff task."""
    if tx.tasks.add(task_about(request, "payout_refused", clock)):
        tx.audit.append(
            AuditEvent(
                action="payout.refused",
                actor=SYSTEM,
                subject=request.id,
                at=clock.now(),
                data={"reason": reason},
            )
        )
    return request


def task_id(request: RefundRequest, kind: str) -> str:
    """One task a kind and round."""
    return f"task_{kind}_{request.id}_{request.round}"


def task_about(request: RefundRequest, kind: str, clock: Clock) -> Task:
    """Something for a person to do about a request; once a kind and round."""
    return Task(
        id=task_id(request, kind),
        kind=kind,
        subject=request.id,
        conversation_id=request.conversation_id,
        created_at=clock.now(),
    )

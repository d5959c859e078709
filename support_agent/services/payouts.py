"""Paying: commit the intent, call the gateway once with its key, commit what came of it."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from support_agent.domain.approvals import genuine_approvals
from support_agent.domain.assessment import assess
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
    RequestNotFound,
)
from support_agent.domain.orders import PAID_BY_HAND, Order
from support_agent.domain.people import SYSTEM
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentGateway,
    PaymentState,
    RefundInstruction,
)
from support_agent.ports.storage import Database, Task, Transaction
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.terms import RefundTerms

T = TypeVar("T")
S = RequestStatus
BATCH = 100

# What the gateway's word means for the attempt and the request.
OUTCOMES: dict[GatewayStatus, tuple[AttemptStatus, RequestStatus]] = {
    GatewayStatus.SUCCEEDED: (AttemptStatus.SUCCEEDED, S.REFUNDED),
    GatewayStatus.PENDING: (AttemptStatus.PENDING, S.PROVIDER_PENDING),
    GatewayStatus.REQUIRES_ACTION: (AttemptStatus.PENDING, S.PROVIDER_PENDING),
    GatewayStatus.FAILED: (AttemptStatus.FAILED, S.FAILED),
    GatewayStatus.CANCELED: (AttemptStatus.FAILED, S.FAILED),
}


class Payouts:
    """Pays approved requests. Status alone moves no money: the decisions must verify."""

    def __init__(
        self,
        *,
        database: Database,
        orders: OrderRepository,
        gateway: PaymentGateway,
        life: RefundLife,
        policies: PoliciesInForce,
        terms: RefundTerms,
        keys: KeyRing,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._database = database
        self._orders = orders
        self._gateway = gateway
        self._life = life
        self._policies = policies
        self._terms = terms
        self._keys = keys
        self._clock = clock
        self._ids = ids

    async def pay(self, request_id: str, *, notify: bool = True) -> RefundRequest:
        """Try to pay an approved request once; any other status is handed back as it is.

        Raises:
            RequestNotFound: unknown id.
            PaymentOutcomeUnknown: the gateway could not even be asked; nothing was sent.
            OrdersUnavailable: the shop's system did not answer; nothing was sent.
        """
        request = await self._request(request_id)
        if request.status is not S.APPROVED:
            return request
        if request.method in PAID_BY_HAND:
            return await self._to_hand(request_id, notify=notify)
        order = await self._orders.get(request.order_id)
        state = await self._ask(self._gateway.payment_state(instruction_of(request)))
        started = await self._database.transact(
            lambda tx: self._begin(tx, request_id, order, state, notify=notify)
        )
        if isinstance(started, RefundRequest):
            return started
        return await self._send(started, notify=notify)

    async def pay_due(self) -> tuple[RefundRequest, ...]:
        """Pay what is approved and was not tried yet: a process died, or the gateway was down."""
        due = await self._database.read(
            lambda tx: tx.requests.in_status((S.APPROVED,), limit=BATCH)
        )
        return tuple([await self.pay(request.id) for request in due])

    async def reconcile(self) -> tuple[RefundRequest, ...]:
        """Settle attempts whose answer was lost, by asking the gateway for their key."""
        unclear = await self._database.read(
            lambda tx: tx.requests.in_status((S.PAYING, S.IN_DOUBT), limit=BATCH)
        )
        return tuple([await self._reconcile_one(request) for request in unclear])

    async def _reconcile_one(self, request: RefundRequest) -> RefundRequest:
        attempt = await self._database.read(lambda tx: tx.attempts.live(request.id))
        if attempt is None:
            return request
        found = await self._ask(self._gateway.find(sent_by(attempt)))
        if found is not None:
            return await self._conclude(attempt, found, notify=True)
        if request.status is S.PAYING:
            return await self._unknown(attempt, notify=True)
        return request

    async def _request(self, request_id: str) -> RefundRequest:
        request = await self._database.read(lambda tx: tx.requests.get(request_id))
        if request is None:
            raise RequestNotFound(request_id)
        return request

    async def _to_hand(self, request_id: str, *, notify: bool) -> RefundRequest:
        def move(tx: Transaction) -> RefundRequest:
            request = _still_approved(tx, request_id)
            if request.status is not S.APPROVED:
                return request
            if not self._genuine(tx, request):
                return self._refuse(tx, request, Reason.DECISION_NOT_GENUINE)
            self._task(tx, "pay_by_hand", request)
            return self._life.transition(tx, request, S.MANUAL_REVIEW, actor=SYSTEM, notify=notify)

        return await self._database.transact(move)

    def _begin(
        self,
        tx: Transaction,
        request_id: str,
        order: Order | None,
        state: PaymentState,
        *,
        notify: bool,
    ) -> Attempt | RefundRequest:
        """Commit the attempt with its exact parameters before anything is sent."""
        request = _still_approved(tx, request_id)
        if request.status is not S.APPROVED:
            return request
        if not self._genuine(tx, request):
            return self._refuse(tx, request, Reason.DECISION_NOT_GENUINE)
        if request.approved_until is not None and self._clock.now() > request.approved_until:
            return self._life.transition(tx, request, S.EXPIRED, actor=SYSTEM, notify=notify)
        worse = self._worse(tx, request, order, state)
        if worse is not None:
            return self._life.transition(
                tx,
                request,
                S.PENDING_APPROVAL,
                actor=SYSTEM,
                next_round=True,
                data={"reason": worse},
            )
        attempt = self._attempt(tx, request)
        if not tx.attempts.add(attempt):
            return request
        self._life.transition(
            tx,
            request,
            S.PAYING,
            actor=SYSTEM,
            notify=False,
            approved_until=request.approved_until,
            data={"attempt": attempt.id},
        )
        return attempt

    def _genuine(self, tx: Transaction, request: RefundRequest) -> bool:
        persons = genuine_approvals(tx.decisions.of(request.id), request, self._keys)
        return len(persons) >= max(1, request.approvals_needed)

    def _refuse(self, tx: Transaction, request: RefundRequest, reason: Reason) -> RefundRequest:
        """Leave the request as it is, once with an audit event and a staff task."""
        if self._task(tx, "decision_not_genuine", request):
            tx.audit.append(
                AuditEvent(
                    action="payout.refused",
                    actor=SYSTEM,
                    subject=request.id,
                    at=self._clock.now(),
                    data={"reason": reason},
                )
            )
        return request

    def _task(self, tx: Transaction, kind: str, request: RefundRequest) -> bool:
        return tx.tasks.add(
            Task(
                id=f"task_{kind}_{request.id}_{request.round}",
                kind=kind,
                subject=request.id,
                conversation_id=request.conversation_id,
                created_at=self._clock.now(),
            )
        )

    def _worse(
        self, tx: Transaction, request: RefundRequest, order: Order | None, state: PaymentState
    ) -> Reason | None:
        """What became worse since the approval, at the shop, in our books or at the gateway."""
        if order is None or order.customer_id != request.customer_id:
            return Reason.STATUS_UNKNOWN
        books = tx.books.of_order(order.id, without_request=request.id)
        policy = replace(self._policies.current(tx), window_days=None)
        assessment = assess(order, books, policy, self._clock.now())
        if assessment.verdict is Verdict.INELIGIBLE:
            return assessment.reasons[0]
        if assessment.max_refundable_minor < request.amount_minor:
            return Reason.AMOUNT_TOO_HIGH
        if state.disputed:
            return Reason.DISPUTED
        ours = sum(b.refunded_minor for b in books.payments if b.payment_id == request.payment_id)
        elsewhere = state.account != request.account or state.livemode != self._gateway.livemode
        return Reason.PAYMENT_FROZEN if elsewhere or state.refunded_minor > ours else None

    def _attempt(self, tx: Transaction, request: RefundRequest) -> Attempt:
        number = len(tx.attempts.of(request.id)) + 1
        return Attempt(
            id=self._ids.new("att"),
            request_id=request.id,
            number=number,
            round=request.round,
            key=attempt_key(request.id, number),
            gateway=request.gateway,
            account=request.account,
            gateway_payment_id=request.gateway_payment_id,
            amount_minor=request.amount_minor,
            currency=request.currency,
            status=AttemptStatus.CREATED,
            created_at=self._clock.now(),
        )

    async def _send(self, attempt: Attempt, *, notify: bool) -> RefundRequest:
        try:
            answer = await self._ask(self._gateway.refund(sent_by(attempt)))
        except PaymentDeclined as declined:
            return await self._finish(
                attempt, AttemptStatus.FAILED, S.FAILED, error=str(declined), notify=notify
            )
        except IdempotencyMismatch as mismatch:
            return await self._finish(
                attempt, AttemptStatus.UNKNOWN, S.MANUAL_REVIEW, error=mismatch.code, notify=notify
            )
        except PaymentError:
            return await self._unknown(attempt, notify=notify)
        return await self._conclude(attempt, answer, notify=notify)

    async def _ask(self, call: Awaitable[T]) -> T:
        """The gateway's answer; silence is an unknown outcome, never a failure."""
        try:
            async with asyncio.timeout(self._terms.gateway_timeout_s):
                return await call
        except TimeoutError as error:
            raise PaymentOutcomeUnknown(f"gateway {self._gateway.name!r} timed out") from error

    async def _conclude(
        self, attempt: Attempt, answer: GatewayRefund, *, notify: bool
    ) -> RefundRequest:
        same = (answer.amount_minor, answer.currency) == (attempt.amount_minor, attempt.currency)
        if not same:
            return await self._finish(
                attempt,
                AttemptStatus.UNKNOWN,
                S.MANUAL_REVIEW,
                provider_id=answer.provider_refund_id,
                error="AMOUNT_MISMATCH",
                notify=notify,
            )
        attempt_status, status = OUTCOMES[answer.status]
        return await self._finish(
            attempt,
            attempt_status,
            status,
            provider_id=answer.provider_refund_id,
            error=answer.failure_code,
            notify=notify,
        )

    async def _unknown(self, attempt: Attempt, *, notify: bool) -> RefundRequest:
        return await self._finish(
            attempt, AttemptStatus.UNKNOWN, S.IN_DOUBT, error=None, notify=notify
        )

    async def _finish(
        self,
        attempt: Attempt,
        attempt_status: AttemptStatus,
        to: RequestStatus,
        *,
        error: str | None,
        provider_id: str | None = None,
        notify: bool,
    ) -> RefundRequest:
        def conclude(tx: Transaction) -> RefundRequest:
            request = tx.requests.get(attempt.request_id)
            if request is None:
                raise RequestNotFound(attempt.request_id)
            if request.status not in {S.PAYING, S.IN_DOUBT} or request.status is to:
                return request
            data = {"attempt": attempt.id, "provider_refund": provider_id or ""}
            moved = self._life.transition(tx, request, to, actor=SYSTEM, notify=notify, data=data)
            tx.attempts.finish(
                attempt.id, attempt_status, provider_refund_id=provider_id, error_code=error
            )
            if to in {S.FAILED, S.MANUAL_REVIEW}:
                self._task(tx, "payout_problem", moved)
            return moved

        return await self._database.transact(conclude)


def _still_approved(tx: Transaction, request_id: str) -> RefundRequest:
    request = tx.requests.get(request_id)
    if request is None:
        raise RequestNotFound(request_id)
    return request


def instruction_of(request: RefundRequest) -> RefundInstruction:
    """Names the payment of a request; the key is that of its next attempt and is not sent."""
    return RefundInstruction(
        key="",
        request_id=request.id,
        gateway=request.gateway,
        account=request.account,
        gateway_payment_id=request.gateway_payment_id,
        amount_minor=request.amount_minor,
        currency=request.currency,
    )


def sent_by(attempt: Attempt) -> RefundInstruction:
    """Exactly what an attempt sends: from its committed row, every time the same bytes."""
    return RefundInstruction(
        key=attempt.key,
        request_id=attempt.request_id,
        gateway=attempt.gateway,
        account=attempt.account,
        gateway_payment_id=attempt.gateway_payment_id,
        amount_minor=attempt.amount_minor,
        currency=attempt.currency,
    )

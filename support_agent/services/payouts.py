"""Paying: commit the intent, call the gateway once with its key, commit what came of it."""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import TypeVar

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    AlreadyDecided,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentError,
    PaymentOutcomeUnknown,
    RecordChanged,
)
from support_agent.domain.orders import Order
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
from support_agent.ports.clock import Clock, Ids
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import PaymentGateway, PaymentState, RefundInstruction
from support_agent.ports.storage import Database, Transaction
from support_agent.services.clearance import Clearance
from support_agent.services.outcomes import UNSETTLED, Outcomes, task_about
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife, stored_request
from support_agent.services.standing import Objection
from support_agent.services.sweeps import PAGE, sweep
from support_agent.services.terms import RefundTerms

T = TypeVar("T")
S = RequestStatus

# The number of a request's attempt. FAILED is final, so there is one in a request's life, in
# whichever round. It is counted from no row: whoever can hide an attempt, or bring an earlier
# round back, gets the same key again, and with it the refund that was made already.
ONLY = 1

# A payment this young may be on its way in another process. A courtesy, so business time will do:
# calling it in doubt too early costs the customer a second message, and nobody any money.
IN_FLIGHT = timedelta(minutes=5)

# A person looks at what has been open for so long.
LASTS_TOO_LONG: Mapping[RequestStatus, timedelta] = MappingProxyType(
    {S.IN_DOUBT: timedelta(hours=1), S.PROVIDER_PENDING: timedelta(days=10)}
)


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
        self._terms = terms
        self._clock = clock
        self._ids = ids
        self._clearance = Clearance(policies=policies, keys=keys, clock=clock, gateway=gateway)
        self._outcomes = Outcomes(database=database, life=life, clock=clock)

    async def pay(self, request_id: str, *, notify: bool = True) -> RefundRequest:
        """Try to pay an approved request once; any other status is handed back as it is.

        Raises:
            RequestNotFound: unknown id.
            PaymentOutcomeUnknown: the gateway could not even be asked; nothing was sent.
            OrdersUnavailable: the shop's system did not answer; nothing was sent.
        """
        request = await self._database.read(lambda tx: stored_request(tx, request_id))
        if request.status is not S.APPROVED:
            return request
        order = await self._orders.get(request.order_id)
        state = await self._payment_state(request)
        try:
            started = await self._database.transact(
                lambda tx: self._begin(tx, request_id, order, state, notify=notify)
            )
        except AlreadyDecided:  # somebody else moved it at the same moment
            return await self._database.read(lambda tx: stored_request(tx, request_id))
        except RecordChanged:
            return await self._database.transact(lambda tx: self._key_taken(tx, request_id))
        if isinstance(started, RefundRequest):
            return started
        return await self._send(started, notify=notify)

    async def pay_due(self) -> tuple[RefundRequest, ...]:
        """Pay what is approved and was not tried yet: a process died, or the gateway was down."""
        return await sweep(
            self._database,
            lambda tx, last: tx.requests.in_status((S.APPROVED,), limit=PAGE, after=last),
            self.pay,
        )

    async def reconcile(self) -> tuple[RefundRequest, ...]:
        """Settle attempts whose outcome is not known, by asking the gateway for their key.

        Nothing is sent again. What the gateway does not know is in doubt, once it is too old to be
        on its way in another process, and stays so until the gateway knows it or a person looks.
        """
        return await sweep(
            self._database,
            lambda tx, last: tx.requests.in_status(UNSETTLED, limit=PAGE, after=last),
            self._reconcile_one,
        )

    async def _reconcile_one(self, request_id: str) -> RefundRequest:
        request, attempt = await self._database.read(
            lambda tx: (stored_request(tx, request_id), tx.attempts.live(request_id))
        )
        if attempt is None:
            return request
        age = self._clock.now() - attempt.created_at
        found = await self._ask(self._gateway.find(sent_by(attempt)))
        if found is not None:
            request = await self._outcomes.answered(attempt, found, notify=True)
        elif request.status is S.PAYING and age > IN_FLIGHT:
            request = await self._outcomes.unknown(attempt, notify=True)
        if age > LASTS_TOO_LONG.get(request.status, age):
            overdue = task_about(request, f"still_{request.status.lower()}", self._clock)
            await self._database.transact(lambda tx: tx.tasks.add(overdue))
        return request

    async def _payment_state(self, request: RefundRequest) -> PaymentState | None:
        """What the gateway says of the payment, read before each attempt; None: it knows none."""
        if self._clearance.by_hand(request):
            return None
        try:
            return await self._ask(self._gateway.payment_state(instruction_of(request)))
        except PaymentDeclined:
            return None

    def _begin(
        self,
        tx: Transaction,
        request_id: str,
        order: Order | None,
        state: PaymentState | None,
        *,
        notify: bool,
    ) -> Attempt | RefundRequest:
        """Commit the attempt with its exact parameters before anything is sent."""
        request = stored_request(tx, request_id)
        if request.status is not S.APPROVED:
            return request
        forged = self._clearance.forgery(tx, request)
        if forged is not None:
            now = stored_request(tx, request_id)  # another worker may have moved it while we looked
            return now if now != request else self._refuse(tx, request, forged)
        if request.approved_until is not None and self._clock.now() > request.approved_until:
            return self._life.transition(tx, request, S.EXPIRED, actor=SYSTEM, notify=notify)
        objection = self._clearance.objection(tx, request, order, state)
        if objection is not None:
            return self._back(tx, request, objection)
        if self._clearance.by_hand(request):
            moved = self._life.transition(tx, request, S.MANUAL_REVIEW, actor=SYSTEM, notify=notify)
            tx.tasks.add(task_about(moved, "pay_by_hand", self._clock))
            return moved
        return self._start(tx, request)

    def _start(self, tx: Transaction, request: RefundRequest) -> Attempt:
        """The request's row first: who has moved it is the only one to start this round.

        Raises:
            RecordChanged: its key is taken all the same, so somebody wrote that by hand.
        """
        attempt = self._attempt(request)
        self._life.transition(
            tx,
            request,
            S.PAYING,
            actor=SYSTEM,
            notify=False,
            approved_until=request.approved_until,
            data={"attempt": attempt.id, "key": attempt.key},
        )
        if not tx.attempts.add(attempt):
            raise RecordChanged("refund request", request.id)
        return attempt

    def _key_taken(self, tx: Transaction, request_id: str) -> RefundRequest:
        """Starting was rolled back; the request is as it was, unless it moved since."""
        request = stored_request(tx, request_id)
        if request.status is not S.APPROVED:
            return request
        return self._refuse(tx, request, Reason.RECORD_CHANGED)

    def _back(self, tx: Transaction, request: RefundRequest, objection: Objection) -> RefundRequest:
        """A person decides again; the decisions of this round no longer count."""
        return self._life.transition(
            tx,
            request,
            S.PENDING_APPROVAL,
            actor=SYSTEM,
            next_round=True,
            data={"reason": objection.reason},
        )

    def _refuse(self, tx: Transaction, request: RefundRequest, reason: Reason) -> RefundRequest:
        """Leave the request as it is, once with an audit event and a staff task."""
        if tx.tasks.add(task_about(request, "payout_refused", self._clock)):
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

    def _attempt(self, request: RefundRequest) -> Attempt:
        return Attempt(
            id=self._ids.new("att"),
            request_id=request.id,
            number=ONLY,
            round=request.round,
            key=attempt_key(request.id, ONLY),
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
            return await self._outcomes.declined(attempt, code=str(declined), notify=notify)
        except IdempotencyMismatch as mismatch:
            return await self._outcomes.refused_key(attempt, code=mismatch.code, notify=notify)
        except PaymentError:
            return await self._outcomes.unknown(attempt, notify=notify)
        return await self._outcomes.answered(attempt, answer, notify=notify)

    async def _ask(self, call: Awaitable[T]) -> T:
        """The gateway's answer; silence is an unknown outcome, never a failure."""
        try:
            async with asyncio.timeout(self._terms.gateway_timeout_s):
                return await call
        except TimeoutError as error:
            raise PaymentOutcomeUnknown(f"gateway {self._gateway.name!r} timed out") from error


def instruction_of(request: RefundRequest) -> RefundInstruction:
    """Names the payment of a request, to ask about it; nothing is ever sent without a key."""
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

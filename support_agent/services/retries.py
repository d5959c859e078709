"""Paying again what failed: staff asks for it, every guard of filing holds again, a person decides.

Never the same attempt: it gets a new number and so a new key, once the gateway itself says that
none of the old keys was paid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support_agent.domain.assessment import required_approvals
from support_agent.domain.errors import IllegalTransition, PaymentDeclined, RefundRefused
from support_agent.domain.offers import Scrutiny
from support_agent.domain.orders import PAID_BY_HAND, Order
from support_agent.domain.people import Principal
from support_agent.domain.policy import Assessment, OrderBooks, Policy, Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import Attempt, RefundRequest, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.domain.tenders import destination_of
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.payments import GatewayStatus, PaymentGateway, PaymentState
from support_agent.ports.storage import Database, Transaction
from support_agent.services.approvers import check_acting
from support_agent.services.destinations import check as check_destination
from support_agent.services.destinations import is_new, newest_for, text_of
from support_agent.services.gateway_calls import GatewayCalls, instruction_of
from support_agent.services.outcomes import task_about
from support_agent.services.policies import PoliciesInForce
from support_agent.services.refunds import RefundLife
from support_agent.services.standing import Objection, is_tampered, judge_again, judge_returned
from support_agent.services.stored_requests import stored_request
from support_agent.services.terms import RefundTerms

S = RequestStatus
NOT_PAID = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})


class Retries:
    """Puts a failed request back into the queue, for another person than the one who asks."""

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
    ) -> None:
        self._database = database
        self._orders = orders
        self._gateway = gateway
        self._calls = GatewayCalls(gateway=gateway, timeout_s=terms.gateway_timeout_s)
        self._life = life
        self._policies = policies
        self._terms = terms
        self._keys = keys
        self._clock = clock

    async def retry(self, request_id: str, *, by: Principal) -> RefundRequest:
        """The request in a new round; `by` may not decide it.

        Raises:
            RequestNotFound: unknown id.
            IllegalTransition: it has not failed.
            NotAuthorised: `by` is an approver whose row does not stand.
            RefundRefused: the order no longer allows it, or the gateway knows it as paid.
            PaymentOutcomeUnknown, OrdersUnavailable: could not be asked; nothing was changed.
        """
        case = await self._database.read(lambda tx: _case(tx, request_id))
        order = await self._orders.get(case.request.order_id)
        if not self._by_hand(case.request):
            await self._check_gateway(case)
        return await self._database.transact(lambda tx: self._retry(tx, request_id, order, by))

    def _by_hand(self, request: RefundRequest) -> bool:
        return request.method in PAID_BY_HAND or request.gateway != self._gateway.name

    async def _check_gateway(self, case: "_Case") -> None:
        """Pass when the gateway would pay it, and has not yet."""
        state = await self._payment_state(case.request)
        if state is None or (state.account, state.livemode) != (
            case.request.account,
            self._gateway.livemode,
        ):
            raise RefundRefused(Reason.PAYMENT_FROZEN)
        if state.disputed:
            raise RefundRefused(Reason.DISPUTED)
        if state.refunded_minor > case.explained_minor or await self._is_paid(case.attempts):
            task = task_about(case.request, "paid_after_all", self._clock)
            await self._database.transact(lambda tx: tx.tasks.add(task))
            raise RefundRefused(Reason.PAID_AFTER_ALL)

    async def _payment_state(self, request: RefundRequest) -> PaymentState | None:
        try:
            return await self._calls.ask(
                self._gateway.payment_state(instruction_of(request).payment)
            )
        except PaymentDeclined:  # it knows no such payment
            return None

    async def _is_paid(self, attempts: Sequence[Attempt]) -> bool:
        for attempt in attempts:
            found = await self._calls.known(attempt)
            if found is not None and found.status not in NOT_PAID:
                return True
        return False

    def _retry(
        self, tx: Transaction, request_id: str, order: Order | None, by: Principal
    ) -> RefundRequest:
        """The new round inside its transaction; `order` was read before it."""
        request = _failed(stored_request(tx, request_id))
        check_acting(tx, by, self._keys)
        if is_tampered(tx, request, self._keys):
            raise RefundRefused(Reason.RECORD_CHANGED)
        policy = self._policies.current(tx)
        if order is not None and order.id == request.order_id:
            tx.books.sync(order)
        now = self._clock.now()
        judged = judge_again(tx, request, order, policy, now)
        if isinstance(judged, Objection):
            raise RefundRefused(judged.reason, **judged.facts)
        if order is not None and (lost := judge_returned(tx, request, order, policy, now)):
            raise RefundRefused(lost.reason, **lost.facts)
        scrutiny = self._scrutiny(tx, request, order, judged)
        return self._life.transition(
            tx,
            request,
            S.PENDING_APPROVAL,
            actor=by,
            next_round=True,
            changes=self._new_round(request, by),
            on_reserved=lambda cumulative: _who_decides(scrutiny, policy, request, cumulative),
            data={"reason": Reason.RETRIED},
        )

    def _scrutiny(
        self, tx: Transaction, request: RefundRequest, order: Order | None, judged: Assessment
    ) -> Scrutiny:
        """Why a person looks: never automatic, whatever the amount.

        Raises:
            RefundRefused: QUOTE_STALE; the money would go elsewhere today.
            RecordChanged: the account to pay to is not what was signed.
        """
        account = None
        if request.method in PAID_BY_HAND:
            account = newest_for(tx, request.customer_id)
            goes_to = {text_of(account)} if account else set()
        else:
            payments = order.payments if order else ()
            goes_to = {destination_of(p) for p in payments if p.id == request.payment_id}
        if request.destination not in goes_to:
            raise RefundRefused(Reason.QUOTE_STALE)
        check_destination(tx, request.destination, self._keys)
        doubts = judged.reasons if judged.verdict is Verdict.NEEDS_REVIEW else ()
        new = account is not None and is_new(account, self._clock.now())
        return Scrutiny(
            reasons=(*doubts, *((Reason.DESTINATION_NEW,) if new else ()), Reason.RETRIED),
            extra_levels=1 if new else 0,
        )

    def _new_round(self, request: RefundRequest, by: Principal) -> Mapping[str, Any]:
        now = self._clock.now()
        return {
            "attempt_no": request.attempt_no + 1,
            "attempt_at": None,
            "retried_by": by.person_id or by.id,
            "expires_at": now + self._terms.request_waits_for,
            "due_at": now + self._terms.decide_within,
            "escalations": 0,
            "asked_at": None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A failed request, every try to pay it, and what our books know of its payment."""

    request: RefundRequest
    attempts: tuple[Attempt, ...]
    books: OrderBooks

    @property
    def explained_minor(self) -> int:
        """What the gateway may have refunded at most, if all that is open was paid by now."""
        return sum(
            payment.refunded_minor + payment.reserved_minor
            for payment in self.books.payments
            if payment.payment_id == self.request.payment_id
        )


def _case(tx: Transaction, request_id: str) -> _Case:
    request = _failed(stored_request(tx, request_id))
    return _Case(
        request=request,
        attempts=tx.attempts.of(request.id),
        books=tx.books.of_order(request.order_id),
    )


def _failed(request: RefundRequest) -> RefundRequest:
    if request.status is not S.FAILED:
        wanted = f"{S.PENDING_APPROVAL} by a retry: only {S.FAILED} ones are paid again"
        raise IllegalTransition(request.id, current=request.status, wanted=wanted)
    return request


def _who_decides(
    scrutiny: Scrutiny, policy: Policy, request: RefundRequest, cumulative: int
) -> Mapping[str, Any]:
    """Level and reasons as filing finds them, behind the reasons it was filed with."""
    level, reasons = scrutiny.who_decides(policy, request.currency, cumulative)
    return {
        "required_level": level,
        "reasons": tuple(dict.fromkeys((*request.reasons, *reasons))),
        "approvals_needed": required_approvals(policy, request.currency, cumulative),
    }

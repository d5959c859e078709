"""The gateway's refunds against our attempts: what is ours is settled, what is not is booked."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

import structlog

from support_agent.domain.approvals import Choice
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import AlreadyDecided, DatabaseUnavailable, PaymentError
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import (
    Attempt,
    AttemptStatus,
    RefundRequest,
    RequestStatus,
    attempt_key,
)
from support_agent.ports.clock import Clock
from support_agent.ports.payments import GatewayRefund, GatewayStatus, PaymentRef
from support_agent.ports.storage import Database, FactKind, GatewayFact, Task, Transaction
from support_agent.services.breaker import Breaker
from support_agent.services.gateway_calls import GatewayCalls
from support_agent.services.outcomes import Outcomes, task_about
from support_agent.services.stored_requests import stored_request

log = structlog.get_logger(__name__)
PAYS = frozenset({GatewayStatus.SUCCEEDED, GatewayStatus.PENDING})  # money left, or is leaving
FAILED = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})  # it did not, or came back
MOST_TAKEN = 500  # of one comparison; what was taken once needs no second look
LONGEST_S = 300.0  # of one comparison
PATIENCE_S = 20.0
OF_ONE_PAYMENT = timedelta(days=90)


class Meaning(StrEnum):
    """What a refund of the gateway came to."""

    KNOWN = "known"  # nothing new
    SETTLED = "settled"  # it moved a request of ours
    NOT_PAID = "not_paid"  # somebody else's, and no money went
    OUTSIDE = "outside"  # nobody's of ours: booked EXTERNAL
    OUTSIDE_FAILED = "outside_failed"  # it was booked EXTERNAL, and is taken back
    LATE_SUCCESS = "late_success"  # ours, and we had called it failed: booked EXTERNAL
    UNKNOWN_PAYMENT = "unknown_payment"  # our books do not know the payment


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What came of taking a refund in, and the request of ours that it is about."""

    meaning: Meaning
    request: RefundRequest | None = None


class GatewayRefunds:
    """Takes in what the gateway says of a refund, from a list or an event, in any order."""

    def __init__(
        self,
        *,
        database: Database,
        calls: GatewayCalls,
        outcomes: Outcomes,
        breaker: Breaker,
        clock: Clock,
        lookback: timedelta,
    ) -> None:
        self._database = database
        self._calls = calls
        self._outcomes = outcomes
        self._breaker = breaker
        self._clock = clock
        self._lookback = lookback

    async def compare(self) -> tuple[RefundRequest, ...]:
        """Take in the gateway's refunds of the last days; the requests that moved.

        When the gateway does not answer, what is left is put off until the next time.
        """
        moved: dict[str, RefundRequest] = {}
        try:
            async with self._breaker.watching(self._calls.gateway.name):
                async for result in self._compared(self._lookback):
                    if result.meaning is Meaning.SETTLED and result.request is not None:
                        moved[result.request.id] = result.request
        except PaymentError as error:
            log.warning("gateway_refunds.put_off", problem=str(error))
        return tuple(moved.values())

    async def compare_payment(self, payment: PaymentRef) -> None:
        """Book what was refunded of one payment without us, so that a person sees it."""
        try:
            async with asyncio.timeout(PATIENCE_S):  # somebody waits for the payment
                for refund in await self.of_payment(payment, since=OF_ONE_PAYMENT):
                    await self.take(refund)
        except (PaymentError, TimeoutError) as error:
            log.warning("gateway_refunds.put_off", problem=str(error))

    async def of_payment(
        self, payment: PaymentRef, *, since: timedelta | None = None
    ) -> tuple[GatewayRefund, ...]:
        """The refunds of one payment; of the last days that are always compared, or so long since.

        Raises:
            PaymentError: the gateway stopped answering.
        """
        listed = self._listed(max(self._lookback, since or self._lookback))
        return tuple(
            [one async for one in listed if payment in names_of(one.payment, one.other_payment_id)]
        )

    async def _compared(self, lookback: timedelta) -> AsyncIterator[Taken]:
        """What is new among the refunds, up to a bound: the next call sees the rest."""
        left, until = MOST_TAKEN, time.monotonic() + LONGEST_S
        async for refund in self._listed(lookback):
            late = time.monotonic() > until  # of a list that does not end all may be known
            if not late and await self._is_known(refund):
                continue
            if late or not left:
                log.warning("gateway_refunds.cut_short", next=refund.provider_refund_id)
                return
            left -= 1
            yield await self.take(refund)

    async def _listed(self, lookback: timedelta) -> AsyncIterator[GatewayRefund]:
        since = await self._database.read(lambda tx: tx.database_now()) - lookback
        async for refund in self._calls.refunds_since(since):
            yield refund

    def take_in(self, tx: Transaction, refund: GatewayRefund) -> Taken:
        """Settle or book one refund; the same one twice is once.

        Raises:
            AlreadyDecided: somebody else moved its request at the same moment.
        """
        attempt = self._attempt_of(tx, refund)
        if attempt is None:
            return self._of_somebody_else(tx, refund)
        before = stored_request(tx, attempt.request_id)
        if refund.status in PAYS and _is_over(attempt, before):
            meaning = self._book(tx, refund, Meaning.LATE_SUCCESS)
            if meaning is Meaning.LATE_SUCCESS:
                tx.tasks.add(task_about(before, "late_success", self._clock))
            return Taken(meaning=meaning, request=before)
        if self._is_to_take_back(tx, refund):
            return Taken(meaning=self._book(tx, refund, Meaning.OUTSIDE_FAILED), request=before)
        after = self._outcomes.apply(tx, attempt, refund, notify=True)
        moved = after.version != before.version
        return Taken(meaning=Meaning.SETTLED if moved else Meaning.KNOWN, request=after)

    def _attempt_of(self, tx: Transaction, refund: GatewayRefund) -> Attempt | None:
        """The attempt that explains it: by its own id, else by our key if that explains no other.

        A key can be copied into a refund that somebody makes by hand: the second is not ours.
        """
        gateway = self._calls.gateway.name
        attempt = tx.attempts.by_provider_id(gateway, refund.provider_refund_id)
        if attempt is not None or not refund.key:
            return attempt
        attempt = tx.attempts.by_key(refund.key)
        # Somebody may have settled it between the two looks: then it names this very refund.
        if attempt is None or attempt.provider_refund_id not in {None, refund.provider_refund_id}:
            return None
        return attempt

    def _of_somebody_else(self, tx: Transaction, refund: GatewayRefund) -> Taken:
        if self._is_to_take_back(tx, refund):
            return Taken(meaning=self._book(tx, refund, Meaning.OUTSIDE_FAILED))
        if refund.status not in PAYS:
            return Taken(meaning=Meaning.NOT_PAID)
        if _stands_for(tx, refund):
            return Taken(meaning=Meaning.KNOWN)
        return Taken(meaning=self._book(tx, refund, Meaning.OUTSIDE))

    def _is_to_take_back(self, tx: Transaction, refund: GatewayRefund) -> bool:
        """Whether it failed after we booked that it pays."""
        if refund.status not in FAILED:
            return False
        booked, failed = (
            tx.books.is_booked(self._fact(tx, refund, meaning))
            for meaning in (Meaning.OUTSIDE, Meaning.OUTSIDE_FAILED)
        )
        return booked and not failed

    def _book(self, tx: Transaction, refund: GatewayRefund, meaning: Meaning) -> Meaning:
        fact = self._fact(tx, refund, meaning)
        if not tx.books.knows(fact.payment, fact.currency):
            log.warning("gateway_refunds.unknown_payment", provider_refund=fact.reference)
            tx.tasks.add(self._task("unknown_payment", fact.reference))
            return Meaning.UNKNOWN_PAYMENT
        booked = tx.books.book_fact(fact)
        if booked is None:
            return Meaning.KNOWN
        record_fact(tx, fact, booked.order_id, booked.overdrawn_minor, self._clock)
        if booked.overdrawn_minor and meaning is Meaning.OUTSIDE:
            tx.tasks.add(self._task("outside_refund", fact.reference))
        return meaning

    def _fact(self, tx: Transaction, refund: GatewayRefund, meaning: Meaning) -> GatewayFact:
        names = names_of(refund.payment, refund.other_payment_id)
        known = (name for name in names if tx.books.knows(name, refund.currency))
        return GatewayFact(
            kind=(
                FactKind.EXTERNAL_FAILED if meaning is Meaning.OUTSIDE_FAILED else FactKind.EXTERNAL
            ),
            payment=next(known, refund.payment),
            reference=refund.provider_refund_id,
            amount_minor=refund.amount_minor,
            currency=refund.currency,
            at=self._clock.now(),
            freezes=meaning is Meaning.LATE_SUCCESS,
        )

    def _task(self, kind: str, reference: str) -> Task:
        return Task(
            id=f"task_{kind}_{reference}",
            kind=kind,
            subject=reference,
            conversation_id=None,
            created_at=self._clock.now(),
        )

    async def _is_known(self, refund: GatewayRefund) -> bool:
        """Whether taking it in would change nothing: most refunds are ours and settled."""

        def look(tx: Transaction) -> bool:
            attempt = self._attempt_of(tx, refund)
            if self._is_to_take_back(tx, refund):
                return False
            if attempt is None:
                fact = self._fact(tx, refund, Meaning.OUTSIDE)
                settled = refund.status not in PAYS or tx.books.is_booked(fact)
                return settled or _stands_for(tx, refund)
            if attempt.status is AttemptStatus.SUCCEEDED and attempt.provider_refund_id is None:
                return False  # a person said that it is paid: it may be news that this is
            return (attempt.status, refund.status) in {
                (AttemptStatus.SUCCEEDED, GatewayStatus.SUCCEEDED),
                (AttemptStatus.FAILED, GatewayStatus.FAILED),
                (AttemptStatus.FAILED, GatewayStatus.CANCELED),
            }

        return await self._database.read(look)

    async def take(self, refund: GatewayRefund) -> Taken:
        """`take_in` in a transaction; one that cannot be must not keep the others waiting."""
        try:
            return await self._database.transact(lambda tx: self.take_in(tx, refund))
        except DatabaseUnavailable:
            raise
        except AlreadyDecided:
            log.info("gateway_refunds.moved_meanwhile", provider_refund=refund.provider_refund_id)
        except Exception:
            log.exception("gateway_refunds.put_off", provider_refund=refund.provider_refund_id)
        return Taken(meaning=Meaning.KNOWN)


def names_of(payment: PaymentRef, other_id: str | None) -> tuple[PaymentRef, ...]:
    """What our books may call a payment that has two ids at its gateway."""
    if other_id is None:
        return (payment,)
    return (payment, replace(payment, gateway_payment_id=other_id))


def _stands_for(tx: Transaction, refund: GatewayRefund) -> bool:
    """Whether a request of ours books it, though its attempt is gone.

    The database was put back to an earlier copy. The reserve is there, and whoever is about to pay
    finds the refund by its key and calls a person: booked EXTERNAL too it would count twice.
    """
    request = tx.requests.get(refund.key.removeprefix("refund:").rpartition(":")[0])
    if request is None or refund.key != attempt_key(request.id, request.attempt_no):
        return False
    ours = PaymentRef(
        gateway=request.gateway,
        account=request.account,
        gateway_payment_id=request.gateway_payment_id,
    )
    same = (request.amount_minor, request.currency) == (refund.amount_minor, refund.currency)
    if not same or ours not in names_of(refund.payment, refund.other_payment_id):
        return False
    if request.status is RequestStatus.REFUNDED:
        proofs = (d.evidence for d in tx.decisions.of(request.id) if d.choice is Choice.PAID)
        return refund.provider_refund_id in proofs
    return request.status in {RequestStatus.APPROVED, RequestStatus.MANUAL_REVIEW}


def _is_over(attempt: Attempt, request: RefundRequest) -> bool:
    """Whether we called this attempt failed, and gave its reserve back."""
    failed = request.status is RequestStatus.FAILED and attempt.number == request.attempt_no
    return failed or attempt.status is AttemptStatus.FAILED


def record_fact(
    tx: Transaction, fact: GatewayFact, order_id: str, overdrawn_minor: int, clock: Clock
) -> None:
    """Say in history and outbox that the gateway moved money on its own."""
    action = f"payment.{fact.kind.lower()}"
    data = {
        "gateway": fact.payment.gateway,
        "account": fact.payment.account,
        "payment": fact.payment.gateway_payment_id,
        "reference": fact.reference,
        "amount_minor": str(fact.amount_minor),
        "currency": fact.currency,
        "overdrawn_minor": str(overdrawn_minor),
    }
    now = clock.now()
    tx.audit.append(AuditEvent(action=action, actor=SYSTEM, subject=order_id, at=now, data=data))
    key = f"{fact.payment.gateway}:{fact.reference}:{fact.kind}"
    tx.outbox.add(action, key=key, body={**data, "order_id": order_id}, at=now)

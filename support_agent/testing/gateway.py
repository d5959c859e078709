"""A payment gateway in memory that does what a test tells it: pay, wait, decline, fall silent."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from support_agent.domain.errors import (
    GatewayRefusesUs,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.domain.orders import Order
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)
from support_agent.testing.gateway_acts import (
    BROKEN,
    LIES,
    NOT_PAID,
    RESET,
    STATUS,
    Act,
    refusal,
    told,
)
from support_agent.testing.gateway_events import SimulatedDispute, event_for
from support_agent.testing.gateway_records import (
    MadeRefund,
    SavedAnswer,
    SimulatedPayment,
    replayed,
)

__all__ = ["KEYS_LAST", "LIES", "Act", "GatewaySimulator", "SimulatedDispute"]

KEYS_LAST = timedelta(hours=24)  # then a key is forgotten, and the same key pays again


class GatewaySimulator:
    """Keeps the contract of `PaymentGateway`, and breaks down where it is told to.

    With a clock `now` it forgets a key after 24 hours and knows when a refund was made; without
    one everything is of today.

    Example:
        gateway = GatewaySimulator(orders)
        gateway.will(Act.LOSE_ANSWER)  # the next refund; the ones after it succeed
    """

    livemode = False
    books_only = False

    def __init__(
        self,
        orders: Iterable[Order] = (),
        *,
        name: str = "ledger",
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self.name = name  # only payments that name this gateway are sent to it
        self._now = now
        self._payments: dict[str, SimulatedPayment] = {}
        self._made: list[MadeRefund] = []
        self._saved: dict[str, SavedAnswer] = {}
        self._script: deque[Act] = deque()
        self.sent: list[RefundInstruction] = []  # every call of `refund`, in order
        self.unreachable = False  # nothing is answered while it is
        self.refuses_us = False  # our credentials are not accepted while it is
        self.unsure_of_overdraw = False  # too large an amount is an unknown outcome, as at Stripe
        self.hangs = asyncio.Event()  # set once a call got no answer and never will
        for order in orders:
            for payment in order.payments:
                self.add_payment(
                    payment.gateway_payment_id,
                    payment.captured_minor,
                    payment.currency,
                    account=payment.account,
                )

    @property
    def refunds(self) -> tuple[GatewayRefund, ...]:
        """Every refund of ours it executed or may still execute, in order, lost ones as well."""
        ours = (made.refund for made in self._made if made.sent is not None)
        return tuple(refund for refund in ours if refund.status not in NOT_PAID)

    def add_payment(
        self, gateway_payment_id: str, captured_minor: int, currency: str, *, account: str
    ) -> None:
        """Money that was captured."""
        self._payments[gateway_payment_id] = SimulatedPayment(
            captured_minor=captured_minor, currency=currency, account=account
        )

    def will(self, *acts: Act) -> None:
        """What to do with the next refunds, one each."""
        self._script.extend(acts)

    def settle(
        self, key: str, status: GatewayStatus, *, failure_code: str | None = None
    ) -> GatewayRefund:
        """End a pending refund, or let one fail late that had succeeded."""
        made = self._last(key)
        made.refund = replace(made.refund, status=status, failure_code=failure_code)
        return made.refund

    def fail_late(
        self, provider_refund_id: str, failure_code: str = "expired_or_canceled_card"
    ) -> GatewayRefund:
        """A refund fails, also one that had succeeded."""
        made = next(m for m in self._made if m.refund.provider_refund_id == provider_refund_id)
        made.refund = replace(made.refund, status=GatewayStatus.FAILED, failure_code=failure_code)
        return made.refund

    def lose(self, key: str) -> None:
        """The gateway loses its data of this key: the money went, and nothing shows it."""
        self._last(key).lost = True
        self._saved.pop(key, None)

    def refund_outside(
        self,
        gateway_payment_id: str,
        amount_minor: int,
        *,
        status: GatewayStatus = GatewayStatus.SUCCEEDED,
    ) -> GatewayRefund:
        """Somebody refunds in the gateway's own console."""
        refund = GatewayRefund(
            provider_refund_id=f"sim_{len(self._made) + 1}",
            key="",
            payment=self._ref(gateway_payment_id),
            status=status,
            amount_minor=amount_minor,
            currency=self._payments[gateway_payment_id].currency,
        )
        self._add(refund, sent=None, payment_id=gateway_payment_id)
        return refund

    def dispute(self, gateway_payment_id: str, amount_minor: int | None = None) -> SimulatedDispute:
        """The customer's bank asks the payment back; the whole of it unless told otherwise."""
        payment = self._payments[gateway_payment_id]
        dispute = SimulatedDispute(
            id=f"dp_{gateway_payment_id}_{len(payment.disputes) + 1}",
            payment=self._ref(gateway_payment_id),
            amount_minor=payment.captured_minor if amount_minor is None else amount_minor,
            currency=payment.currency,
        )
        payment.disputes.append(dispute)
        return dispute

    def win(self, dispute: SimulatedDispute) -> SimulatedDispute:
        """The shop keeps the money, also when it was lost before."""
        return self._decide(dispute, EventKind.DISPUTE_WON)

    def charge_back(self, dispute: SimulatedDispute) -> SimulatedDispute:
        """The shop loses the dispute and its money."""
        return self._decide(dispute, EventKind.DISPUTE_LOST)

    def move_to_account(self, gateway_payment_id: str, account: str) -> None:
        """The payment turns out to be another account's."""
        self._payments[gateway_payment_id].account = account

    def event_for(
        self,
        subject: GatewayRefund | SimulatedDispute,
        **changes: Any,  # noqa: ANN401 - any field of the event
    ) -> ProviderEvent:
        """The event it would send about this, of now; `changes` replaces fields of it."""
        now = datetime.now(UTC) if self._now is None else self._now()
        return event_for(subject, at=now, **({"livemode": self.livemode} | changes))

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        """Do what the script says, once per key; see the port."""
        self.sent.append(instruction)
        await self._reached()
        known = self._known_key(instruction.key)
        if known is not None:
            return replayed(instruction, known)
        act = self._script.popleft() if self._script else Act.SUCCEED
        await self._before(act, instruction)
        self._check(instruction)
        made = self._execute(instruction, act)
        await self._after(act)
        return made.refund

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        await self._reached()
        found = (
            made.refund
            for made in self._shown()
            if made.sent is not None
            and made.sent.key == instruction.key
            and made.payment_id == instruction.gateway_payment_id
        )
        return next(found, None)

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        await self._reached()
        shown = (made.refund for made in self._shown())
        found = (refund for refund in shown if refund.provider_refund_id == provider_refund_id)
        return next(found, None)

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        await self._reached()
        for made in self._shown():
            if made.at is None or made.at >= since:
                yield made.refund

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        await self._reached()
        known = self._known(payment)
        return PaymentState(
            captured_minor=known.captured_minor,
            refunded_minor=self._refunded(payment.gateway_payment_id),
            disputed=known.disputed(EventKind.DISPUTE_OPENED) > 0,
            account=known.account,
            livemode=self.livemode,
            charged_back_minor=known.disputed(EventKind.DISPUTE_LOST),
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _reached(self) -> None:
        await asyncio.sleep(0)  # every real gateway gives way to other tasks at least once
        if self.unreachable:
            raise PaymentOutcomeUnknown("the gateway does not answer (simulated)")
        if self.refuses_us:
            raise GatewayRefusesUs("our key is not accepted (simulated)")

    async def _before(self, act: Act, instruction: RefundInstruction) -> None:
        if act is Act.HANG_BEFORE:
            await self._hang()
        if act is Act.ERROR_BEFORE:
            self._save(instruction, None)
        refused = refusal(act)
        if refused is not None:
            raise refused

    async def _after(self, act: Act) -> None:
        if act is Act.LOSE_ANSWER:
            raise PaymentOutcomeUnknown(RESET)
        if act is Act.ERROR_AFTER:
            raise PaymentOutcomeUnknown(BROKEN)
        if act is Act.HANG_AFTER:
            await self._hang()

    async def _hang(self) -> None:
        self.hangs.set()
        await asyncio.Event().wait()

    def _known(self, payment: PaymentRef) -> SimulatedPayment:
        known = self._payments.get(payment.gateway_payment_id)
        if known is None:
            raise PaymentDeclined("payment_unknown")
        return known

    def _check(self, instruction: RefundInstruction) -> None:
        payment = self._known(instruction.payment)
        if payment.disputes and payment.disputes[-1].kind is not EventKind.DISPUTE_WON:
            raise PaymentDeclined("payment_disputed")
        if instruction.account != payment.account:
            raise PaymentDeclined("account_mismatch")
        if instruction.currency != payment.currency:
            raise PaymentDeclined("currency_mismatch")
        room = payment.captured_minor - self._refunded(instruction.gateway_payment_id)
        if instruction.amount_minor > room and self.unsure_of_overdraw:
            raise PaymentOutcomeUnknown("the amount is above what is left (simulated)")
        if not 0 < instruction.amount_minor <= room:
            raise PaymentDeclined("amount_above_captured")

    def _execute(self, instruction: RefundInstruction, act: Act) -> MadeRefund:
        refund = GatewayRefund(
            provider_refund_id=f"sim_{len(self._made) + 1}",
            key=instruction.key,
            payment=instruction.payment,
            status=STATUS.get(act, GatewayStatus.SUCCEEDED),
            amount_minor=instruction.amount_minor,
            currency=instruction.currency,
            failure_code="declined" if act is Act.FAIL else None,
        )
        made = self._add(
            told(act, refund), sent=instruction, payment_id=instruction.gateway_payment_id
        )
        self._save(instruction, None if act is Act.ERROR_AFTER else made)
        return made

    def _add(
        self, refund: GatewayRefund, *, sent: RefundInstruction | None, payment_id: str
    ) -> MadeRefund:
        at = None if self._now is None else self._now()
        made = MadeRefund(sent=sent, payment_id=payment_id, refund=refund, at=at)
        self._made.append(made)
        return made

    def _save(self, instruction: RefundInstruction, made: MadeRefund | None) -> None:
        at = None if self._now is None else self._now()
        self._saved[instruction.key] = SavedAnswer(sent=instruction, made=made, at=at)

    def _known_key(self, key: str) -> SavedAnswer | None:
        saved = self._saved.get(key)
        if saved is None or saved.at is None or self._now is None:
            return saved
        return saved if self._now() - saved.at < KEYS_LAST else None

    def _last(self, key: str) -> MadeRefund:
        return next(
            made for made in reversed(self._made) if made.sent is not None and made.sent.key == key
        )

    def _shown(self) -> tuple[MadeRefund, ...]:
        return tuple(made for made in self._made if not made.lost)

    def _decide(self, dispute: SimulatedDispute, kind: EventKind) -> SimulatedDispute:
        payment = self._payments[dispute.payment.gateway_payment_id]
        place = next(i for i, known in enumerate(payment.disputes) if known.id == dispute.id)
        payment.disputes[place] = replace(payment.disputes[place], kind=kind)
        return payment.disputes[place]

    def _ref(self, gateway_payment_id: str) -> PaymentRef:
        account = self._payments[gateway_payment_id].account
        return PaymentRef(gateway=self.name, account=account, gateway_payment_id=gateway_payment_id)

    def _refunded(self, payment_id: str) -> int:
        # By what was asked for where it was asked: an answer may lie about the amount.
        return sum(
            made.refund.amount_minor if made.sent is None else made.sent.amount_minor
            for made in self._shown()
            if made.payment_id == payment_id and made.refund.status not in NOT_PAID
        )

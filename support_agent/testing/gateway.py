"""A payment gateway in memory that does what a test tells it: pay, wait, decline, fall silent."""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from support_agent.domain.errors import (
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.domain.orders import Order
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentState,
    RefundInstruction,
)


class Act(Enum):
    """What the gateway does with the next refund."""

    SUCCEED = auto()
    PENDING = auto()  # accepted, not executed yet; `settle` ends it
    FAIL = auto()  # a refund object that says failed
    DECLINE = auto()  # refused before anything was executed
    LOSE_REQUEST = auto()  # an unknown outcome, and nothing was executed
    LOSE_ANSWER = auto()  # an unknown outcome, and the refund was executed
    HANG_BEFORE = auto()  # no answer ever, and nothing was executed
    HANG_AFTER = auto()  # no answer ever, and the refund was executed
    MISMATCH = auto()  # executed and answered with another amount
    REFUSE_KEY = auto()  # says that it knows the key with other parameters


_STATUS = {Act.PENDING: GatewayStatus.PENDING, Act.FAIL: GatewayStatus.FAILED}
_NOT_PAID = frozenset({GatewayStatus.FAILED, GatewayStatus.CANCELED})


@dataclass(slots=True, kw_only=True)
class _Payment:
    captured_minor: int
    currency: str
    account: str
    disputed: bool = False
    refunded_outside_minor: int = 0


class GatewaySimulator:
    """Keeps the contract of `PaymentGateway`, and breaks down where it is told to.

    Example:
        gateway = GatewaySimulator(orders)
        gateway.will(Act.LOSE_ANSWER)  # the next refund; the ones after it succeed
    """

    livemode = False
    books_only = False

    def __init__(self, orders: Iterable[Order] = (), *, name: str = "ledger") -> None:
        self.name = name  # only payments that name this gateway are sent to it
        self._payments: dict[str, _Payment] = {}
        self._made: dict[str, tuple[RefundInstruction, GatewayRefund]] = {}
        self._script: deque[Act] = deque()
        self.sent: list[RefundInstruction] = []  # every call of `refund`, in order
        self.unreachable = False  # nothing is answered while it is
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
        """Every refund it executed or may still execute, in order."""
        return tuple(refund for _, refund in self._made.values() if refund.status not in _NOT_PAID)

    def add_payment(
        self, gateway_payment_id: str, captured_minor: int, currency: str, *, account: str
    ) -> None:
        """Money that was captured."""
        self._payments[gateway_payment_id] = _Payment(
            captured_minor=captured_minor, currency=currency, account=account
        )

    def will(self, *acts: Act) -> None:
        """What to do with the next refunds, one each."""
        self._script.extend(acts)

    def dispute(self, gateway_payment_id: str) -> None:
        """The customer's bank takes the payment back."""
        self._payments[gateway_payment_id].disputed = True

    def refund_outside(self, gateway_payment_id: str, amount_minor: int) -> None:
        """Somebody refunds in the gateway's own console."""
        self._payments[gateway_payment_id].refunded_outside_minor += amount_minor

    def move_to_account(self, gateway_payment_id: str, account: str) -> None:
        """The payment turns out to be another account's."""
        self._payments[gateway_payment_id].account = account

    def settle(self, key: str, status: GatewayStatus) -> None:
        """End a pending refund."""
        instruction, refund = self._made[key]
        self._made[key] = instruction, replace(refund, status=status)

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        """Do what the script says, once per key; see the port."""
        self.sent.append(instruction)
        await self._reached()
        known = self._made.get(instruction.key)
        if known is not None:
            return _same(instruction, *known)
        act = self._script.popleft() if self._script else Act.SUCCEED
        await self._before(act)
        self._check(instruction)
        refund = self._execute(instruction, act)
        await self._after(act)
        return refund

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        await self._reached()
        known = self._made.get(instruction.key)
        return None if known is None else known[1]

    async def payment_state(self, instruction: RefundInstruction) -> PaymentState:
        await self._reached()
        payment = self._known(instruction)
        return PaymentState(
            captured_minor=payment.captured_minor,
            refunded_minor=self._refunded(instruction),
            disputed=payment.disputed,
            account=payment.account,
            livemode=self.livemode,
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    async def _reached(self) -> None:
        await asyncio.sleep(0)  # every real gateway gives way to other tasks at least once
        if self.unreachable:
            raise PaymentOutcomeUnknown("the gateway does not answer (simulated)")

    async def _before(self, act: Act) -> None:
        match act:
            case Act.DECLINE:
                raise PaymentDeclined("declined")
            case Act.REFUSE_KEY:
                raise IdempotencyMismatch("the key was used with other parameters (simulated)")
            case Act.LOSE_REQUEST:
                raise PaymentOutcomeUnknown("the connection was reset (simulated)")
            case Act.HANG_BEFORE:
                await self._hang()

    async def _after(self, act: Act) -> None:
        if act is Act.LOSE_ANSWER:
            raise PaymentOutcomeUnknown("the connection was reset (simulated)")
        if act is Act.HANG_AFTER:
            await self._hang()

    async def _hang(self) -> None:
        self.hangs.set()
        await asyncio.Event().wait()

    def _known(self, instruction: RefundInstruction) -> _Payment:
        payment = self._payments.get(instruction.gateway_payment_id)
        if payment is None:
            raise PaymentDeclined("payment_unknown")
        return payment

    def _check(self, instruction: RefundInstruction) -> None:
        payment = self._known(instruction)
        if payment.disputed:
            raise PaymentDeclined("payment_disputed")
        if instruction.currency != payment.currency:
            raise PaymentDeclined("currency_mismatch")
        if not 0 < instruction.amount_minor <= payment.captured_minor - self._refunded(instruction):
            raise PaymentDeclined("amount_above_captured")

    def _execute(self, instruction: RefundInstruction, act: Act) -> GatewayRefund:
        refund = GatewayRefund(
            provider_refund_id=f"sim_{len(self._made) + 1}",
            key=instruction.key,
            status=_STATUS.get(act, GatewayStatus.SUCCEEDED),
            amount_minor=instruction.amount_minor * (100 if act is Act.MISMATCH else 1),
            currency=instruction.currency,
            failure_code="declined" if act is Act.FAIL else None,
        )
        self._made[instruction.key] = instruction, refund
        return refund

    def _refunded(self, instruction: RefundInstruction) -> int:
        payment = self._known(instruction)
        ours = sum(
            sent.amount_minor
            for sent, refund in self._made.values()
            if sent.gateway_payment_id == instruction.gateway_payment_id
            and refund.status not in _NOT_PAID
        )
        return payment.refunded_outside_minor + ours


def _same(
    instruction: RefundInstruction, sent: RefundInstruction, refund: GatewayRefund
) -> GatewayRefund:
    if sent != instruction:
        raise IdempotencyMismatch(f"the key {instruction.key!r} was used with other parameters")
    return refund

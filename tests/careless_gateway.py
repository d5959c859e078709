"""A gateway with one fault, to show that the contract finds it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

from support_agent.domain.errors import (
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentRef,
    PaymentState,
    RefundInstruction,
)
from support_agent.testing.gateway_backstage import Backstage, CapturedPayment

ACCOUNT = "shop"


class Careless:
    """Sound but for its fault; `none` is sound."""

    name = "careless"
    livemode = False
    books_only = False

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._captured: dict[str, int] = {}
        self._sent: dict[str, RefundInstruction] = {}
        self._refunds: list[GatewayRefund] = []
        self._first: list[GatewayRefund] = []  # as they were told at first
        self._loses = False

    def backstage(self) -> Backstage:
        return Backstage(
            sell=self.sell,
            lose_next_answer=self.lose_next_answer,
            refund_outside=self.refund_outside,
            fail_late=self.fail_late,
        )

    async def sell(self, captured_minor: int, currency: str) -> CapturedPayment:
        payment_id = f"pay-{len(self._captured)}"
        self._captured[payment_id] = captured_minor
        return CapturedPayment(
            gateway=self.name,
            account=ACCOUNT,
            gateway_payment_id=payment_id,
            captured_minor=captured_minor,
            currency=currency,
        )

    def lose_next_answer(self) -> None:
        self._loses = True

    async def refund_outside(self, payment: CapturedPayment, amount_minor: int) -> str:
        key = "somebody's" if self._fault == "claims all" else ""
        sent = replace(payment.refund_of(amount_minor, key=""), key=key)
        return self._make(sent).provider_refund_id

    async def fail_late(self, refund_id: str) -> None:
        place = [refund.provider_refund_id for refund in self._refunds].index(refund_id)
        failed = replace(self._refunds[place], status=GatewayStatus.FAILED)
        self._refunds[place] = failed

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        sent = self._sent.get(instruction.key)
        if sent is not None and self._fault != "forgets keys":
            if sent != instruction and self._fault != "ignores parameters":
                raise IdempotencyMismatch(instruction.key)
            return self._keyed(instruction.key)[0]
        amount = self._checked(instruction)
        loses, self._loses = self._loses, False
        if not (loses and self._fault == "forgets what was lost"):
            self._sent[instruction.key] = instruction
        made = self._make(replace(instruction, amount_minor=amount))
        if loses:
            raise PaymentOutcomeUnknown("lost")
        return made

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        keyed = self._keyed(instruction.key)
        match self._fault:
            case "finds nothing":
                return None
            case "finds the last":
                keyed = self._refunds[-1:]
            case "finds on the first page":
                keyed = [refund for refund in keyed if refund in self._refunds[-3:]]
            case "finds what it said first":
                keyed = [first for first in self._first if first.key == instruction.key]
        return keyed[0] if keyed else None

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> GatewayRefund | None:
        told = self._first if self._fault == "gets what it said first" else self._refunds
        found = [refund for refund in told if refund.provider_refund_id == provider_refund_id]
        if self._fault == "gets the last":
            found = told[-1:]
        return found[0] if found and self._fault != "gets nothing" else None

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        told = list(self._refunds) if since < datetime.now(UTC) else []
        match self._fault:
            case "tells the first page":
                told = told[-3:]
            case "tells twice":
                told = told * 2
            case "tells any time":
                told = list(self._refunds)
            case "tells ours only":
                told = [refund for refund in told if refund.key]
        for refund in told:
            yield refund

    async def payment_state(self, payment: PaymentRef) -> PaymentState:
        captured = self._captured.get(payment.gateway_payment_id)
        if captured is None and self._fault not in {"invents a state", "pays anyone"}:
            raise PaymentDeclined("payment_unknown")
        return PaymentState(
            captured_minor=(captured or 0) // (100 if self._fault == "captures hundredths" else 1),
            refunded_minor=self._refunded(payment.gateway_payment_id),
            disputed=False,
            account="" if self._fault == "names no account" else ACCOUNT,
            livemode=self._fault == "is live elsewhere",
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    def _checked(self, instruction: RefundInstruction) -> int:
        captured = self._captured.get(instruction.gateway_payment_id)
        if captured is None and self._fault != "pays anyone":
            raise PaymentDeclined("payment_unknown")
        if instruction.account != ACCOUNT and self._fault != "pays for others":
            raise PaymentDeclined("payment_unknown")
        amount = instruction.amount_minor
        if amount <= 0 and self._fault == "takes zero for all":
            amount = captured or 0
        if amount <= 0:
            raise PaymentDeclined("amount_invalid")
        gone = self._refunded(instruction.gateway_payment_id) + amount
        if gone > (captured or 0) and self._fault not in {"pays too much", "pays anyone"}:
            raise PaymentDeclined("amount_above_captured")
        return amount // 10 * 10 if self._fault == "rounds" else amount

    def _make(self, sent: RefundInstruction) -> GatewayRefund:
        refund = GatewayRefund(
            provider_refund_id=f"re-{len(self._refunds)}",
            key=sent.key,
            payment=sent.payment,
            status=GatewayStatus.SUCCEEDED,
            amount_minor=sent.amount_minor * (100 if self._fault == "multiplies" else 1),
            currency=sent.currency,
        )
        self._refunds.append(refund)
        self._first.append(refund)
        return refund

    def _keyed(self, key: str) -> list[GatewayRefund]:
        return [refund for refund in self._refunds if refund.key == key]

    def _refunded(self, payment_id: str) -> int:
        return sum(
            refund.amount_minor
            for refund in self._refunds
            if refund.payment.gateway_payment_id == payment_id
            and (refund.status is not GatewayStatus.FAILED or self._fault == "counts what failed")
        )

"""What every PaymentGateway must do; run each check of CHECKS against yours."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from support_agent.domain.errors import IdempotencyMismatch, PaymentDeclined
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentGateway,
    RefundInstruction,
)
from support_agent.testing.contract_check import must

_NO_FAILURE = frozenset(
    {GatewayStatus.SUCCEEDED, GatewayStatus.PENDING, GatewayStatus.REQUIRES_ACTION}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedPayment:
    """A payment that exists at the gateway, fully captured and not refunded."""

    gateway: str
    account: str
    gateway_payment_id: str
    captured_minor: int
    currency: str

    def refund_of(self, amount_minor: int, *, key: str) -> RefundInstruction:
        return RefundInstruction(
            key=key,
            request_id=key,
            gateway=self.gateway,
            account=self.account,
            gateway_payment_id=self.gateway_payment_id,
            amount_minor=amount_minor,
            currency=self.currency,
        )


# Makes a fresh payment of so many minor units of a currency at the gateway.
NewPayment = Callable[[int, str], Awaitable[CapturedPayment]]
Check = Callable[[PaymentGateway, NewPayment], Awaitable[None]]


async def same_key_pays_once(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """A retry with the same key answers with the refund that was made."""
    payment = await new_payment(250_000, "VND")
    instruction = payment.refund_of(100_000, key="once")
    first = await gateway.refund(instruction)
    second = await gateway.refund(instruction)
    must(first.provider_refund_id == second.provider_refund_id, "same key, same refund")
    await _refunded_is(gateway, instruction, 100_000)


async def same_key_at_once_pays_once(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """Workers that race with the same key make one refund."""
    payment = await new_payment(1_000_000, "VND")
    instruction = payment.refund_of(100_000, key="race")
    refunds = await asyncio.gather(*(gateway.refund(instruction) for _ in range(8)))
    must(len({refund.provider_refund_id for refund in refunds}) == 1, "one refund for all")
    await _refunded_is(gateway, instruction, 100_000)


async def other_parameters_are_refused(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """A used key with another amount or payment pays nothing."""
    payment = await new_payment(250_000, "VND")
    other = await new_payment(250_000, "VND")
    first = payment.refund_of(100_000, key="used")
    await gateway.refund(first)
    for changed in (
        replace(first, amount_minor=50_000),
        replace(first, gateway_payment_id=other.gateway_payment_id),
    ):
        try:
            await gateway.refund(changed)
        except IdempotencyMismatch:
            continue
        must(False, f"a used key is refused with other parameters: {changed}")
    await _refunded_is(gateway, first, 100_000)
    await _refunded_is(gateway, other.refund_of(1, key="unused"), 0)


async def find_sees_what_was_refunded(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """`find` answers with the very refund, also for one whose answer was lost."""
    payment = await new_payment(250_000, "VND")
    instruction = payment.refund_of(100_000, key="found")
    made = await gateway.refund(instruction)
    await gateway.refund(payment.refund_of(1_000, key="later"))
    must(await gateway.find(instruction) == made, "find answers with the refund of this key")


async def find_knows_no_other_key(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """`find` on a key that was never sent is None, whatever else the payment has."""
    payment = await new_payment(250_000, "VND")
    await gateway.refund(payment.refund_of(100_000, key="sent"))
    unsent = payment.refund_of(100_000, key="never-sent")
    must(await gateway.find(unsent) is None, "an unknown key is not found")


async def amounts_are_minor_units(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """Amount and currency come back exactly; VND has no hundredth, KWD has thousandths."""
    for currency, amount in (("VND", 5_000), ("USD", 1_234), ("KWD", 1_001)):
        payment = await new_payment(2_000_000, currency)
        instruction = payment.refund_of(amount, key=f"exact-{currency}")
        refund = await gateway.refund(instruction)
        _answers(refund, instruction)
        await _refunded_is(gateway, instruction, amount)


async def state_tells_captured_and_refunded(
    gateway: PaymentGateway, new_payment: NewPayment
) -> None:
    """The payment's state adds up its refunds and names account and mode."""
    payment = await new_payment(250_000, "VND")
    before = await gateway.payment_state(payment.refund_of(1, key="look"))
    must(before.captured_minor == 250_000, "captured is what was paid")
    must(before.refunded_minor == 0, "nothing is refunded yet")
    must(before.account == payment.account, "the account is the payment's")
    must(before.livemode == gateway.livemode, "the mode is the gateway's")
    must(not before.disputed, "nobody disputes it")
    for key in ("part-1", "part-2"):
        await gateway.refund(payment.refund_of(40_000, key=key))
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 80_000)


async def more_than_captured_is_declined(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """Refunds of one payment never exceed what was captured, one by one and in a race."""
    payment = await new_payment(250_000, "VND")
    await gateway.refund(payment.refund_of(200_000, key="most"))
    await _declined(gateway, payment.refund_of(50_001, key="too-much"))
    raced = await asyncio.gather(
        *(gateway.refund(payment.refund_of(20_000, key=f"rest-{i}")) for i in range(5)),
        return_exceptions=True,
    )
    for outcome in raced:
        must(isinstance(outcome, GatewayRefund | PaymentDeclined), f"paid or declined: {outcome!r}")
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 240_000)


async def unknown_payment_is_declined(gateway: PaymentGateway, new_payment: NewPayment) -> None:
    """A payment the gateway does not know is declined, and nothing can be found of it."""
    payment = await new_payment(250_000, "VND")
    unknown = replace(payment.refund_of(1_000, key="nowhere"), gateway_payment_id="no-such-payment")
    await _declined(gateway, unknown)
    must(await gateway.find(unknown) is None, "a declined refund does not exist")


CHECKS: tuple[Check, ...] = (
    same_key_pays_once,
    same_key_at_once_pays_once,
    other_parameters_are_refused,
    find_sees_what_was_refunded,
    find_knows_no_other_key,
    amounts_are_minor_units,
    state_tells_captured_and_refunded,
    more_than_captured_is_declined,
    unknown_payment_is_declined,
)


def _answers(refund: GatewayRefund, instruction: RefundInstruction) -> None:
    must(refund.key == instruction.key, "the answer names the key")
    must(refund.amount_minor == instruction.amount_minor, "the amount is echoed exactly")
    must(refund.currency == instruction.currency, "the currency is echoed exactly")
    must(refund.status in _NO_FAILURE, "the refund is on its way")


async def _refunded_is(
    gateway: PaymentGateway, instruction: RefundInstruction, amount_minor: int
) -> None:
    state = await gateway.payment_state(instruction)
    must(
        state.refunded_minor == amount_minor,
        f"refunded is {amount_minor}, not {state.refunded_minor}",
    )


async def _declined(gateway: PaymentGateway, instruction: RefundInstruction) -> None:
    try:
        await gateway.refund(instruction)
    except PaymentDeclined:
        return
    must(False, f"declined: {instruction}")

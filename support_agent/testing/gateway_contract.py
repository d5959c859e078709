"""What every PaymentGateway must do; run each check of CHECKS against yours."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support_agent.domain.errors import (
    GatewayRefusesUs,
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentGateway,
    RefundInstruction,
)
from support_agent.testing.contract_check import must
from support_agent.testing.gateway_backstage import Backstage, Needs

_NO_FAILURE = frozenset(
    {GatewayStatus.SUCCEEDED, GatewayStatus.PENDING, GatewayStatus.REQUIRES_ACTION}
)
_NOT_PAID = (PaymentDeclined, GatewayRefusesUs)
# A gateway that cannot tell too large an amount from one that it refunded before says so.
_NOT_PAID_OR_UNSURE = (*_NOT_PAID, PaymentOutcomeUnknown)


Check = Callable[[PaymentGateway, Backstage], Awaitable[None]]


async def same_key_pays_once(gateway: PaymentGateway, backstage: Backstage) -> None:
    """A retry with the same key answers with the refund that was made."""
    payment = await backstage.sell(250_000, "VND")
    instruction = payment.refund_of(100_000, key="once")
    first = await gateway.refund(instruction)
    second = await gateway.refund(instruction)
    must(first.provider_refund_id == second.provider_refund_id, "same key, same refund")
    await _refunded_is(gateway, instruction, 100_000)


async def same_key_at_once_pays_once(gateway: PaymentGateway, backstage: Backstage) -> None:
    """Workers that race with the same key make one refund."""
    payment = await backstage.sell(1_000_000, "VND")
    instruction = payment.refund_of(100_000, key="race")
    refunds = await asyncio.gather(*(gateway.refund(instruction) for _ in range(8)))
    must(len({refund.provider_refund_id for refund in refunds}) == 1, "one refund for all")
    await _refunded_is(gateway, instruction, 100_000)


async def same_key_after_a_lost_answer_pays_once(
    gateway: PaymentGateway, backstage: Backstage
) -> None:
    """A refund whose answer was lost is found, and sent again it is the same one."""
    payment = await backstage.sell(250_000, "VND")
    instruction = payment.refund_of(100_000, key="lost")
    must(backstage.lose_next_answer is not None, "left out where no answer can be lost")
    if backstage.lose_next_answer is not None:
        backstage.lose_next_answer()
    try:
        await gateway.refund(instruction)
    except PaymentOutcomeUnknown:
        pass
    else:
        must(False, "no answer is an unknown outcome")
    found = await gateway.find(instruction)
    again = await gateway.refund(instruction)
    must(found == again, "what was lost is found, and is what the same key answers with")
    await _refunded_is(gateway, instruction, 100_000)


async def other_parameters_are_refused(gateway: PaymentGateway, backstage: Backstage) -> None:
    """A used key with another amount or payment pays nothing."""
    payment = await backstage.sell(250_000, "VND")
    other = await backstage.sell(250_000, "VND")
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


async def find_sees_what_was_refunded(gateway: PaymentGateway, backstage: Backstage) -> None:
    """`find` answers with the very refund, among as many others as fill several pages."""
    payment = await backstage.sell(250_000, "VND")
    instructions = [payment.refund_of(1_000 + part, key=f"part-{part}") for part in range(7)]
    made = [await gateway.refund(instruction) for instruction in instructions]
    for instruction, refund in zip(instructions, made, strict=True):
        must(await gateway.find(instruction) == refund, "find answers with the refund of this key")


async def find_knows_no_other_key(gateway: PaymentGateway, backstage: Backstage) -> None:
    """`find` on a key that was never sent is None, whatever else the payment has."""
    payment = await backstage.sell(250_000, "VND")
    await gateway.refund(payment.refund_of(100_000, key="sent"))
    unsent = payment.refund_of(100_000, key="never-sent")
    must(await gateway.find(unsent) is None, "an unknown key is not found")


async def get_answers_with_the_refund(gateway: PaymentGateway, backstage: Backstage) -> None:
    """`get` is the refund of this id, and None where there is none."""
    payment = await backstage.sell(250_000, "VND")
    made = [await gateway.refund(payment.refund_of(1_000, key=f"got-{n}")) for n in range(2)]
    for refund in made:
        got = await gateway.get(refund.provider_refund_id, refund.payment)
        must(got == refund, "get answers with the refund of this id")
    for unknown in ("re_0000", "no such id", ""):
        must(await gateway.get(unknown, made[0].payment) is None, "an unknown id is None")


async def a_late_failure_is_told(gateway: PaymentGateway, backstage: Backstage) -> None:
    """A refund that fails after it succeeded says so, and its money is the payment's again."""
    payment = await backstage.sell(250_000, "VND")
    instruction = payment.refund_of(100_000, key="fails")
    refund = await gateway.refund(instruction)
    must(backstage.fail_late is not None, "left out where nothing fails late")
    if backstage.fail_late is not None:
        await backstage.fail_late(refund.provider_refund_id)
    for now in (
        await gateway.get(refund.provider_refund_id, refund.payment),
        await gateway.find(instruction),
    ):
        must(now is not None and now.status is GatewayStatus.FAILED, "it is told as failed")
    await _refunded_is(gateway, instruction, 0)


async def refunds_since_tells_every_refund(gateway: PaymentGateway, backstage: Backstage) -> None:
    """All refunds since then are told, as `refund` told them, over all pages."""
    payment = await backstage.sell(250_000, "VND")
    since = datetime.now(UTC) - timedelta(days=1)
    made = [await gateway.refund(payment.refund_of(1_000, key=f"day-{n}")) for n in range(7)]
    told = [refund async for refund in gateway.refunds_since(since)]
    ids = [refund.provider_refund_id for refund in told]
    must(len(set(ids)) == len(ids), "each is told once")
    must(all(refund in told for refund in made), "every refund is told")


async def refunds_since_leaves_out_older_ones(
    gateway: PaymentGateway, backstage: Backstage
) -> None:
    """Nothing is told that was made before then."""
    payment = await backstage.sell(250_000, "VND")
    await gateway.refund(payment.refund_of(1_000, key="older"))
    later = datetime.now(UTC) + timedelta(days=1)
    must([r async for r in gateway.refunds_since(later)] == [], "older refunds are left out")


async def outside_refunds_are_told(gateway: PaymentGateway, backstage: Backstage) -> None:
    """A refund that we did not send has no key of ours, and counts into the payment's state."""
    payment = await backstage.sell(250_000, "VND")
    await gateway.refund(payment.refund_of(1_000, key="ours"))
    must(backstage.refund_outside is not None, "left out where nobody else refunds")
    if backstage.refund_outside is None:
        return
    outside = await backstage.refund_outside(payment, 30_000)
    since = datetime.now(UTC) - timedelta(days=1)
    told = {r.provider_refund_id: r async for r in gateway.refunds_since(since)}
    must(outside in told, "it is told")
    must(told[outside].key == "", "it has no key of ours")
    must(told[outside].amount_minor == 30_000, "its amount is told")
    must(told[outside].payment.gateway_payment_id == payment.gateway_payment_id, "its payment")
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 31_000)


async def amounts_are_minor_units(gateway: PaymentGateway, backstage: Backstage) -> None:
    """Amount and currency come back exactly; VND has no hundredth, KWD has thousandths."""
    amounts = {"VND": 5_000, "JPY": 5_801, "USD": 1_234, "KWD": 1_010}
    for currency in backstage.currencies:
        payment = await backstage.sell(2_000_000, currency)
        instruction = payment.refund_of(amounts[currency], key=f"exact-{currency}")
        refund = await gateway.refund(instruction)
        _answers(refund, instruction)
        state = await gateway.payment_state(instruction.payment)
        must(state.captured_minor == 2_000_000, "captured counts the same minor units")
        await _refunded_is(gateway, instruction, amounts[currency])


async def amounts_are_never_rounded(gateway: PaymentGateway, backstage: Backstage) -> None:
    """An amount that the gateway cannot express is declined; 1.001 KWD are not 1 KWD."""
    for currency in backstage.currencies:
        payment = await backstage.sell(2_000_000, currency)
        instruction = payment.refund_of(1_001, key=f"odd-{currency}")
        try:
            refund = await gateway.refund(instruction)
        except PaymentDeclined:
            await _refunded_is(gateway, instruction, 0)
        else:
            _answers(refund, instruction)
            await _refunded_is(gateway, instruction, 1_001)


async def nothing_is_not_everything(gateway: PaymentGateway, backstage: Backstage) -> None:
    """Zero is no amount: to some APIs it means the whole payment."""
    payment = await backstage.sell(250_000, "VND")
    for amount in (0, -1):
        await _not_paid(gateway, payment.refund_of(amount, key=f"none{amount}"), _NOT_PAID)
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 0)


async def state_tells_captured_and_refunded(gateway: PaymentGateway, backstage: Backstage) -> None:
    """The payment's state adds up its refunds and names account and mode."""
    payment = await backstage.sell(250_000, "VND")
    before = await gateway.payment_state(payment.refund_of(1, key="look").payment)
    must(before.captured_minor == 250_000, "captured is what was paid")
    must(before.refunded_minor == 0, "nothing is refunded yet")
    must(before.account == payment.account, "the account is the payment's")
    must(before.livemode == gateway.livemode, "the mode is the gateway's")
    must(not before.disputed, "nobody disputes it")
    must(before.charged_back_minor == 0, "nobody took it back")
    for key in ("part-1", "part-2"):
        await gateway.refund(payment.refund_of(40_000, key=key))
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 80_000)


async def more_than_captured_is_never_paid(gateway: PaymentGateway, backstage: Backstage) -> None:
    """Refunds of one payment never exceed what was captured, one by one and in a race."""
    payment = await backstage.sell(250_000, "VND")
    await gateway.refund(payment.refund_of(200_000, key="most"))
    await _not_paid(gateway, payment.refund_of(50_001, key="too-much"), _NOT_PAID_OR_UNSURE)
    raced = await asyncio.gather(
        *(gateway.refund(payment.refund_of(20_000, key=f"rest-{i}")) for i in range(5)),
        return_exceptions=True,
    )
    for outcome in raced:
        answered = isinstance(outcome, (GatewayRefund, *_NOT_PAID_OR_UNSURE))
        must(answered, f"paid, declined or in doubt: {outcome!r}")
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 240_000)


async def unknown_payment_is_never_paid(gateway: PaymentGateway, backstage: Backstage) -> None:
    """A payment the gateway does not know has no state, and nothing is found of it."""
    payment = await backstage.sell(250_000, "VND")
    for unknown_id in ("no-such-payment", "ch_0000"):
        unknown = replace(payment.refund_of(1_000, key="nowhere"), gateway_payment_id=unknown_id)
        await _not_paid(gateway, unknown, _NOT_PAID_OR_UNSURE)
        try:
            await gateway.payment_state(unknown.payment)
        except PaymentDeclined:
            pass
        else:
            must(False, "a payment that is not there has no state")
        try:
            must(await gateway.find(unknown) is None, "nothing is found of it")
        except PaymentOutcomeUnknown:
            continue  # a gateway may say that it does not know the payment


async def another_account_is_never_paid(gateway: PaymentGateway, backstage: Backstage) -> None:
    """An instruction for an account that is not ours pays nothing from ours."""
    payment = await backstage.sell(250_000, "VND")
    elsewhere = replace(payment.refund_of(1_000, key="elsewhere"), account="acct_somebody_elses")
    await _not_paid(gateway, elsewhere, _NOT_PAID)
    await _refunded_is(gateway, payment.refund_of(1, key="look"), 0)


CHECKS: tuple[Check, ...] = (
    same_key_pays_once,
    same_key_at_once_pays_once,
    same_key_after_a_lost_answer_pays_once,
    other_parameters_are_refused,
    find_sees_what_was_refunded,
    find_knows_no_other_key,
    get_answers_with_the_refund,
    a_late_failure_is_told,
    refunds_since_tells_every_refund,
    refunds_since_leaves_out_older_ones,
    outside_refunds_are_told,
    amounts_are_minor_units,
    amounts_are_never_rounded,
    nothing_is_not_everything,
    state_tells_captured_and_refunded,
    more_than_captured_is_never_paid,
    unknown_payment_is_never_paid,
    another_account_is_never_paid,
)
NEEDS: dict[Check, Needs] = {
    same_key_after_a_lost_answer_pays_once: Needs.LOSE,
    a_late_failure_is_told: Needs.FAIL,
    refunds_since_leaves_out_older_ones: Needs.WHEN,
    outside_refunds_are_told: Needs.OUTSIDE,
}


def checks_for(lacks: frozenset[Needs] = frozenset()) -> tuple[Check, ...]:
    """The checks for a gateway that has no such thing as these."""
    return tuple(check for check in CHECKS if NEEDS.get(check) not in lacks)


def _answers(refund: GatewayRefund, instruction: RefundInstruction) -> None:
    must(refund.key == instruction.key, "the answer names the key")
    must(refund.payment == instruction.payment, "the answer names the payment")
    must(refund.amount_minor == instruction.amount_minor, "the amount is echoed exactly")
    must(refund.currency == instruction.currency, "the currency is echoed exactly")
    must(refund.status in _NO_FAILURE, "the refund is on its way")


async def _refunded_is(
    gateway: PaymentGateway, instruction: RefundInstruction, amount_minor: int
) -> None:
    state = await gateway.payment_state(instruction.payment)
    must(
        state.refunded_minor == amount_minor,
        f"refunded is {amount_minor}, not {state.refunded_minor}",
    )


async def _not_paid(
    gateway: PaymentGateway, instruction: RefundInstruction, errors: tuple[type[Exception], ...]
) -> None:
    try:
        await gateway.refund(instruction)
    except errors:
        return
    must(False, f"not paid: {instruction}")

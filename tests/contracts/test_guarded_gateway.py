"""A gateway class of somebody's own may do anything; money is unknown then, never lost."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from support_agent.adapters.payments.guarded import GuardedGateway
from support_agent.domain.errors import (
    ConfigurationError,
    GatewayBusy,
    GatewayRefusesUs,
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

PAYMENT = PaymentRef(gateway="bank", account="shop", gateway_payment_id="PAY-1")
ASKED = RefundInstruction(
    key="k",
    request_id="req_1",
    gateway="bank",
    account="shop",
    gateway_payment_id="PAY-1",
    amount_minor=1_000,
    currency="VND",
)
REFUND = GatewayRefund(
    provider_refund_id="RF-1",
    key="k",
    payment=PAYMENT,
    status=GatewayStatus.SUCCEEDED,
    amount_minor=1_000,
    currency="VND",
)
STATE = PaymentState(
    captured_minor=1_000, refunded_minor=0, disputed=False, account="shop", livemode=False
)
NOW = datetime(2026, 10, 13, tzinfo=UTC)


class Foreign:
    """Answers everything with one thing, or raises it."""

    name, livemode, books_only = "bank", False, False

    def __init__(self, thing: Any) -> None:
        self._thing = thing
        self.closed = 0

    async def _said(self) -> Any:
        if isinstance(self._thing, BaseException):
            raise self._thing
        return self._thing

    async def refund(self, instruction: RefundInstruction) -> Any:
        return await self._said()

    async def find(self, instruction: RefundInstruction) -> Any:
        return await self._said()

    async def get(self, provider_refund_id: str, payment: PaymentRef) -> Any:
        return await self._said()

    async def refunds_since(self, since: datetime) -> AsyncIterator[Any]:
        try:
            yield REFUND
            yield await self._said()
        finally:
            self.closed += 1

    async def payment_state(self, payment: PaymentRef) -> Any:
        return await self._said()

    async def aclose(self) -> None:
        self.closed += 1


async def listed(gateway: GuardedGateway) -> list[GatewayRefund]:
    return [refund async for refund in gateway.refunds_since(NOW)]


ASKS = {
    "refund": lambda gateway: gateway.refund(ASKED),
    "find": lambda gateway: gateway.find(ASKED),
    "get": lambda gateway: gateway.get("RF-1", PAYMENT),
    "list": listed,
}


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    "thing",
    [
        RuntimeError("no connection"),
        SystemExit(3),
        asyncio.CancelledError(),  # of its own: nobody called us off
        KeyError("refund"),
        ConfigurationError("BANK_KEY is not set"),
        "RF-1",
        {"id": "RF-1"},
        STATE,
        replace(REFUND, amount_minor=1_000.0),
        replace(REFUND, amount_minor=True),
        replace(REFUND, amount_minor=-1),
        replace(REFUND, amount_minor=10**16),
        replace(REFUND, status="paid"),
        replace(REFUND, provider_refund_id=""),
        replace(REFUND, provider_refund_id=7),
        replace(REFUND, provider_refund_id="RF\x00"),
        replace(REFUND, provider_refund_id="\ud800"),
        replace(REFUND, failure_code="x" * 501),
        replace(REFUND, key=None),
        replace(REFUND, currency=704),
        replace(REFUND, failure_code=5),
        replace(REFUND, payment="PAY-1"),
        replace(REFUND, payment=replace(PAYMENT, account=None)),
    ],
    ids=repr,
)
async def test_what_is_no_answer_is_an_unknown_outcome(ask, thing):
    with pytest.raises(PaymentOutcomeUnknown):
        await ASKS[ask](GuardedGateway(Foreign(thing)))


@pytest.mark.parametrize("ask", ["find", "get"])
async def test_that_there_is_none_is_an_answer(ask):
    assert await ASKS[ask](GuardedGateway(Foreign(None))) is None


@pytest.mark.parametrize("ask", ["refund", "list"])
async def test_none_is_no_refund(ask):
    with pytest.raises(PaymentOutcomeUnknown):
        await ASKS[ask](GuardedGateway(Foreign(None)))


@pytest.mark.parametrize("ask", [*ASKS, "state"])
@pytest.mark.parametrize(
    "error",
    [PaymentDeclined, IdempotencyMismatch, GatewayBusy, GatewayRefusesUs, PaymentOutcomeUnknown],
)
async def test_the_errors_of_the_port_are_believed(ask, error):
    asks = {**ASKS, "state": lambda gateway: gateway.payment_state(PAYMENT)}
    with pytest.raises(error, match="said_so"):
        await asks[ask](GuardedGateway(Foreign(error("said_so"))))


@pytest.mark.parametrize(
    "thing",
    [
        RuntimeError(),
        None,
        REFUND,
        replace(STATE, captured_minor=1_000.0),
        replace(STATE, refunded_minor=-1),
        replace(STATE, charged_back_minor=None),
        replace(STATE, account=None),
        replace(STATE, disputed=0),
        replace(STATE, livemode="no"),
    ],
    ids=repr,
)
async def test_a_state_that_cannot_be_understood_is_none(thing):
    with pytest.raises(PaymentOutcomeUnknown):
        await GuardedGateway(Foreign(thing)).payment_state(PAYMENT)


async def test_what_is_sound_is_handed_on():
    gateway = GuardedGateway(Foreign(REFUND))

    assert await gateway.refund(ASKED) == REFUND
    assert await gateway.find(ASKED) == REFUND
    assert await gateway.get("RF-1", PAYMENT) == REFUND
    assert await listed(gateway) == [REFUND, REFUND]
    assert await GuardedGateway(Foreign(STATE)).payment_state(PAYMENT) == STATE


async def test_a_list_that_is_not_read_to_its_end_is_closed():
    foreign = Foreign(REFUND)
    refunds = GuardedGateway(foreign).refunds_since(NOW)
    await anext(refunds)
    await refunds.aclose()

    assert foreign.closed == 1


@pytest.mark.parametrize("thing", [[REFUND], None, 7], ids=repr)
async def test_a_list_that_is_no_stream_is_an_unknown_outcome(thing):
    foreign = Foreign(None)
    foreign.refunds_since = lambda since: thing

    with pytest.raises(PaymentOutcomeUnknown):
        await listed(GuardedGateway(foreign))


async def test_a_list_that_cannot_be_closed_is_an_unknown_outcome():
    class Unclosable:
        def __aiter__(self) -> "Unclosable":
            return self

        async def __anext__(self) -> GatewayRefund:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            raise RuntimeError("the connection is gone")

    foreign = Foreign(None)
    foreign.refunds_since = lambda since: Unclosable()
    with pytest.raises(PaymentOutcomeUnknown):
        await listed(GuardedGateway(foreign))


async def test_who_is_called_off_while_it_is_asked_ends():
    class Slow(Foreign):
        async def refund(self, instruction: RefundInstruction) -> Any:
            await asyncio.sleep(60)

    asked = asyncio.create_task(GuardedGateway(Slow(None)).refund(ASKED))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await GuardedGateway(Slow(None)).refund(ASKED)


@pytest.mark.parametrize("told", ["", "x" * 501, "a\x00b"], ids=repr)
async def test_a_code_that_cannot_be_kept_is_not(told):
    with pytest.raises(PaymentDeclined, match="^declined$" if told else "^$"):
        await GuardedGateway(Foreign(PaymentDeclined(told))).refund(ASKED)


async def test_what_it_says_of_itself_is_read_once():
    foreign = Foreign(None)
    gateway = GuardedGateway(foreign)
    foreign.livemode, foreign.name = True, "another"
    await gateway.aclose()

    assert (gateway.name, gateway.livemode, gateway.books_only) == ("bank", False, False)
    assert foreign.closed == 1

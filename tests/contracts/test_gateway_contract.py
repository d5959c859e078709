"""Every payment gateway keeps the contract; a new one is one more entry in GATEWAYS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.domain.errors import (
    IdempotencyMismatch,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.payments import (
    GatewayRefund,
    GatewayStatus,
    PaymentGateway,
    PaymentState,
    RefundInstruction,
)
from support_agent.testing.builders import make_line, make_order, make_payment
from support_agent.testing.contract_check import ContractBroken
from support_agent.testing.gateway import GatewaySimulator
from support_agent.testing.gateway_contract import (
    CHECKS,
    CapturedPayment,
    Check,
    NewPayment,
    amounts_are_minor_units,
    find_knows_no_other_key,
    find_sees_what_was_refunded,
    more_than_captured_is_declined,
    other_parameters_are_refused,
    same_key_at_once_pays_once,
    same_key_pays_once,
    unknown_payment_is_declined,
)

KEYS = KeyRing(keys=(("k1", b"a secret of thirty-two characters"),))
Opened = tuple[PaymentGateway, NewPayment]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[SqlDatabase]:
    database = SqlDatabase(f"sqlite:///{folder / 'shop.db'}", KEYS, busy_timeout_s=0.05)
    try:
        yield database
    finally:
        await database.aclose()


def payments_of(shop: SqlOrders) -> NewPayment:
    """Sells one more order for each payment."""
    numbers = count(1)

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        order_id = f"S{next(numbers)}"
        paid = make_payment("P1", captured_minor, order_id=order_id, currency=currency)
        order = make_order(
            (make_line("1", captured_minor),), (paid,), id=order_id, currency=currency
        )
        await shop.put_orders((order,))
        return CapturedPayment(
            gateway=paid.gateway,
            account=paid.account,
            gateway_payment_id=paid.gateway_payment_id,
            captured_minor=captured_minor,
            currency=currency,
        )

    return sell


@asynccontextmanager
async def ledger(folder: Path) -> AsyncIterator[Opened]:
    upgrade(f"sqlite:///{folder / 'shop.db'}", live=False)
    async with opened(folder) as database:
        yield LedgerGateway(database), payments_of(SqlOrders(database))


@asynccontextmanager
async def simulator(folder: Path) -> AsyncIterator[Opened]:
    gateway, numbers = GatewaySimulator(), count(1)

    async def sell(captured_minor: int, currency: str) -> CapturedPayment:
        payment_id = f"pay_{next(numbers)}"
        gateway.add_payment(payment_id, captured_minor, currency, account="shop")
        return CapturedPayment(
            gateway=gateway.name,
            account="shop",
            gateway_payment_id=payment_id,
            captured_minor=captured_minor,
            currency=currency,
        )

    yield gateway, sell


# Each opens a gateway and a way to make payments there.
GATEWAYS: dict[str, Callable[[Path], AbstractAsyncContextManager[Opened]]] = {
    "ledger": ledger,
    "simulator": simulator,
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", GATEWAYS)
async def test_the_contract_is_kept(name, check, tmp_path):
    async with GATEWAYS[name](tmp_path) as (gateway, new_payment):
        await check(gateway, new_payment)


class Careless:
    """A gateway with one fault, to show that the contract finds it."""

    name = "careless"
    livemode = False
    books_only = False

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._captured: dict[str, int] = {}
        self._made: list[tuple[RefundInstruction, GatewayRefund]] = []

    async def sell(self, captured_minor: int, currency: str) -> CapturedPayment:
        payment_id = f"pay-{len(self._captured)}"
        self._captured[payment_id] = captured_minor
        return CapturedPayment(
            gateway=self.name,
            account="shop",
            gateway_payment_id=payment_id,
            captured_minor=captured_minor,
            currency=currency,
        )

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        for sent, refund in self._made:
            if sent.key == instruction.key and self._fault != "forgets keys":
                if sent != instruction and self._fault != "ignores parameters":
                    raise IdempotencyMismatch(instruction.key)
                return refund
        captured = self._captured.get(instruction.gateway_payment_id)
        if captured is None and self._fault != "pays anyone":
            raise PaymentDeclined("payment_unknown")
        gone = self._refunded(instruction) + instruction.amount_minor
        if gone > (captured or 0) and self._fault not in {"pays too much", "pays anyone"}:
            raise PaymentDeclined("amount_above_captured")
        hundredfold = 100 if self._fault == "multiplies" else 1
        refund = GatewayRefund(
            provider_refund_id=f"re-{len(self._made)}",
            key=instruction.key,
            status=GatewayStatus.SUCCEEDED,
            amount_minor=instruction.amount_minor * hundredfold,
            currency=instruction.currency,
        )
        self._made.append((instruction, refund))
        return refund

    async def find(self, instruction: RefundInstruction) -> GatewayRefund | None:
        keyed = [refund for sent, refund in self._made if sent.key == instruction.key]
        if self._fault == "finds the last":
            keyed = [refund for _, refund in self._made]
        return None if self._fault == "finds nothing" or not keyed else keyed[-1]

    async def payment_state(self, instruction: RefundInstruction) -> PaymentState:
        return PaymentState(
            captured_minor=self._captured[instruction.gateway_payment_id],
            refunded_minor=self._refunded(instruction),
            disputed=False,
            account="shop",
            livemode=False,
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    def _refunded(self, instruction: RefundInstruction) -> int:
        payment_id = instruction.gateway_payment_id
        return sum(
            refund.amount_minor
            for sent, refund in self._made
            if sent.gateway_payment_id == payment_id
        )


@pytest.mark.parametrize(
    ("fault", "finds_it"),
    [
        ("forgets keys", same_key_pays_once),
        ("forgets keys", same_key_at_once_pays_once),
        ("ignores parameters", other_parameters_are_refused),
        ("finds nothing", find_sees_what_was_refunded),
        ("finds the last", find_sees_what_was_refunded),
        ("finds the last", find_knows_no_other_key),
        ("multiplies", amounts_are_minor_units),
        ("pays too much", more_than_captured_is_declined),
        ("pays anyone", unknown_payment_is_declined),
    ],
)
async def test_the_contract_finds_a_careless_gateway(fault: str, finds_it: Check):
    careless = Careless(fault)

    with pytest.raises(ContractBroken):
        await finds_it(careless, careless.sell)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_contract_asks_for_nothing_else(check):
    sound = Careless("none")

    await check(sound, sound.sell)


class TestLedgerGateway:
    @pytest.fixture
    async def database(self, tmp_path):
        upgrade(f"sqlite:///{tmp_path / 'shop.db'}", live=False)
        async with opened(tmp_path) as database:
            yield database

    @pytest.fixture
    async def payment(self, database) -> CapturedPayment:
        return await payments_of(SqlOrders(database))(250_000, "VND")

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"amount_minor": 250_001}, "amount_above_captured"),
            ({"amount_minor": 0}, "amount_invalid"),
            ({"amount_minor": -1}, "amount_invalid"),
            ({"currency": "USD"}, "currency_mismatch"),
            ({"account": "another"}, "payment_unknown"),
            ({"gateway": "stripe"}, "payment_unknown"),
        ],
    )
    async def test_a_decline_says_why_and_records_nothing(self, database, payment, changes, code):
        gateway = LedgerGateway(database)
        wanted = replace(payment.refund_of(1_000, key="k1"), **changes)

        with pytest.raises(PaymentDeclined, match=code):
            await gateway.refund(wanted)
        assert await gateway.find(wanted) is None
        assert (await gateway.payment_state(payment.refund_of(1, key="k"))).refunded_minor == 0

    async def test_a_disputed_payment_is_declined_and_told(self, database, payment):
        gateway = LedgerGateway(database)
        dispute = sa.text("UPDATE shop_payments SET disputed = true")
        await database.run_write(lambda c: c.execute(dispute))

        with pytest.raises(PaymentDeclined, match="payment_disputed"):
            await gateway.refund(payment.refund_of(1_000, key="k1"))
        assert (await gateway.payment_state(payment.refund_of(1, key="k"))).disputed

    async def test_a_retry_is_answered_though_the_payment_is_disputed_by_now(
        self, database, payment
    ):
        gateway = LedgerGateway(database)
        made = await gateway.refund(payment.refund_of(1_000, key="k1"))
        dispute = sa.text("UPDATE shop_payments SET disputed = true")
        await database.run_write(lambda c: c.execute(dispute))

        assert await gateway.refund(payment.refund_of(1_000, key="k1")) == made

    async def test_an_unknown_payment_has_no_state(self, database, payment):
        unknown = replace(payment.refund_of(1, key="k"), gateway_payment_id="none")

        with pytest.raises(PaymentDeclined, match="payment_unknown"):
            await LedgerGateway(database).payment_state(unknown)

    async def test_a_new_process_gives_the_same_answer(self, database, payment, tmp_path):
        instruction = payment.refund_of(1_000, key="k1")
        made = await LedgerGateway(database).refund(instruction)

        async with opened(tmp_path) as later:
            gateway = LedgerGateway(later)
            assert await gateway.refund(instruction) == made
            assert await gateway.find(instruction) == made

    async def test_no_answer_is_an_unknown_outcome_not_a_decline(self, database, payment, tmp_path):
        gateway = LedgerGateway(database)
        instruction = payment.refund_of(1_000, key="k1")
        holder = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
        with holder.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            with pytest.raises(PaymentOutcomeUnknown):
                await gateway.refund(instruction)
        holder.dispose()

        assert await gateway.find(instruction) is None

    @pytest.mark.parametrize("books_only", [True, False])
    async def test_it_says_whether_it_only_records(self, database, books_only):
        gateway = LedgerGateway(database, books_only=books_only)

        assert (gateway.name, gateway.livemode) == ("ledger", False)
        assert gateway.books_only is books_only
        await gateway.aclose()

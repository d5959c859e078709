"""Every payment gateway keeps the contract; a new one is one more entry in GATEWAYS."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.orders.sql import SqlOrders
from support_agent.adapters.payments.guarded import GuardedGateway
from support_agent.adapters.payments.ledger import LedgerEvents, LedgerGateway
from support_agent.domain.errors import (
    EventRefused,
    PaymentDeclined,
    PaymentOutcomeUnknown,
)
from support_agent.domain.signing import KeyRing
from support_agent.ports.payments import PaymentGateway
from support_agent.testing import gateway_contract as contract
from support_agent.testing.builders import make_line, make_order, make_payment
from support_agent.testing.contract_check import ContractBroken
from support_agent.testing.gateway import Act, GatewaySimulator
from support_agent.testing.gateway_backstage import (
    Backstage,
    CapturedPayment,
    Needs,
    NewPayment,
    lacking,
)
from support_agent.testing.gateway_contract import CHECKS, Check, checks_for
from tests.careless_gateway import Careless
from tests.refund_kit import endpoint_backstage
from tests.stripe_kit import mock_backstage, server_backstage

KEYS = KeyRing(keys=(("k1", b"a secret of thirty-two characters"),))
Opened = tuple[PaymentGateway, Backstage]


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
async def ledger(folder: Path, request: Any) -> AsyncIterator[Opened]:
    upgrade(f"sqlite:///{folder / 'shop.db'}", live=False)
    async with opened(folder) as database:
        yield LedgerGateway(database, page=3), Backstage(sell=payments_of(SqlOrders(database)))


@asynccontextmanager
async def simulator(folder: Path, request: Any) -> AsyncIterator[Opened]:
    gateway, numbers = GatewaySimulator(now=lambda: datetime.now(UTC)), count(1)

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

    async def refund_outside(payment: CapturedPayment, amount_minor: int) -> str:
        return gateway.refund_outside(payment.gateway_payment_id, amount_minor).provider_refund_id

    async def fail_late(refund_id: str) -> None:
        gateway.fail_late(refund_id)

    yield (
        gateway,
        Backstage(
            sell=sell,
            lose_next_answer=lambda: gateway.will(Act.LOSE_ANSWER),
            refund_outside=refund_outside,
            fail_late=fail_late,
        ),
    )


@asynccontextmanager
async def stripe_intents(folder: Path, request: Any) -> AsyncIterator[Opened]:
    async with server_backstage(intents=True) as opened:
        yield opened


@asynccontextmanager
async def stripe_charges(folder: Path, request: Any) -> AsyncIterator[Opened]:
    async with server_backstage(intents=False) as opened:
        yield opened


@asynccontextmanager
async def stripe_mock(folder: Path, request: Any) -> AsyncIterator[Opened]:
    async with mock_backstage(request.getfixturevalue("stripe_mock_port")) as opened:
        yield opened


@asynccontextmanager
async def http(folder: Path, request: Any) -> AsyncIterator[Opened]:
    async with endpoint_backstage() as opened:
        yield opened


@asynccontextmanager
async def own_class(folder: Path, request: Any) -> AsyncIterator[Opened]:
    async with simulator(folder, request) as (gateway, backstage):
        yield GuardedGateway(gateway), backstage


# Each opens a gateway and what can be done behind its back.
GATEWAYS: dict[str, Callable[[Path, Any], AbstractAsyncContextManager[Opened]]] = {
    "ledger": ledger,
    "simulator": simulator,
    "stripe: payment intents": stripe_intents,
    "stripe: charges": stripe_charges,
    "stripe: npm stand-in": stripe_mock,
    "http": http,
    "class": own_class,
}
# What a gateway has not, and which check is therefore left out; a test compares it with the facts.
LACKS: dict[str, frozenset[Needs]] = {
    "ledger": frozenset({Needs.LOSE, Needs.OUTSIDE, Needs.FAIL}),
    "stripe: npm stand-in": frozenset({Needs.FAIL, Needs.WHEN}),
}
CASES = [
    pytest.param(name, check, id=f"{name}-{check.__name__}")
    for name in GATEWAYS
    for check in checks_for(LACKS.get(name, frozenset()))
]


@pytest.mark.parametrize(("name", "check"), CASES)
async def test_the_contract_is_kept(name, check, tmp_path, request):
    async with GATEWAYS[name](tmp_path, request) as (gateway, backstage):
        await check(gateway, backstage)


@pytest.mark.parametrize("name", GATEWAYS)
async def test_no_check_is_left_out_that_could_be_made(name, tmp_path, request):
    async with GATEWAYS[name](tmp_path, request) as (_, backstage):
        assert lacking(backstage) == LACKS.get(name, frozenset())


@pytest.mark.parametrize(
    ("fault", "finds_it"),
    [
        ("forgets keys", contract.same_key_pays_once),
        ("forgets keys", contract.same_key_at_once_pays_once),
        ("forgets what was lost", contract.same_key_after_a_lost_answer_pays_once),
        ("ignores parameters", contract.other_parameters_are_refused),
        ("finds nothing", contract.find_sees_what_was_refunded),
        ("finds the last", contract.find_sees_what_was_refunded),
        ("finds on the first page", contract.find_sees_what_was_refunded),
        ("finds the last", contract.find_knows_no_other_key),
        ("gets the last", contract.get_answers_with_the_refund),
        ("gets nothing", contract.get_answers_with_the_refund),
        ("gets what it said first", contract.a_late_failure_is_told),
        ("finds what it said first", contract.a_late_failure_is_told),
        ("counts what failed", contract.a_late_failure_is_told),
        ("tells the first page", contract.refunds_since_tells_every_refund),
        ("tells twice", contract.refunds_since_tells_every_refund),
        ("tells any time", contract.refunds_since_leaves_out_older_ones),
        ("tells ours only", contract.outside_refunds_are_told),
        ("claims all", contract.outside_refunds_are_told),
        ("multiplies", contract.amounts_are_minor_units),
        ("captures hundredths", contract.amounts_are_minor_units),
        ("rounds", contract.amounts_are_never_rounded),
        ("takes zero for all", contract.nothing_is_not_everything),
        ("names no account", contract.state_tells_captured_and_refunded),
        ("is live elsewhere", contract.state_tells_captured_and_refunded),
        ("pays too much", contract.more_than_captured_is_never_paid),
        ("pays anyone", contract.unknown_payment_is_never_paid),
        ("invents a state", contract.unknown_payment_is_never_paid),
        ("pays for others", contract.another_account_is_never_paid),
    ],
)
async def test_the_contract_finds_a_careless_gateway(fault: str, finds_it: Check):
    careless = Careless(fault)

    with pytest.raises(ContractBroken):
        await finds_it(careless, careless.backstage())


def test_every_check_is_shown_to_find_something():
    marks = test_the_contract_finds_a_careless_gateway.pytestmark
    shown = {finds_it for mark in marks for _, finds_it in mark.args[1]}

    assert shown == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_contract_asks_for_nothing_else(check):
    sound = Careless("none")

    await check(sound, sound.backstage())


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
        assert (
            await gateway.payment_state(payment.refund_of(1, key="k").payment)
        ).refunded_minor == 0

    async def test_a_disputed_payment_is_declined_and_told(self, database, payment):
        gateway = LedgerGateway(database)
        dispute = sa.text("UPDATE shop_payments SET disputed = true")
        await database.run_write(lambda c: c.execute(dispute))

        with pytest.raises(PaymentDeclined, match="payment_disputed"):
            await gateway.refund(payment.refund_of(1_000, key="k1"))
        assert (await gateway.payment_state(payment.refund_of(1, key="k").payment)).disputed

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
            await LedgerGateway(database).payment_state(unknown.payment)

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

    def test_nothing_can_call_itself_its_event(self):
        with pytest.raises(EventRefused):
            LedgerEvents().verify(b"{}", {}, now=datetime.now(UTC))

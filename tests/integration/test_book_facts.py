"""What a gateway did on its own, booked on real databases: never refused, once, and in the sums."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.domain.errors import InvalidInput, ReserveMissing
from support_agent.domain.policy import PaymentBalance
from support_agent.ports.payments import PaymentRef
from support_agent.ports.storage import FactBooked, FactKind, GatewayFact, Shortage
from support_agent.testing.builders import make_line, make_order, make_payment, make_posting

T = TypeVar("T")
NOW = datetime(2026, 10, 13, 2, 0, tzinfo=UTC)
PAID = make_payment("P1", 1_000)
ORDER = make_order((make_line("1", 1_000, 10),), (PAID,))
REF = PaymentRef(
    gateway=PAID.gateway, account=PAID.account, gateway_payment_id=PAID.gateway_payment_id
)
EXTERNAL, CHARGEBACK = FactKind.EXTERNAL, FactKind.CHARGEBACK
REVERSED = FactKind.CHARGEBACK_REVERSED


def fact(kind: FactKind, amount: int, reference: str = "re_1", **changes: Any) -> GatewayFact:
    return GatewayFact(
        kind=kind,
        payment=changes.pop("payment", REF),
        reference=reference,
        amount_minor=amount,
        currency=changes.pop("currency", "VND"),
        at=NOW,
        **changes,
    )


def fits(overdrawn: int = 0) -> FactBooked:
    return FactBooked(order_id="A1", payment_id="P1", overdrawn_minor=overdrawn)


async def books(database: SqlDatabase, fn: Callable[[SqlBooks], T]) -> T:
    """Run on the books in a transaction, and leave only if they still add up."""

    def checked(tx: Any) -> T:
        result = fn(tx.books)
        assert tx.books.check() == ()
        return result

    return await database.transact(checked)


async def payment(database: SqlDatabase) -> PaymentBalance:
    found = await books(database, lambda b: b.of_order("A1"))
    return found.payments[0]


@pytest.fixture
async def shop(database: SqlDatabase) -> SqlDatabase:
    await books(database, lambda b: b.sync(ORDER))
    return database


class TestExternal:
    async def test_takes_of_order_and_payment_what_is_left_for_others(self, shop):
        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400))) == fits()

        assert (await payment(shop)).refunded_minor == 400
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 601))) is Shortage.ORDER
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 600))) == 1_000

    async def test_the_same_reference_is_booked_once(self, shop):
        await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400)))

        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400))) is None
        assert await books(shop, lambda b: b.is_booked(fact(EXTERNAL, 400)))
        assert not await books(shop, lambda b: b.is_booked(fact(EXTERNAL, 400, "re_2")))
        assert (await payment(shop)).refunded_minor == 400

    async def test_the_same_reference_at_once_is_booked_once(self, shop):
        booked = await asyncio.gather(
            *(books(shop, lambda b: b.book_fact(fact(EXTERNAL, 100))) for _ in range(6))
        )

        assert sorted(booked, key=bool) == [None] * 5 + [fits()]
        assert (await payment(shop)).refunded_minor == 100

    async def test_many_at_once_and_a_reserve_beside_them_all_count(self, shop):
        await asyncio.gather(
            *(
                books(shop, lambda b, n=n: b.book_fact(fact(EXTERNAL, 100, f"re_{n}")))
                for n in range(6)
            ),
            *(books(shop, lambda b, n=n: b.reserve(make_posting(f"r{n}", 100))) for n in range(6)),
        )

        found = await payment(shop)
        assert found.refunded_minor == 600
        assert found.reserved_minor + found.refunded_minor <= 1_000 + found.overdrawn_minor

    async def test_what_does_not_fit_is_overdrawn_and_freezes(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 900)))

        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400))) == fits(300)

        found = await payment(shop)
        assert (found.overdrawn_minor, found.frozen) == (300, True)
        await books(shop, lambda b: b.release(make_posting("r1", 900)))
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 1))) is Shortage.PAYMENT

    async def test_each_tells_only_its_own_part_that_did_not_fit(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 1_000)))
        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 300, "re_1"))) == fits(300)
        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 200, "re_2"))) == fits(200)
        await books(shop, lambda b: b.release(make_posting("r1", 1_000)))

        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 600, "re_3"))) == fits(100)
        assert (await payment(shop)).overdrawn_minor == 100

    async def test_one_may_freeze_though_it_fits(self, shop):
        assert await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 1, freezes=True))) == fits()

        assert (await payment(shop)).frozen

    async def test_a_reserve_may_still_be_settled_on_an_overdrawn_payment(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 900)))
        await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400)))

        await books(shop, lambda b: b.settle(make_posting("r1", 900)))

        assert (await payment(shop)).refunded_minor == 1_300

    async def test_of_another_currency_than_its_order_it_leaves_the_order_alone(self, database):
        dollars = make_payment("P1", 700, currency="USD")
        await books(database, lambda b: b.sync(make_order((make_line("1", 1_000),), (dollars,))))

        booked = await books(database, lambda b: b.book_fact(fact(EXTERNAL, 700, currency="USD")))

        assert booked == fits()
        refunded = sa.text("SELECT refunded_minor FROM order_balances")
        assert await database.run_read(lambda c: c.scalar(refunded)) == 0

    @pytest.mark.parametrize(
        "unknown",
        [
            {"payment": replace(REF, gateway_payment_id="other")},
            {"payment": replace(REF, account="other")},
            {"payment": replace(REF, gateway="other")},
            {"currency": "USD"},
        ],
        ids=["payment", "account", "gateway", "currency"],
    )
    async def test_what_we_keep_no_books_of_is_not_booked(self, shop, unknown):
        wanted = fact(EXTERNAL, 400, **unknown)

        assert not await books(shop, lambda b: b.knows(wanted.payment, wanted.currency))
        assert await books(shop, lambda b: b.book_fact(wanted)) is None

    @pytest.mark.parametrize("amount", [0, -400])
    async def test_nothing_or_less_is_no_fact(self, shop, amount):
        with pytest.raises(InvalidInput, match="amount"):
            await books(shop, lambda b: b.book_fact(fact(EXTERNAL, amount)))


class TestChargeback:
    async def test_takes_of_the_payment_alone(self, shop):
        assert await books(shop, lambda b: b.book_fact(fact(CHARGEBACK, 400))) == fits()

        found = await payment(shop)
        assert (found.charged_back_minor, found.refunded_minor) == (400, 0)
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 601))) is Shortage.PAYMENT

    async def test_reversed_gives_back_what_was_booked_whatever_is_told(self, shop):
        await books(shop, lambda b: b.book_fact(fact(CHARGEBACK, 400)))

        assert await books(shop, lambda b: b.book_fact(fact(REVERSED, 9_999))) == fits()
        assert await books(shop, lambda b: b.book_fact(fact(REVERSED, 400))) is None

        assert (await payment(shop)).charged_back_minor == 0

    async def test_what_was_not_charged_back_cannot_be_reversed(self, shop):
        await books(shop, lambda b: b.book_fact(fact(CHARGEBACK, 400, "dp_1")))

        assert await books(shop, lambda b: b.book_fact(fact(REVERSED, 400, "dp_2"))) is None
        assert (await payment(shop)).charged_back_minor == 400

    async def test_after_it_was_all_refunded_it_is_overdrawn_until_it_is_reversed(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 1_000)))
        await books(shop, lambda b: b.settle(make_posting("r1", 1_000)))
        assert await books(shop, lambda b: b.book_fact(fact(CHARGEBACK, 1_000))) == fits(1_000)

        assert await books(shop, lambda b: b.book_fact(fact(REVERSED, 1_000))) == fits()

        found = await payment(shop)
        assert (found.overdrawn_minor, found.frozen) == (0, True)  # a person lets it go on

    async def test_an_external_and_a_chargeback_may_have_the_same_reference(self, shop):
        await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 400, "x")))

        assert await books(shop, lambda b: b.book_fact(fact(CHARGEBACK, 400, "x"))) == fits()


class TestReverse:
    async def test_what_failed_late_may_be_refunded_again(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 1_000, units=10)))
        await books(shop, lambda b: b.settle(make_posting("r1", 1_000, units=10)))

        await books(shop, lambda b: b.reverse(make_posting("r1", 1_000, units=10)))

        assert (await payment(shop)).refunded_minor == 0
        again = make_posting("r1", 1_000, units=10, round=2)
        assert await books(shop, lambda b: b.reserve(again)) == 1_000
        await books(shop, lambda b: b.settle(again))
        await books(shop, lambda b: b.reverse(again))

    async def test_what_was_paid_by_hand_too(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 400)))
        await books(shop, lambda b: b.settle(make_posting("r1", 400), by_hand=True))

        await books(shop, lambda b: b.reverse(make_posting("r1", 400)))

        assert (await payment(shop)).refunded_minor == 0

    async def test_twice_is_refused_though_others_refunded_enough(self, shop):
        for name in ("r1", "r2"):
            await books(shop, lambda b, n=name: b.reserve(make_posting(n, 400)))
            await books(shop, lambda b, n=name: b.settle(make_posting(n, 400)))
        await books(shop, lambda b: b.reverse(make_posting("r1", 400)))

        with pytest.raises(ReserveMissing):
            await books(shop, lambda b: b.reverse(make_posting("r1", 400, round=2)))
        assert (await payment(shop)).refunded_minor == 400

    @pytest.mark.parametrize("held", [True, False])
    async def test_what_was_not_settled_is_refused(self, shop, held):
        await books(shop, lambda b: b.book_fact(fact(EXTERNAL, 500)))
        if held:
            await books(shop, lambda b: b.reserve(make_posting("r1", 400)))

        with pytest.raises(ReserveMissing):
            await books(shop, lambda b: b.reverse(make_posting("r1", 400)))


class TestDisputed:
    async def test_the_shop_and_the_gateway_each_have_their_word(self, shop):
        assert await books(shop, lambda b: b.set_disputed(REF, disputed=True)) == "A1"
        await books(shop, lambda b: b.sync(ORDER))  # the shop knows of no dispute

        assert (await payment(shop)).disputed
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 1))) is Shortage.PAYMENT

        by_shop = make_order((make_line("1", 1_000, 10),), (replace(PAID, disputed=True),))
        await books(shop, lambda b: b.sync(by_shop))
        await books(shop, lambda b: b.set_disputed(REF, disputed=False))
        assert (await payment(shop)).disputed

        await books(shop, lambda b: b.sync(ORDER))
        assert not (await payment(shop)).disputed

    async def test_a_payment_we_do_not_know(self, shop):
        unknown = replace(REF, gateway_payment_id="other")

        assert await books(shop, lambda b: b.set_disputed(unknown, disputed=True)) is None


amounts = st.integers(1, 700)
names = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("fact"), st.sampled_from(list(FactKind)), amounts, names),
    st.tuples(st.sampled_from(["reserve", "release", "settle", "manual", "reverse"]), names),
)


@given(played=st.lists(steps, max_size=30))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_after_any_sequence_counters_are_the_sums_and_nothing_is_lost(sqlite_template, played):
    url = make_url(f"sqlite:///{sqlite_template}")
    engine = sqlite_engine(url, begin="BEGIN IMMEDIATE", busy_timeout_s=5)
    rounds = {"a": 1, "b": 1, "c": 1}
    with engine.connect() as connection, connection.begin() as transaction:
        found = SqlBooks(connection)
        found.sync(ORDER)
        for step, *arguments in played:
            play(found, rounds, step, *arguments)
            assert found.check() == ()
            (row,) = found.of_order("A1").payments
            gone = row.reserved_minor + row.refunded_minor + row.charged_back_minor
            assert gone <= 1_000 + row.overdrawn_minor
            assert row.frozen or row.overdrawn_minor == 0
        transaction.rollback()
    engine.dispose()


def play(found: SqlBooks, rounds: dict[str, int], step: str, *arguments: Any) -> None:
    if step == "fact":
        kind, amount, name = arguments
        before = found.of_order("A1").payments[0].overdrawn_minor
        booked = found.book_fact(fact(kind, amount, name))
        assert booked is None or booked.overdrawn_minor <= amount
        after = found.of_order("A1").payments[0].overdrawn_minor
        assert booked is None or after <= before + booked.overdrawn_minor
        return
    (name,) = arguments
    posting = make_posting(name, 300, round=rounds[name])
    try:
        with found._connection.begin_nested():
            if step == "reserve":
                if found.holds(posting):
                    return
                posting = replace(posting, round=rounds[name] + 1)
                if not isinstance(found.reserve(posting), Shortage):
                    rounds[name] += 1
            elif step == "manual":
                found.settle(posting, by_hand=True)
            else:
                getattr(found, step)(posting)
    except ReserveMissing:
        return

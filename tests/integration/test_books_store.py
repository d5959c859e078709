"""Balances and ledger on real databases: limits hold under races, counters are their entries' sums."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import TypeVar

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.domain.errors import InvalidInput, ReserveMissing
from support_agent.domain.orders import OVERPAID
from support_agent.domain.policy import LineBalance, OrderBooks, PaymentBalance
from support_agent.domain.refunds import RefundLine
from support_agent.ports.storage import CapKey, CapScope, Mismatch, Shortage
from support_agent.testing.builders import make_line, make_order, make_payment, make_posting

T = TypeVar("T")
DAY = date(2026, 10, 13)

ENTRY = (
    "INSERT INTO ledger_entries"
    " (kind, account_kind, account_id, sub_id, round, amount_minor, units, currency, at)"
)
SIMPLE = make_order((make_line("1", 1_000_000, 10),), (make_payment("P1", 1_000_000),))


async def books(database: SqlDatabase, fn: Callable[[SqlBooks], T]) -> T:
    """Run on the books in a transaction, and leave only if they still add up."""

    def checked(tx: object) -> T:
        result = fn(tx.books)
        assert tx.books.check() == ()
        return result

    return await database.transact(checked)


@pytest.fixture
async def shop(database: SqlDatabase) -> SqlDatabase:
    """A database whose books know SIMPLE."""
    await books(database, lambda b: b.sync(SIMPLE))
    return database


class TestReserve:
    async def test_returns_the_cumulative_amount_of_the_order(self, shop):
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 300_000))) == 300_000
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 200_000))) == 500_000
        await books(shop, lambda b: b.settle(make_posting("r1", 300_000)))

        assert await books(shop, lambda b: b.reserve(make_posting("r3", 1))) == 500_001

    async def test_fills_a_payment_to_the_last_unit_and_no_further(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 999_999)))

        assert await books(shop, lambda b: b.reserve(make_posting("r2", 2))) is Shortage.ORDER
        assert await books(shop, lambda b: b.reserve(make_posting("r3", 1))) == 1_000_000

    async def test_a_shortage_changes_nothing_even_if_the_caller_goes_on(self, shop):
        two = make_order(
            (make_line("1", 900_000), make_line("2", 100_000)),
            (make_payment("P1", 1_000_000, order_id="A2"),),
            id="A2",
        )
        wanted = make_posting(
            "r1",
            300_000,
            order_id="A2",
            lines=(
                RefundLine(line_id="1", units=0, amount_minor=150_000),
                RefundLine(line_id="2", units=0, amount_minor=150_000),
            ),
        )
        await books(
            shop,
            lambda b: b.sync(two),
        )
        before = await books(shop, lambda b: b.of_order("A2"))

        assert await books(shop, lambda b: b.reserve(wanted)) is Shortage.LINE
        assert await books(shop, lambda b: b.of_order("A2")) == before

    async def test_the_third_return_of_a_line_of_two_is_refused(self, database):
        await books(
            database,
            lambda b: b.sync(
                make_order((make_line("1", 500_000, 2),), (make_payment("P1", 500_000),))
            ),
        )
        for request_id in ("r1", "r2"):
            assert isinstance(
                await books(
                    database, lambda b, r=request_id: b.reserve(make_posting(r, 100_000, units=1))
                ),
                int,
            )

        assert (
            await books(database, lambda b: b.reserve(make_posting("r3", 100_000, units=1)))
            is Shortage.LINE
        )

    @pytest.mark.parametrize(
        ("changes", "short"),
        [
            ({"order_id": "A9"}, Shortage.ORDER),
            ({"lines": (RefundLine(line_id="9", units=0, amount_minor=10),)}, Shortage.LINE),
            ({"payment_id": "P9"}, Shortage.PAYMENT),
            ({"currency": "USD"}, Shortage.ORDER),
        ],
        ids=["order", "line", "payment", "currency"],
    )
    async def test_what_the_books_do_not_know_is_short(self, shop, changes, short):
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 10, **changes))) is short

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE payment_balances SET disputed = true",
            "UPDATE payment_balances SET frozen = true",
            "UPDATE payment_balances SET currency = 'USD'",
            "UPDATE payment_balances SET captured_minor = 9",
            # What was overdrawn is gone: it gives no room.
            "UPDATE payment_balances SET captured_minor = 0, overdrawn_minor = 1000000",
        ],
    )
    async def test_a_payment_that_cannot_give_is_short(self, shop, statement):
        await shop.run_write(lambda c: c.execute(sa.text(statement)))

        assert await books(shop, lambda b: b.reserve(make_posting("r1", 10))) is Shortage.PAYMENT

    async def test_an_overdrawn_order_is_short(self, shop):
        statement = "UPDATE order_balances SET captured_minor = 0, overdrawn_minor = 1000000"
        await shop.run_write(lambda c: c.execute(sa.text(statement)))

        assert await books(shop, lambda b: b.reserve(make_posting("r1", 10))) is Shortage.ORDER

    async def test_a_payment_charged_back_gives_only_the_rest(self, shop):
        def charge_back(connection: sa.Connection) -> None:
            connection.execute(sa.text("UPDATE payment_balances SET charged_back_minor = 400000"))
            connection.execute(
                sa.text(
                    ENTRY
                    + " VALUES ('CHARGEBACK', 'payment', 'A1', 'P1', 1, 400000, 0, 'VND', '2026-10-13 00:00:00.000000')"
                )
            )

        await shop.run_write(charge_back)

        assert (
            await books(shop, lambda b: b.reserve(make_posting("r1", 600_001))) is Shortage.PAYMENT
        )
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 600_000))) == 600_000

    @pytest.mark.parametrize("amount", [0, -1])
    async def test_nothing_or_less_is_refused(self, shop, amount):
        with pytest.raises(InvalidInput, match="amount"):
            await books(shop, lambda b: b.reserve(make_posting("r1", amount)))

    async def test_lines_that_do_not_add_up_are_refused(self, shop):
        with pytest.raises(InvalidInput, match="lines"):
            await books(shop, lambda b: b.reserve(replace(make_posting("r1", 10), amount_minor=11)))

    async def test_the_same_posting_twice_is_refused_though_there_is_room(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 10)))

        with pytest.raises(IntegrityError):
            await books(shop, lambda b: b.reserve(make_posting("r1", 10)))
        assert (await books(shop, lambda b: b.of_order("A1"))).taken_minor == 10


class TestReleaseAndSettle:
    async def test_released_room_can_be_taken_again(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 1_000_000, units=10)))
        await books(shop, lambda b: b.release(make_posting("r1", 1_000_000, units=10)))

        assert (
            await books(shop, lambda b: b.reserve(make_posting("r2", 1_000_000, units=10)))
            == 1_000_000
        )

    async def test_settled_room_cannot(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 1_000_000, units=10)))
        await books(shop, lambda b: b.settle(make_posting("r1", 1_000_000, units=10)))

        found = await books(shop, lambda b: b.of_order("A1"))
        assert found.payments[0].refunded_minor == 1_000_000
        assert found.payments[0].reserved_minor == 0
        assert found.lines[0].units_taken == 10
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 1))) is Shortage.ORDER

    async def test_a_later_round_ends_the_reserve_of_an_earlier_one(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 10)))
        await books(shop, lambda b: b.settle(make_posting("r1", 10, round=3)))

        assert (await books(shop, lambda b: b.of_order("A1"))).payments[0].refunded_minor == 10

    @pytest.mark.parametrize("second", ["release", "settle"])
    @pytest.mark.parametrize("first", ["release", "settle"])
    async def test_a_reserve_ends_once_though_others_hold_enough(self, shop, first, second):
        await books(shop, lambda b: b.reserve(make_posting("other", 500_000, units=5)))
        await books(shop, lambda b: b.reserve(make_posting("r1", 10, units=1)))
        await books(shop, lambda b: getattr(b, first)(make_posting("r1", 10, units=1)))
        before = await books(shop, lambda b: b.of_order("A1"))

        with pytest.raises(ReserveMissing):
            await books(
                shop, lambda b: getattr(b, second)(make_posting("r1", 10, units=1, round=2))
            )
        assert await books(shop, lambda b: b.of_order("A1")) == before

    @pytest.mark.parametrize("end", ["release", "settle"])
    @pytest.mark.parametrize(
        "wrong",
        [
            make_posting("r1", 9, units=1),
            make_posting("r1", 10, units=0),
            make_posting("r9", 10, units=1),
        ],
        ids=["amount", "units", "request"],
    )
    async def test_only_what_is_held_can_be_ended(self, shop, end, wrong):
        await books(shop, lambda b: b.reserve(make_posting("other", 500_000, units=5)))
        await books(shop, lambda b: b.reserve(make_posting("r1", 10, units=1)))

        with pytest.raises(ReserveMissing):
            await books(shop, lambda b: getattr(b, end)(wrong))

    async def test_own_reserve_can_be_left_out_of_the_books(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 100_000, units=1)))
        await books(shop, lambda b: b.reserve(make_posting("r2", 200_000, units=2)))

        assert await books(shop, lambda b: b.of_order("A1", without_request="r1")) == OrderBooks(
            lines=(
                LineBalance(
                    line_id="1",
                    total_minor=1_000_000,
                    quantity=10,
                    reserved_minor=200_000,
                    units_taken=2,
                ),
            ),
            payments=(
                PaymentBalance(payment_id="P1", captured_minor=1_000_000, reserved_minor=200_000),
            ),
        )
        assert (await books(shop, lambda b: b.of_order("A1"))).taken_minor == 300_000
        assert (
            await books(shop, lambda b: b.of_order("A1", without_request="r9"))
        ).taken_minor == 300_000

    async def test_an_order_nobody_synced_has_empty_books(self, shop):
        assert await books(shop, lambda b: b.of_order("A9")) == OrderBooks()


class TestSync:
    async def test_raises_what_grew_and_lowers_nothing(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 800_000, units=8)))
        smaller = make_order((make_line("1", 100_000, 1),), (make_payment("P1", 100_000),))
        larger = make_order(
            (make_line("1", 1_500_000, 15), make_line("2", 5)),
            (make_payment("P1", 1_200_000), make_payment("P2", 300_000)),
        )

        await books(shop, lambda b: b.sync(smaller))
        assert (await books(shop, lambda b: b.of_order("A1"))).payments[
            0
        ].captured_minor == 1_000_000
        await books(shop, lambda b: b.sync(larger))
        grown = await books(shop, lambda b: b.of_order("A1"))

        assert [p.captured_minor for p in grown.payments] == [1_200_000, 300_000]
        assert [(x.total_minor, x.quantity) for x in grown.lines] == [(1_500_000, 15), (5, 1)]
        assert grown.taken_minor == 800_000

    async def test_an_order_holds_the_sum_of_its_payments_in_its_own_currency(self, database):
        mixed = make_order(
            (make_line("1", 900),),
            (
                make_payment("P1", 500),
                make_payment("P2", 300),
                make_payment("P3", 700, currency="USD"),
            ),
        )
        await books(database, lambda b: b.sync(mixed))

        captured = await database.run_read(
            lambda c: c.scalar(sa.text("SELECT captured_minor FROM order_balances"))
        )
        assert captured == 800

    async def test_a_payment_that_vanished_at_the_shop_still_counts(self, shop):
        await books(
            shop,
            lambda b: b.sync(
                make_order((make_line("1", 1_000_000, 10),), (make_payment("P2", 50),))
            ),
        )

        captured = await shop.run_read(
            lambda c: c.scalar(sa.text("SELECT captured_minor FROM order_balances"))
        )
        assert captured == 1_000_050

    async def test_more_units_for_less_money_raise_the_units_only(self, shop):
        cheaper = make_order((make_line("1", 500_000, 20),), (make_payment("P1", 1_000_000),))
        await books(shop, lambda b: b.sync(cheaper))

        overpaid, line = (await books(shop, lambda b: b.of_order("A1"))).lines
        assert (line.total_minor, line.quantity) == (1_000_000, 20)
        assert (overpaid.line_id, overpaid.total_minor, overpaid.quantity) == (OVERPAID, 500_000, 0)

    async def test_a_dispute_is_seen_though_the_shop_tells_a_smaller_amount(self, shop):
        smaller = make_payment("P1", 400_000, disputed=True)
        await books(
            shop, lambda b: b.sync(make_order((make_line("1", 1_000_000, 10),), (smaller,)))
        )

        found = (await books(shop, lambda b: b.of_order("A1"))).payments[0]
        assert (found.captured_minor, found.disputed) == (1_000_000, True)

    async def test_a_dispute_comes_and_goes(self, shop):
        disputed = make_order(
            (make_line("1", 1_000_000, 10),), (make_payment("P1", 1_000_000, disputed=True),)
        )
        await books(shop, lambda b: b.sync(disputed))
        assert await books(shop, lambda b: b.reserve(make_posting("r1", 10))) is Shortage.PAYMENT

        await books(shop, lambda b: b.sync(SIMPLE))
        assert await books(shop, lambda b: b.reserve(make_posting("r2", 10))) == 10

    async def test_one_payment_under_two_orders_is_booked_once(self, shop):
        stolen = replace(SIMPLE, id="A2")  # the same gateway payment
        await books(shop, lambda b: b.sync(stolen))

        assert (await books(shop, lambda b: b.of_order("A2"))).payments == ()
        assert (
            await books(shop, lambda b: b.reserve(make_posting("r1", 10, order_id="A2")))
            is Shortage.PAYMENT
        )

    async def test_payments_are_numbered_within_their_order(self, shop):
        await books(
            shop,
            lambda b: b.sync(
                make_order((make_line("1", 5),), (make_payment("P1", 5, order_id="A2"),), id="A2")
            ),
        )

        assert (await books(shop, lambda b: b.of_order("A2"))).payments[0].captured_minor == 5

    async def test_a_line_that_is_a_discount_gives_nothing_back(self, database):
        odd = replace(make_line("2", 10), discount_minor=500)
        await books(
            database,
            lambda b: b.sync(make_order((make_line("1", 600), odd), (make_payment("P1", 110),))),
        )

        assert [
            x.total_minor for x in (await books(database, lambda b: b.of_order("A1"))).lines
        ] == [600, 0]

    async def test_many_at_once_on_a_new_order_all_succeed(self, database):
        await asyncio.gather(*(books(database, lambda b: b.sync(SIMPLE)) for _ in range(6)))

        assert (await books(database, lambda b: b.of_order("A1"))).payments[
            0
        ].captured_minor == 1_000_000


class TestCaps:
    KEY = CapKey(scope=CapScope.CUSTOMER, subject="C:1/x", day=DAY, currency="VND")

    async def test_is_full_at_its_limit(self, shop):
        assert await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("r1", 60), limit=100)
        )
        assert not await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("r2", 41), limit=100)
        )
        assert await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("r3", 40), limit=100)
        )
        assert await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("r4", 10**12), limit=None)
        )

    async def test_is_counted_by_subject_day_currency_and_scope(self, shop):
        keys = [
            self.KEY,
            replace(self.KEY, subject="C:2"),
            replace(self.KEY, day=date(2026, 10, 14)),
            replace(self.KEY, scope=CapScope.APPROVER),
        ]
        for key in keys:
            assert await books(
                shop, lambda b, k=key: b.take_cap(k, posting=make_posting("r1", 100), limit=100)
            )
        dollars = replace(self.KEY, currency="USD")
        assert await books(
            shop,
            lambda b: b.take_cap(
                dollars, posting=make_posting("r2", 100, currency="USD"), limit=100
            ),
        )
        with pytest.raises(InvalidInput, match="currency"):
            await books(
                shop, lambda b: b.take_cap(dollars, posting=make_posting("r3", 1), limit=None)
            )

    async def test_adds_up_the_days_asked_for(self, shop):
        for day, amount in ((13, 1), (1, 20), (14, 300), (30, 4000)):
            month = 9 if day == 30 else 10
            key = replace(self.KEY, day=date(2026, month, day))
            await books(
                shop,
                lambda b, k=key, a=amount: b.take_cap(
                    k, posting=make_posting(f"r{a}", a), limit=None
                ),
            )

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=date(2026, 10, 1))) == 21
        assert await books(shop, lambda b: b.cap_used(self.KEY, since=date(2026, 9, 30))) == 4021
        assert (
            await books(
                shop, lambda b: b.cap_used(replace(self.KEY, subject="C9"), since=date(2026, 1, 1))
            )
            == 0
        )

    async def test_they_are_given_back_over_all_rounds_once(self, shop):
        shop_key = replace(self.KEY, scope=CapScope.INSTALLATION, subject="installation")
        await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("other", 7), limit=None)
        )
        await books(shop, lambda b: b.reserve(make_posting("r1", 100)))
        for number, key in enumerate((self.KEY, shop_key, self.KEY), start=1):
            await books(
                shop,
                lambda b, k=key, n=number: b.take_cap(
                    k, posting=make_posting("r1", 100, round=n), limit=None
                ),
            )

        for _ in range(2):
            await books(shop, lambda b: b.give_back_caps(make_posting("r1", 100, round=3)))
            assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 7
            assert await books(shop, lambda b: b.cap_used(shop_key, since=DAY)) == 0

    @pytest.mark.parametrize("first", ["release", "give_back_caps"])
    async def test_the_reserve_and_the_caps_go_apart_in_any_order(self, shop, first: str):
        posting = make_posting("r1", 100)
        await books(shop, lambda b: b.reserve(posting))
        await books(shop, lambda b: b.take_cap(self.KEY, posting=posting, limit=None))
        for step in sorted(("release", "give_back_caps"), key=lambda name: name != first):
            await books(shop, lambda b, s=step: getattr(b, s)(posting))

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 0
        assert await books(shop, lambda b: b.check()) == ()

    async def test_what_was_paid_stays_counted(self, shop):
        await books(shop, lambda b: b.reserve(make_posting("r1", 100)))
        await books(
            shop, lambda b: b.take_cap(self.KEY, posting=make_posting("r1", 100), limit=None)
        )
        await books(shop, lambda b: b.settle(make_posting("r1", 100)))

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 100


class Undo(Exception):
    """Raised inside a transaction to undo it."""


# What a hand in the database does, and what is found: account, counter, stored, ledger.
TAMPERED = (
    (
        "UPDATE order_balances SET reserved_minor = 101",
        ("order A1", "reserved_minor", 101, 100),
    ),
    ("UPDATE order_balances SET refunded_minor = 1", ("order A1", "refunded_minor", 1, 0)),
    (
        "UPDATE line_balances SET reserved_minor = 99",
        ("line A1/1", "reserved_minor", 99, 100),
    ),
    ("UPDATE line_balances SET reserved_units = 3", ("line A1/1", "reserved_units", 3, 2)),
    ("UPDATE line_balances SET refunded_units = 1", ("line A1/1", "refunded_units", 1, 0)),
    (
        "UPDATE payment_balances SET refunded_minor = 5",
        ("payment A1/P1", "refunded_minor", 5, 0),
    ),
    (
        "UPDATE payment_balances SET charged_back_minor = 5",
        ("payment A1/P1", "charged_back_minor", 5, 0),
    ),
    (
        "UPDATE cap_counters SET used_minor = 7",
        ("cap customer:C1/2026-10-13/VND", "used_minor", 7, 100),
    ),
    ("DELETE FROM cap_counters", ("cap customer:C1/2026-10-13/VND", "row", 0, 1)),
    ("DELETE FROM payment_balances", ("payment A1/P1", "row", 0, 1)),
    (
        "INSERT INTO order_balances (order_id, customer_id, currency, captured_minor, refunded_minor) VALUES ('A2', 'C1', 'VND', 9, 9)",
        ("order A2", "refunded_minor", 9, 0),
    ),
    (
        ENTRY
        + " VALUES ('EXTERNAL', 'order', 'A1', '', 1, 4, 0, 'VND', '2026-10-13 00:00:00.000000')",
        ("order A1", "refunded_minor", 0, 4),
    ),
)


async def test_the_check_finds_a_hand_in_the_database_whichever_counter_it_moved(shop):
    key = CapKey(scope=CapScope.CUSTOMER, subject="C1", day=DAY, currency="VND")
    await books(shop, lambda b: b.reserve(make_posting("r1", 100, units=2)))
    await books(shop, lambda b: b.take_cap(key, posting=make_posting("r1", 100), limit=None))

    def tampered(connection: sa.Connection, statement: str, found: list[Mismatch]) -> None:
        connection.execute(sa.text(statement))
        found.extend(SqlBooks(connection).check())
        raise Undo

    for statement, (account, counter, stored, ledger) in TAMPERED:
        found: list[Mismatch] = []
        with pytest.raises(Undo):
            await shop.run_write(lambda c, s=statement, f=found: tampered(c, s, f))
        wanted = Mismatch(account=account, counter=counter, stored=stored, ledger=ledger)
        assert found[:1] == [wanted], statement


IMPOSSIBLE = (
    "UPDATE order_balances SET reserved_minor = 1000001",
    "UPDATE order_balances SET reserved_minor = -1",
    "UPDATE order_balances SET refunded_minor = -1",
    "UPDATE order_balances SET captured_minor = -1",
    "UPDATE order_balances SET overdrawn_minor = -1",
    "UPDATE line_balances SET refunded_minor = 1000001",
    "UPDATE line_balances SET refunded_units = 11",
    "UPDATE line_balances SET reserved_units = -1",
    "UPDATE payment_balances SET reserved_minor = 500000, charged_back_minor = 500001",
    "UPDATE payment_balances SET charged_back_minor = -1",
    "INSERT INTO cap_counters (scope, subject, day, currency, used_minor) VALUES ('customer', 'C1', '2026-10-13', 'VND', -1)",
    "INSERT INTO cap_counters (scope, subject, day, currency, used_minor) VALUES ('nobody', 'C1', '2026-10-13', 'VND', 1)",
    ENTRY + " VALUES ('GIFT', 'order', 'A1', '', 1, 4, 0, 'VND', '2026-10-13 00:00:00.000000')",
    ENTRY + " VALUES ('SETTLE', 'order', 'A1', '', 1, -4, 0, 'VND', '2026-10-13 00:00:00.000000')",
)


async def test_the_schema_refuses_what_cannot_be(shop):
    for statement in IMPOSSIBLE:
        with pytest.raises(IntegrityError):
            await shop.run_write(lambda c, s=statement: c.execute(sa.text(s)))

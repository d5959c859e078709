"""Balances and ledger on real databases: limits hold under races, counters are their entries' sums."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TypeVar

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.domain.errors import InvalidInput, ReserveMissing
from support_agent.domain.orders import Order, OrderLine, OrderStatus, Payment, PaymentMethod
from support_agent.domain.policy import LineBalance, OrderBooks, PaymentBalance
from support_agent.domain.refunds import RefundLine
from support_agent.ports.storage import CapKey, CapScope, Mismatch, Posting, Shortage

T = TypeVar("T")
NOW = datetime(2026, 10, 13, 3, 0, tzinfo=UTC)
DAY = date(2026, 10, 13)


class Undo(Exception):
    """Raised inside a transaction to undo it, as a use case does after a refused guard."""


def line(line_id: str, total: int, quantity: int = 1) -> OrderLine:
    return OrderLine(
        id=line_id,
        name="Áo",
        quantity=quantity,
        unit_price_minor=total // quantity,
        discount_minor=0,
        category="c",
    )


def payment(
    payment_id: str,
    captured: int,
    *,
    order_id: str = "A1",
    currency: str = "VND",
    disputed: bool = False,
) -> Payment:
    return Payment(
        id=payment_id,
        gateway="ledger",
        account="shop",
        gateway_payment_id=f"{order_id}-{payment_id}",
        method=PaymentMethod.CARD,
        captured_minor=captured,
        currency=currency,
        disputed=disputed,
    )


def order(
    lines: tuple[OrderLine, ...],
    payments: tuple[Payment, ...],
    *,
    order_id: str = "A1",
    currency: str = "VND",
) -> Order:
    return Order(
        id=order_id,
        customer_id="C1",
        status=OrderStatus.DELIVERED,
        currency=currency,
        placed_at=NOW,
        lines=lines,
        payments=payments,
    )


SIMPLE = order((line("1", 1_000_000, 10),), (payment("P1", 1_000_000),))


def posting(request_id: str, amount: int, *, units: int = 0, **changes: object) -> Posting:
    plain = Posting(
        request_id=request_id,
        round=1,
        order_id="A1",
        payment_id="P1",
        lines=(RefundLine(line_id="1", units=units, amount_minor=amount),),
        amount_minor=amount,
        currency="VND",
        at=NOW,
    )
    return replace(plain, **changes)


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
        assert await books(shop, lambda b: b.reserve(posting("r1", 300_000))) == 300_000
        assert await books(shop, lambda b: b.reserve(posting("r2", 200_000))) == 500_000
        await books(shop, lambda b: b.settle(posting("r1", 300_000)))

        assert await books(shop, lambda b: b.reserve(posting("r3", 1))) == 500_001

    async def test_fills_a_payment_to_the_last_unit_and_no_further(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 999_999)))

        assert await books(shop, lambda b: b.reserve(posting("r2", 2))) is Shortage.ORDER
        assert await books(shop, lambda b: b.reserve(posting("r3", 1))) == 1_000_000

    async def test_a_shortage_changes_nothing_even_if_the_caller_goes_on(self, shop):
        two = order(
            (line("1", 900_000), line("2", 100_000)), (payment("P1", 1_000_000),), order_id="A2"
        )
        wanted = posting(
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
            lambda b: b.sync(replace(two, payments=(payment("P1", 1_000_000, order_id="A2"),))),
        )
        before = await books(shop, lambda b: b.of_order("A2"))

        assert await books(shop, lambda b: b.reserve(wanted)) is Shortage.LINE
        assert await books(shop, lambda b: b.of_order("A2")) == before

    async def test_the_third_return_of_a_line_of_two_is_refused(self, database):
        await books(
            database, lambda b: b.sync(order((line("1", 500_000, 2),), (payment("P1", 500_000),)))
        )
        for request_id in ("r1", "r2"):
            assert isinstance(
                await books(
                    database, lambda b, r=request_id: b.reserve(posting(r, 100_000, units=1))
                ),
                int,
            )

        assert (
            await books(database, lambda b: b.reserve(posting("r3", 100_000, units=1)))
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
        assert await books(shop, lambda b: b.reserve(posting("r1", 10, **changes))) is short

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

        assert await books(shop, lambda b: b.reserve(posting("r1", 10))) is Shortage.PAYMENT

    async def test_an_overdrawn_order_is_short(self, shop):
        statement = "UPDATE order_balances SET captured_minor = 0, overdrawn_minor = 1000000"
        await shop.run_write(lambda c: c.execute(sa.text(statement)))

        assert await books(shop, lambda b: b.reserve(posting("r1", 10))) is Shortage.ORDER

    async def test_a_payment_charged_back_gives_only_the_rest(self, shop):
        def charge_back(connection: sa.Connection) -> None:
            connection.execute(sa.text("UPDATE payment_balances SET charged_back_minor = 400000"))
            connection.execute(
                sa.text(
                    "INSERT INTO ledger_entries (kind, account_kind, account_id, sub_id, round, amount_minor, units, currency, at)"
                    " VALUES ('CHARGEBACK', 'payment', 'A1', 'P1', 1, 400000, 0, 'VND', '2026-10-13 00:00:00.000000')"
                )
            )

        await shop.run_write(charge_back)

        assert await books(shop, lambda b: b.reserve(posting("r1", 600_001))) is Shortage.PAYMENT
        assert await books(shop, lambda b: b.reserve(posting("r2", 600_000))) == 600_000

    @pytest.mark.parametrize("amount", [0, -1])
    async def test_nothing_or_less_is_refused(self, shop, amount):
        with pytest.raises(InvalidInput, match="amount"):
            await books(shop, lambda b: b.reserve(posting("r1", amount)))

    async def test_lines_that_do_not_add_up_are_refused(self, shop):
        with pytest.raises(InvalidInput, match="lines"):
            await books(shop, lambda b: b.reserve(posting("r1", 10, amount_minor=11)))

    async def test_the_same_posting_twice_is_refused_though_there_is_room(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 10)))

        with pytest.raises(IntegrityError):
            await books(shop, lambda b: b.reserve(posting("r1", 10)))
        assert (await books(shop, lambda b: b.of_order("A1"))).taken_minor == 10


class TestReleaseAndSettle:
    async def test_released_room_can_be_taken_again(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 1_000_000, units=10)))
        await books(shop, lambda b: b.release(posting("r1", 1_000_000, units=10)))

        assert (
            await books(shop, lambda b: b.reserve(posting("r2", 1_000_000, units=10))) == 1_000_000
        )

    async def test_settled_room_cannot(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 1_000_000, units=10)))
        await books(shop, lambda b: b.settle(posting("r1", 1_000_000, units=10)))

        found = await books(shop, lambda b: b.of_order("A1"))
        assert found.payments[0].refunded_minor == 1_000_000
        assert found.payments[0].reserved_minor == 0
        assert found.lines[0].units_taken == 10
        assert await books(shop, lambda b: b.reserve(posting("r2", 1))) is Shortage.ORDER

    async def test_a_later_round_ends_the_reserve_of_an_earlier_one(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 10)))
        await books(shop, lambda b: b.settle(posting("r1", 10, round=3)))

        assert (await books(shop, lambda b: b.of_order("A1"))).payments[0].refunded_minor == 10

    @pytest.mark.parametrize("second", ["release", "settle"])
    @pytest.mark.parametrize("first", ["release", "settle"])
    async def test_a_reserve_ends_once_though_others_hold_enough(self, shop, first, second):
        await books(shop, lambda b: b.reserve(posting("other", 500_000, units=5)))
        await books(shop, lambda b: b.reserve(posting("r1", 10, units=1)))
        await books(shop, lambda b: getattr(b, first)(posting("r1", 10, units=1)))
        before = await books(shop, lambda b: b.of_order("A1"))

        with pytest.raises(ReserveMissing):
            await books(shop, lambda b: getattr(b, second)(posting("r1", 10, units=1, round=2)))
        assert await books(shop, lambda b: b.of_order("A1")) == before

    @pytest.mark.parametrize("end", ["release", "settle"])
    @pytest.mark.parametrize(
        "changes",
        [
            {"amount_minor": 9, "lines": (RefundLine(line_id="1", units=1, amount_minor=9),)},
            {"lines": (RefundLine(line_id="1", units=0, amount_minor=10),)},
            {"request_id": "r9"},
        ],
    )
    async def test_only_what_is_held_can_be_ended(self, shop, end, changes):
        await books(shop, lambda b: b.reserve(posting("other", 500_000, units=5)))
        await books(shop, lambda b: b.reserve(posting("r1", 10, units=1)))

        with pytest.raises(ReserveMissing):
            await books(
                shop,
                lambda b: getattr(b, end)(
                    posting("r1", 10, units=1, **changes)
                    if "amount_minor" not in changes
                    else replace(posting("r1", 10), **changes)
                ),
            )

    async def test_own_reserve_can_be_left_out_of_the_books(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 100_000, units=1)))
        await books(shop, lambda b: b.reserve(posting("r2", 200_000, units=2)))

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
        await books(shop, lambda b: b.reserve(posting("r1", 800_000, units=8)))
        smaller = order((line("1", 100_000, 1),), (payment("P1", 100_000),))
        larger = order(
            (line("1", 1_500_000, 15), line("2", 5)),
            (payment("P1", 1_200_000), payment("P2", 300_000)),
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
        mixed = order(
            (line("1", 900),),
            (payment("P1", 500), payment("P2", 300), payment("P3", 700, currency="USD")),
        )
        await books(database, lambda b: b.sync(mixed))

        captured = await database.run_read(
            lambda c: c.scalar(sa.text("SELECT captured_minor FROM order_balances"))
        )
        assert captured == 800

    async def test_a_payment_that_vanished_at_the_shop_still_counts(self, shop):
        await books(
            shop, lambda b: b.sync(order((line("1", 1_000_000, 10),), (payment("P2", 50),)))
        )

        captured = await shop.run_read(
            lambda c: c.scalar(sa.text("SELECT captured_minor FROM order_balances"))
        )
        assert captured == 1_000_050

    async def test_a_dispute_comes_and_goes(self, shop):
        disputed = order((line("1", 1_000_000, 10),), (payment("P1", 1_000_000, disputed=True),))
        await books(shop, lambda b: b.sync(disputed))
        assert await books(shop, lambda b: b.reserve(posting("r1", 10))) is Shortage.PAYMENT

        await books(shop, lambda b: b.sync(SIMPLE))
        assert await books(shop, lambda b: b.reserve(posting("r2", 10))) == 10

    async def test_one_payment_under_two_orders_is_booked_once(self, shop):
        stolen = replace(SIMPLE, id="A2")  # the same gateway payment
        await books(shop, lambda b: b.sync(stolen))

        assert (await books(shop, lambda b: b.of_order("A2"))).payments == ()
        assert (
            await books(shop, lambda b: b.reserve(posting("r1", 10, order_id="A2")))
            is Shortage.PAYMENT
        )

    async def test_payments_are_numbered_within_their_order(self, shop):
        await books(
            shop,
            lambda b: b.sync(
                order((line("1", 5),), (payment("P1", 5, order_id="A2"),), order_id="A2")
            ),
        )

        assert (await books(shop, lambda b: b.of_order("A2"))).payments[0].captured_minor == 5

    async def test_a_line_that_is_a_discount_gives_nothing_back(self, database):
        odd = replace(line("2", 10), discount_minor=500)
        await books(database, lambda b: b.sync(order((line("1", 600), odd), (payment("P1", 110),))))

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
            shop, lambda b: b.take_cap(self.KEY, posting=posting("r1", 60), limit=100)
        )
        assert not await books(
            shop, lambda b: b.take_cap(self.KEY, posting=posting("r2", 41), limit=100)
        )
        assert await books(
            shop, lambda b: b.take_cap(self.KEY, posting=posting("r3", 40), limit=100)
        )
        assert await books(
            shop, lambda b: b.take_cap(self.KEY, posting=posting("r4", 10**12), limit=None)
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
                shop, lambda b, k=key: b.take_cap(k, posting=posting("r1", 100), limit=100)
            )
        dollars = replace(self.KEY, currency="USD")
        assert await books(
            shop,
            lambda b: b.take_cap(dollars, posting=posting("r2", 100, currency="USD"), limit=100),
        )
        with pytest.raises(InvalidInput, match="currency"):
            await books(shop, lambda b: b.take_cap(dollars, posting=posting("r3", 1), limit=None))

    async def test_adds_up_the_days_asked_for(self, shop):
        for day, amount in ((13, 1), (1, 20), (14, 300), (30, 4000)):
            month = 9 if day == 30 else 10
            key = replace(self.KEY, day=date(2026, month, day))
            await books(
                shop,
                lambda b, k=key, a=amount: b.take_cap(k, posting=posting(f"r{a}", a), limit=None),
            )

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=date(2026, 10, 1))) == 21
        assert await books(shop, lambda b: b.cap_used(self.KEY, since=date(2026, 9, 30))) == 4021
        assert (
            await books(
                shop, lambda b: b.cap_used(replace(self.KEY, subject="C9"), since=date(2026, 1, 1))
            )
            == 0
        )

    async def test_a_release_gives_them_back_over_all_rounds_once(self, shop):
        shop_key = replace(self.KEY, scope=CapScope.INSTALLATION, subject="installation")
        await books(shop, lambda b: b.take_cap(self.KEY, posting=posting("other", 7), limit=None))
        await books(shop, lambda b: b.reserve(posting("r1", 100)))
        for number, key in enumerate((self.KEY, shop_key, self.KEY), start=1):
            await books(
                shop,
                lambda b, k=key, n=number: b.take_cap(
                    k, posting=posting("r1", 100, round=n), limit=None
                ),
            )

        await books(shop, lambda b: b.release(posting("r1", 100, round=3)))
        await books(shop, lambda b: b.give_back_caps(posting("r1", 100, round=3)))

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 7
        assert await books(shop, lambda b: b.cap_used(shop_key, since=DAY)) == 0

    async def test_given_back_before_the_reserve_they_stay_given_back(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 100)))
        await books(shop, lambda b: b.take_cap(self.KEY, posting=posting("r1", 100), limit=None))
        await books(shop, lambda b: b.give_back_caps(posting("r1", 100)))
        await books(shop, lambda b: b.release(posting("r1", 100)))

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 0

    async def test_what_was_paid_stays_counted(self, shop):
        await books(shop, lambda b: b.reserve(posting("r1", 100)))
        await books(shop, lambda b: b.take_cap(self.KEY, posting=posting("r1", 100), limit=None))
        await books(shop, lambda b: b.settle(posting("r1", 100)))

        assert await books(shop, lambda b: b.cap_used(self.KEY, since=DAY)) == 100


class TestCheck:
    """A hand in the database is found, whichever counter it moved."""

    @pytest.mark.parametrize(
        ("statement", "found"),
        [
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
                "INSERT INTO ledger_entries (kind, account_kind, account_id, sub_id, round, amount_minor, units, currency, at)"
                " VALUES ('EXTERNAL', 'order', 'A1', '', 1, 4, 0, 'VND', '2026-10-13 00:00:00.000000')",
                ("order A1", "refunded_minor", 0, 4),
            ),
        ],
    )
    async def test_finds_it(self, shop, statement, found):
        key = CapKey(scope=CapScope.CUSTOMER, subject="C1", day=DAY, currency="VND")
        await books(shop, lambda b: b.reserve(posting("r1", 100, units=2)))
        await books(shop, lambda b: b.take_cap(key, posting=posting("r1", 100), limit=None))
        await shop.run_write(lambda c: c.execute(sa.text(statement)))

        account, counter, stored, ledger = found
        mismatches = await shop.read(lambda tx: tx.books.check())
        assert mismatches[0] == Mismatch(
            account=account, counter=counter, stored=stored, ledger=ledger
        )


@pytest.mark.parametrize(
    "statement",
    [
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
        "INSERT INTO ledger_entries (kind, account_kind, account_id, sub_id, round, amount_minor, units, currency, at)"
        " VALUES ('GIFT', 'order', 'A1', '', 1, 4, 0, 'VND', '2026-10-13 00:00:00.000000')",
        "INSERT INTO ledger_entries (kind, account_kind, account_id, sub_id, round, amount_minor, units, currency, at)"
        " VALUES ('SETTLE', 'order', 'A1', '', 1, -4, 0, 'VND', '2026-10-13 00:00:00.000000')",
    ],
)
async def test_the_schema_refuses_what_cannot_be(shop, statement):
    with pytest.raises(IntegrityError):
        await shop.run_write(lambda c: c.execute(sa.text(statement)))


async def test_ten_at_once_take_three_parts_of_three_tenths(database_url, keys):
    wide = SqlDatabase(database_url, keys, readers=10)

    async def take(number: int) -> int:
        def reserve(tx: object) -> int:
            tx.books.sync(SIMPLE)
            held = tx.books.reserve(posting(f"r{number}", 300_000))
            if isinstance(held, Shortage):
                raise Undo
            return held

        with suppress(Undo):
            return await wide.transact(reserve)
        return 0

    taken = await asyncio.gather(*(take(number) for number in range(10)))

    assert sorted(taken)[6:] == [0, 300_000, 600_000, 900_000]
    assert (await books(wide, lambda b: b.of_order("A1"))).taken_minor == 900_000
    await wide.aclose()


RACER = """
import asyncio, json, sys
from datetime import UTC, datetime
from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.orders import Order, OrderLine, OrderStatus, Payment, PaymentMethod
from support_agent.domain.refunds import RefundLine
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Posting, Shortage

url, request_id = sys.argv[1:]
now = datetime(2026, 10, 13, tzinfo=UTC)
line = OrderLine(id="1", name="x", quantity=1, unit_price_minor=1_000_000, discount_minor=0, category="c")
payment = Payment(id="P1", gateway="ledger", account="shop", gateway_payment_id="g1",
    method=PaymentMethod.CARD, captured_minor=1_000_000, currency="VND")
order = Order(id="A1", customer_id="C1", status=OrderStatus.DELIVERED, currency="VND", placed_at=now,
    lines=(line,), payments=(payment,))
posting = Posting(request_id=request_id, round=1, order_id="A1", payment_id="P1",
    lines=(RefundLine(line_id="1", units=0, amount_minor=300_000),), amount_minor=300_000, currency="VND", at=now)

class Undo(Exception): pass

def reserve(tx):
    tx.books.sync(order)
    held = tx.books.reserve(posting)
    if isinstance(held, Shortage):
        raise Undo(held)
    return held

async def main():
    database = SqlDatabase(url, KeyRing(keys=(("k1", b"0" * 32),)), busy_timeout_s=60)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        result = await database.transact(reserve)
    except Undo as undo:
        result = str(undo)
    await database.aclose()
    print(json.dumps(result), flush=True)

asyncio.run(main())
"""


async def test_ten_processes_take_three_parts_of_three_tenths(sqlite_url, keys):
    """Cases row 4, with the order new to all of them: the first to come also makes its rows."""
    root = Path(__file__).parents[2]
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, sqlite_url, f"r{n}"],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(10)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:  # all stand at the line: off
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [json.loads(racer.communicate()[0]) for racer in racers]

    assert sorted(map(str, results)) == sorted(["300000", "600000", "900000", *["order"] * 7])
    database = SqlDatabase(sqlite_url, keys)
    assert (await books(database, lambda b: b.of_order("A1"))).taken_minor == 900_000
    await database.aclose()


TWO_LINES = order((line("1", 600, 3), line("2", 400, 2)), (payment("P1", 700), payment("P2", 300)))
amounts = st.integers(0, 400)
units = st.integers(0, 3)
reserves = st.tuples(
    st.just("reserve"), st.sampled_from(["P1", "P2"]), amounts, units, amounts, units
)
endings = st.tuples(st.sampled_from(["release", "settle"]), st.integers(0, 11), st.integers(1, 3))
caps = st.tuples(st.just("cap"), st.integers(0, 11), st.integers(1, 500))


class Model:
    """The books as anybody would keep them on paper."""

    def __init__(self) -> None:
        self.requests: list[Posting] = []
        self.state: list[str] = []
        self.capped: dict[int, int] = {}

    def taken(self, pick: Callable[[Posting], int]) -> int:
        return sum(
            pick(p)
            for p, state in zip(self.requests, self.state, strict=True)
            if state in {"open", "settled"}
        )

    def reserve(self, wanted: Posting) -> int | Shortage:
        total = self.taken(lambda p: p.amount_minor) + wanted.amount_minor
        if total > 1000:
            return Shortage.ORDER
        for known in TWO_LINES.lines:
            mine = [p for p in wanted.lines if p.line_id == known.id]

            def of(p: Posting, line_id: str = known.id) -> list[RefundLine]:
                return [x for x in p.lines if x.line_id == line_id]

            money = self.taken(lambda p: sum(x.amount_minor for x in of(p))) + sum(
                x.amount_minor for x in mine
            )
            count = self.taken(lambda p: sum(x.units for x in of(p))) + sum(x.units for x in mine)
            if money > known.total_minor or count > known.quantity:
                return Shortage.LINE
        captured = {"P1": 700, "P2": 300}[wanted.payment_id]
        used = self.taken(lambda p: p.amount_minor if p.payment_id == wanted.payment_id else 0)
        return Shortage.PAYMENT if used + wanted.amount_minor > captured else total


@given(steps=st.lists(st.one_of(reserves, endings, caps), max_size=25))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_agrees_with_paper_and_keeps_the_sums(sqlite_template, steps):
    engine = sqlite_engine(
        make_url(f"sqlite:///{sqlite_template}"), begin="BEGIN IMMEDIATE", busy_timeout_s=5
    )
    model = Model()
    key = CapKey(scope=CapScope.CUSTOMER, subject="C1", day=DAY, currency="VND")
    with engine.connect() as connection, connection.begin() as transaction:
        ours = SqlBooks(connection)
        ours.sync(TWO_LINES)
        for step in steps:
            play(model, ours, connection, key, step)
            assert ours.check() == ()
        found = ours.of_order("A1")
        assert found.taken_minor == model.taken(lambda p: p.amount_minor)
        assert ours.cap_used(key, since=DAY) == sum(
            a for i, a in model.capped.items() if model.state[i] != "released"
        )
        transaction.rollback()
    engine.dispose()


def play(model: Model, ours: SqlBooks, connection: sa.Connection, key: CapKey, step: tuple) -> None:
    if step[0] == "reserve":
        _, payment_id, first, first_units, second, second_units = step
        if first + second == 0:
            return
        lines = (
            RefundLine(line_id="2", units=second_units, amount_minor=second),
            RefundLine(line_id="1", units=first_units, amount_minor=first),
        )
        wanted = posting(
            f"r{len(model.requests)}", first + second, lines=lines, payment_id=payment_id
        )
        expected = model.reserve(wanted)
        assert ours.reserve(wanted) == expected
        if isinstance(expected, int) and not isinstance(expected, Shortage):
            model.requests.append(wanted)
            model.state.append("open")
    elif step[1] < len(model.requests):
        known = model.requests[step[1]]
        if step[0] == "cap":
            used = sum(a for i, a in model.capped.items() if model.state[i] != "released")
            if step[1] not in model.capped and model.state[step[1]] == "open":
                fits = used + known.amount_minor <= step[2]
                assert ours.take_cap(key, posting=known, limit=step[2]) is fits
                if fits:
                    model.capped[step[1]] = known.amount_minor
            return
        end = getattr(ours, step[0])
        if model.state[step[1]] == "open":
            end(replace(known, round=step[2]))
            model.state[step[1]] = {"release": "released", "settle": "settled"}[step[0]]
            return
        with pytest.raises(ReserveMissing), connection.begin_nested():
            end(replace(known, round=step[2]))

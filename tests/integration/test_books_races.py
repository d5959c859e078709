"""The books under races and under any sequence of postings."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.domain.errors import ReserveMissing
from support_agent.domain.refunds import RefundLine
from support_agent.ports.storage import CapKey, CapScope, Posting, Shortage
from support_agent.testing.builders import make_line, make_order, make_payment, make_posting

DAY = date(2026, 10, 13)
SIMPLE = make_order((make_line("1", 1_000_000),), (make_payment("P1", 1_000_000),))


class Undo(Exception):
    """Raised inside a transaction to undo it, as a use case does after a refused guard."""


async def assert_nine_tenths_are_gone(database: SqlDatabase) -> None:
    books, mismatches = await database.read(lambda tx: (tx.books.of_order("A1"), tx.books.check()))
    assert books.taken_minor == 900_000
    assert mismatches == ()


async def test_ten_at_once_take_three_parts_of_three_tenths(database_url, keys):
    """Cases row 4, with the order new to all of them: the first to come also makes its rows."""
    wide = SqlDatabase(database_url, keys, readers=10)

    async def take(number: int) -> int:
        def reserve(tx: object) -> int:
            tx.books.sync(SIMPLE)
            held = tx.books.reserve(make_posting(f"r{number}", 300_000))
            if isinstance(held, Shortage):
                raise Undo
            return held

        with suppress(Undo):
            return await wide.transact(reserve)
        return 0

    taken = await asyncio.gather(*(take(number) for number in range(10)))

    assert sorted(taken)[6:] == [0, 300_000, 600_000, 900_000]
    await assert_nine_tenths_are_gone(wide)
    await wide.aclose()


# Imports once, then forks ten processes that wait until all of them are there.
RACERS = """
import asyncio, json, os, sys
from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Shortage
from support_agent.testing.builders import make_line, make_order, make_payment, make_posting

order = make_order((make_line("1", 1_000_000),), (make_payment("P1", 1_000_000),))

async def race(number):
    def reserve(tx):
        tx.books.sync(order)
        held = tx.books.reserve(make_posting(f"r{number}", 300_000))
        if isinstance(held, Shortage):
            raise LookupError(held)
        return held

    database = SqlDatabase(sys.argv[1], KeyRing(keys=(("k1", b"0" * 32),)), busy_timeout_s=60)
    try:
        return await database.transact(reserve)
    except LookupError as short:
        return str(short)
    finally:
        await database.aclose()

gate, starter = os.pipe()
for number in range(10):
    if os.fork() == 0:
        os.close(starter)
        os.read(gate, 1)  # ends when the last holder of the other end lets go
        os.write(1, (json.dumps(asyncio.run(race(number))) + "\\n").encode())
        os._exit(0)
os.close(starter)
for _ in range(10):
    os.wait()
"""


async def test_ten_processes_take_three_parts_of_three_tenths(sqlite_url, keys):
    root = Path(__file__).parents[2]
    racers = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RACERS, sqlite_url), cwd=root, stdout=subprocess.PIPE
    )
    out, _ = await racers.communicate()
    told = [json.loads(line) for line in out.splitlines()]

    assert sorted(map(str, told)) == sorted(["300000", "600000", "900000", *["order"] * 7])
    database = SqlDatabase(sqlite_url, keys)
    await assert_nine_tenths_are_gone(database)
    await database.aclose()


# Two payments and two lines, so that each kind of account can be the one that is short.
CAPTURED = {"P1": 700, "P2": 300}
TWO_LINES = make_order(
    (make_line("1", 600, 3), make_line("2", 400, 2)),
    tuple(make_payment(name, captured) for name, captured in CAPTURED.items()),
)
CAP = CapKey(scope=CapScope.CUSTOMER, subject="C1", day=DAY, currency="VND")


class Paper:
    """The books as anybody would keep them on paper: a list of postings and what became of each."""

    def __init__(self) -> None:
        self.postings: list[Posting] = []
        self.fates: list[str] = []
        self.capped: dict[int, int] = {}

    def add(self, wanted: Posting) -> int | Shortage:
        together = [*self.standing(), wanted]
        total = sum(posting.amount_minor for posting in together)
        if total > sum(CAPTURED.values()):
            return Shortage.ORDER
        for line in TWO_LINES.lines:
            parts = [part for p in together for part in p.lines if part.line_id == line.id]
            if sum(part.amount_minor for part in parts) > line.total_minor:
                return Shortage.LINE
            if sum(part.units for part in parts) > line.quantity:
                return Shortage.LINE
        paid = [p.amount_minor for p in together if p.payment_id == wanted.payment_id]
        if sum(paid) > CAPTURED[wanted.payment_id]:
            return Shortage.PAYMENT
        self.postings.append(wanted)
        self.fates.append("reserve")
        return total

    def standing(self) -> list[Posting]:
        pairs = zip(self.postings, self.fates, strict=True)
        return [posting for posting, fate in pairs if fate != "release"]

    def counted(self) -> int:
        return sum(amount for i, amount in self.capped.items() if self.fates[i] != "release")


def reserve(
    paper: Paper, books: SqlBooks, payment_id: str, parts: tuple[tuple[int, int], ...]
) -> None:
    amount = sum(minor for minor, _ in parts)
    if amount == 0:
        return
    lines = tuple(
        RefundLine(line_id=line_id, units=units, amount_minor=minor)
        for line_id, (minor, units) in zip("21", parts, strict=True)
    )
    request_id = f"r{len(paper.postings)}"
    wanted = make_posting(request_id, amount, lines=lines, payment_id=payment_id)
    assert books.reserve(wanted) == paper.add(wanted)


def end(paper: Paper, books: SqlBooks, how: str, which: int, round_: int) -> None:
    if which >= len(paper.postings):
        return
    do: Callable[[Posting], None] = getattr(books, how)
    posting = replace(paper.postings[which], round=round_)
    if paper.fates[which] == "reserve":
        do(posting)
        if how == "release":
            books.give_back_caps(posting)
        paper.fates[which] = how
        return
    with pytest.raises(ReserveMissing), books._connection.begin_nested():
        do(posting)


def count(paper: Paper, books: SqlBooks, which: int, limit: int) -> None:
    if which in paper.capped or which >= len(paper.postings) or paper.fates[which] != "reserve":
        return
    posting = paper.postings[which]
    fits = paper.counted() + posting.amount_minor <= limit
    assert books.take_cap(CAP, posting=posting, limit=limit) is fits
    if fits:
        paper.capped[which] = posting.amount_minor


part = st.tuples(st.integers(0, 300), st.integers(0, 2))
which = st.integers(0, 4)
steps = st.one_of(
    st.tuples(st.just(reserve), st.sampled_from(["P1", "P2"]), st.tuples(part, part)),
    st.tuples(st.just(end), st.sampled_from(["release", "settle"]), which, st.integers(1, 3)),
    st.tuples(st.just(count), which, st.integers(1, 900)),
)


@given(played=st.lists(steps, max_size=25))
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_sequence_agrees_with_paper_and_keeps_the_sums(sqlite_template, played):
    url = make_url(f"sqlite:///{sqlite_template}")
    engine = sqlite_engine(url, begin="BEGIN IMMEDIATE", busy_timeout_s=5)
    paper = Paper()
    with engine.connect() as connection, connection.begin() as transaction:
        books = SqlBooks(connection)
        books.sync(TWO_LINES)
        for step, *arguments in played:
            step(paper, books, *arguments)
        assert_same(books, paper, connection)
        transaction.rollback()
    engine.dispose()


def assert_same(books: SqlBooks, paper: Paper, connection: sa.Connection) -> None:
    assert books.check() == ()
    standing = paper.standing()
    found = books.of_order("A1")
    assert {p.payment_id: p.reserved_minor + p.refunded_minor for p in found.payments} == {
        name: sum(p.amount_minor for p in standing if p.payment_id == name) for name in CAPTURED
    }
    assert {line.line_id: line.units_taken for line in found.lines} == {
        line.id: sum(part.units for p in standing for part in p.lines if part.line_id == line.id)
        for line in TWO_LINES.lines
    }
    assert books.cap_used(CAP, since=DAY) == paper.counted()
    order = sa.text("SELECT reserved_minor + refunded_minor FROM order_balances")
    assert connection.scalar(order) == found.taken_minor

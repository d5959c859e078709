"""What a transaction read already is given again only while nobody can have changed it."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import HistoryBroken
from support_agent.domain.people import SYSTEM
from support_agent.ports.storage import Shortage, Transaction
from support_agent.testing.builders import make_line, make_order, make_payment, make_posting
from tests.history import ENTRIES, attack

ORDER = make_order(
    (make_line("1", 600_000, 10), make_line("2", 400_000, 10)), (make_payment("P1", 1_000_000),)
)


def reserved(tx: Transaction) -> list[int]:
    return [line.reserved_minor for line in tx.books.of_order(ORDER.id).lines]


@contextmanager
def counted() -> Iterator[list[str]]:
    """Every statement that is sent to a database meanwhile."""
    sent: list[str] = []

    def note(*args: object, **_: object) -> None:
        sent.append(str(args[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


async def appended(database: SqlDatabase, *subjects: str) -> None:
    def work(tx: Transaction) -> None:
        for subject in subjects:
            at = datetime(2026, 10, 13, 3, tzinfo=UTC)
            tx.audit.append(
                AuditEvent(action="refund.filed", actor=SYSTEM, subject=subject, at=at, data={})
            )

    await database.transact(work)


class TestRows:
    async def test_what_it_wrote_itself_is_seen(self, database):
        def work(tx: Transaction) -> list[list[int]]:
            tx.books.sync(ORDER)
            seen = [reserved(tx)]
            tx.books.reserve(make_posting("r1", 100_000))
            seen.append(reserved(tx))
            tx.books.release(make_posting("r1", 100_000))
            return [*seen, reserved(tx)]

        assert await database.transact(work) == [[0, 0], [100_000, 0], [0, 0]]

    async def test_what_it_took_back_is_not_seen(self, database):
        def work(tx: Transaction) -> tuple[object, list[int], list[int]]:
            tx.books.sync(ORDER)
            before = reserved(tx)
            short = tx.books.reserve(make_posting("r1", 700_000))
            return short, before, reserved(tx)

        assert await database.transact(work) == (Shortage.LINE, [0, 0], [0, 0])

    async def test_on_sqlite_it_is_read_once(self, sqlite_url, keys):
        database = SqlDatabase(sqlite_url, keys)
        await database.transact(lambda tx: tx.books.sync(ORDER))

        def work(tx: Transaction) -> tuple[int, int]:
            with counted() as first:
                tx.books.of_order(ORDER.id)
            with counted() as again:
                tx.books.sync(ORDER)
                tx.books.of_order(ORDER.id)
            return len(first), len(again)

        assert await database.transact(work) == (3, 1)  # `sync` asks for the order's own row, too
        assert await database.read(reserved) == [0, 0]
        await database.transact(lambda tx: tx.books.reserve(make_posting("r1", 5)))
        assert await database.read(reserved) == [5, 0]
        await database.aclose()

    async def test_on_postgresql_what_others_commit_meanwhile_is_seen(self, postgres_url, keys):
        database = SqlDatabase(postgres_url, keys)
        await database.transact(lambda tx: tx.books.sync(ORDER))
        address = make_url(postgres_url).set(drivername="postgresql")

        def work(tx: Transaction) -> tuple[list[int], list[int]]:
            before = reserved(tx)
            plain = address.render_as_string(hide_password=False)
            with closing(psycopg.connect(plain, autocommit=True)) as other:
                other.execute("UPDATE line_balances SET reserved_minor = 7 WHERE line_id = '1'")
            return before, reserved(tx)

        assert await database.transact(work) == ([0, 0], [7, 0])
        await database.aclose()


class TestProofsTogether:
    async def test_each_is_what_it_is_alone(self, database):
        await appended(database, "a", "b", "c")
        things = [("refund", name) for name in ("a", "b", "c", "nobody", "\0")]

        def together(tx: Transaction) -> list[object]:
            tx.audit.expect(*things)
            return [tx.audit.vouched(*thing) for thing in things]

        alone = [await database.read(lambda tx, t=thing: tx.audit.vouched(*t)) for thing in things]
        assert await database.read(together) == alone
        assert [row and row.seq for row in alone] == [1, 2, 3, None, None]

    async def test_on_sqlite_they_are_read_in_one_statement(self, sqlite_url, keys):
        database = SqlDatabase(sqlite_url, keys)
        await appended(database, "a", "b")

        def work(tx: Transaction) -> int:
            with counted() as sent:
                tx.audit.expect(("refund", "a"), ("refund", "b"), ("policy", "policy"))
                for thing in (("refund", "a"), ("refund", "b"), ("policy", "policy")):
                    tx.audit.vouched(*thing)
            return len(sent)

        assert await database.read(work) == 1
        await database.aclose()

    @pytest.mark.parametrize("value", [99, -1])
    async def test_a_broken_one_spoils_no_other(self, database, database_url, value):
        await appended(database, "a", "b")
        broken = sa.update(ENTRIES).where(ENTRIES.c.subject == "b").values(seq=value)
        await asyncio.to_thread(attack, database_url, broken)

        def work(tx: Transaction) -> int | None:
            tx.audit.expect(("refund", "a"), ("refund", "b"))
            with pytest.raises(HistoryBroken):
                tx.audit.vouched("refund", "b")
            found = tx.audit.vouched("refund", "a")
            return found and found.seq

        assert await database.read(work) == 1

    async def test_an_unreadable_one_spoils_no_other(self, sqlite_url, keys):
        database = SqlDatabase(sqlite_url, keys)
        await appended(database, "a", "b")
        untyped = sa.table("audit_entries", sa.column("seq"), sa.column("subject"))
        words = sa.update(untyped).where(sa.column("subject") == "b").values(seq="two")
        await asyncio.to_thread(attack, sqlite_url, words)

        def work(tx: Transaction) -> int | None:
            tx.audit.expect(("refund", "a"), ("refund", "b"))
            with pytest.raises(HistoryBroken):
                tx.audit.vouched("refund", "b")
            found = tx.audit.vouched("refund", "a")
            return found and found.seq

        assert await database.read(work) == 1
        await database.aclose()

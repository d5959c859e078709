"""The newest event about a thing is proved: hiding it, or bringing an older one back, is seen."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.audit import START, AuditEvent, AuditRow, holds, link
from support_agent.domain.audit_index import bucket_of
from support_agent.domain.errors import ConfigurationError, HistoryBroken
from support_agent.domain.people import SYSTEM
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction
from support_agent.services.audit import check_keys, verify
from support_agent.services.audit_index import is_indexed, reindex
from tests.history import (
    ENTRIES,
    EVENTS,
    HEAD,
    NODES,
    TABLES,
    Rows,
    attack,
    restore,
    snapshot,
    written_before_the_index,
)

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)


def event(subject: str, action: str = "refund.filed", **data: str) -> AuditEvent:
    return AuditEvent(action=action, actor=SYSTEM, subject=subject, at=NOW, data=data)


def append(*events: AuditEvent) -> Callable[[Transaction], None]:
    def work(tx: Transaction) -> None:
        for one in events:
            tx.audit.append(one)

    return work


async def vouched(database: SqlDatabase, subject: str, topic: str = "refund") -> AuditRow | None:
    return await database.read(lambda tx: tx.audit.vouched(topic, subject))


async def newest_root(database: SqlDatabase) -> str | None:
    newest = await database.read(lambda tx: tx.audit.newest())
    assert newest is not None
    return newest.root


async def problems(database: SqlDatabase, keys: KeyRing) -> list[str]:
    """What is wrong with chain and index; of the requests and approvers here there are no rows."""
    found = (await database.read(lambda tx: verify(tx, keys))).problems
    return [one for one in found if not one.endswith("of the history is gone")]


class TestProofs:
    async def test_the_newest_event_of_each_topic_is_found(self, database, keys):
        await database.transact(append(event("a"), event("b"), event("a", "approver.changed")))
        await database.transact(append(event("a", "refund.approved"), event("a", "quote.shown")))

        found = await vouched(database, "a")
        assert found is not None
        assert (found.seq, found.event.action) == (4, "refund.approved")
        assert holds(keys, found)
        assert (await vouched(database, "a", "approver")).seq == 3
        assert (await vouched(database, "b")).seq == 2
        assert await problems(database, keys) == []

    async def test_that_there_is_none_is_proved_as_well(self, database):
        assert await vouched(database, "a") is None

        await database.transact(append(event("a"), event("a", "quote.shown")))

        assert await vouched(database, "z") is None
        assert await vouched(database, "a", "approver") is None
        assert await vouched(database, "\0") is None

    async def test_what_this_transaction_appended_is_not_there_yet(self, database):
        await database.transact(append(event("a")))

        def work(tx: Transaction) -> int:
            tx.audit.append(event("a", "refund.approved"))
            found = tx.audit.vouched("refund", "a")
            assert found is not None
            return found.seq

        assert await database.transact(work) == 1
        assert (await vouched(database, "a")).seq == 2

    async def test_one_statement_reads_it_so_it_is_of_one_moment(self, database):
        await database.transact(append(event("a"), event("b")))
        asked = []
        engine = database._engines.reading
        sa.event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))

        await vouched(database, "a")

        assert [words.split()[0] for words in asked if words != "BEGIN"] == ["SELECT"]

    async def test_a_chain_without_anything_to_prove_keeps_its_root(self, database, keys):
        await database.transact(append(event("a")))
        root = await newest_root(database)

        await database.transact(append(event("a", "quote.shown")))

        assert await newest_root(database) == root
        assert (await vouched(database, "a")).seq == 1
        assert await problems(database, keys) == []

    async def test_a_thousand_things_share_buckets_and_are_all_found(self, database, keys):
        names = [f"ref_{number}" for number in range(1_000)]
        for start in range(0, 1_000, 100):
            await database.transact(append(*(event(name) for name in names[start : start + 100])))

        def each(tx: Transaction) -> list[int]:
            return [tx.audit.vouched("refund", name).seq for name in names]

        assert await database.read(each) == list(range(1, 1_001))
        assert await problems(database, keys) == []

    async def test_events_of_a_retired_key_still_vouch(self, database_url, keys):
        first = SqlDatabase(database_url, keys)
        await first.transact(append(event("a")))
        await first.aclose()
        rotated = KeyRing(keys=(("k2", b"another secret of thirty-two char"), *keys.keys))
        second = SqlDatabase(database_url, rotated)
        await second.transact(append(event("b")))

        assert (await vouched(second, "a")).key_id == "k1"
        assert (await vouched(second, "b")).key_id == "k2"
        await second.aclose()


def same_bucket_as(subject: str) -> str:
    """Another subject whose entry lies in the same bucket."""
    wanted = bucket_of("refund", subject)
    return next(name for n in range(2_000_000) if bucket_of("refund", name := f"n{n}") == wanted)


NEIGHBOUR = same_bucket_as("a")


@pytest.fixture
async def story(database: SqlDatabase, database_url: str) -> Rows:
    """`a` was approved and then cancelled; the copy is from between the two."""
    await database.transact(append(event("a", "refund.approved"), event("other")))
    before = snapshot(database_url)
    await database.transact(append(event("a", "refund.cancelled")))
    await database.transact(append(event("later")))
    return before


CANCELLED = EVENTS.c.seq == 3


class TestHiding:
    async def refused(self, database: SqlDatabase) -> None:
        with pytest.raises(HistoryBroken, match="audit verify"):
            await vouched(database, "a")

    async def test_the_event_is_deleted(self, database, database_url, story):
        attack(database_url, sa.delete(EVENTS).where(CANCELLED))
        await self.refused(database)

    @pytest.mark.parametrize(
        "change",
        [{"subject": "b"}, {"action": "x.y"}, {"data": {"x": "y"}}, {"root": None}, {"root": "0"}],
    )
    async def test_the_event_is_changed(self, database, database_url, story, change):
        attack(database_url, sa.update(EVENTS).where(CANCELLED).values(change))
        await self.refused(database)

    async def test_its_entry_names_an_older_event(self, database, database_url, story):
        attack(database_url, sa.update(ENTRIES).where(ENTRIES.c.subject == "a").values(seq=1))
        await self.refused(database)

    async def test_its_entry_is_deleted(self, database, database_url, story):
        attack(database_url, sa.delete(ENTRIES).where(ENTRIES.c.subject == "a"))
        await self.refused(database)

    async def test_the_index_is_put_back(self, database, database_url, story):
        restore(database_url, story, ENTRIES, NODES)
        await self.refused(database)

    async def test_the_index_and_the_root_are_put_back(self, database, database_url, story):
        restore(database_url, story, ENTRIES, NODES)
        old = story["audit_events"][-1]["root"]
        attack(database_url, sa.update(EVENTS).where(EVENTS.c.seq == 4).values(root=old))
        await self.refused(database)

    async def test_an_older_event_stands_in_for_the_newest(self, database, database_url, story):
        """With its number changed, or with the head pointing at it where it is."""
        restore(database_url, story, ENTRIES, NODES, HEAD)
        await self.refused(database)

        old = dict(story["audit_events"][-1])
        attack(
            database_url,
            sa.delete(EVENTS).where(EVENTS.c.seq == 4),
            sa.update(EVENTS).where(EVENTS.c.seq == old["seq"]).values(seq=4),
            sa.update(HEAD).values(seq=4, mac=old["mac"]),
        )
        await self.refused(database)

    async def test_the_chain_is_mended_around_the_hole(self, database, database_url, story):
        last = await database.read(lambda tx: tx.audit.newest())
        old = story["audit_events"][-1]
        restore(database_url, story, ENTRIES, NODES)
        attack(
            database_url,
            sa.delete(EVENTS).where(CANCELLED),
            sa.update(EVENTS)
            .where(EVENTS.c.seq == last.seq)
            .values(seq=3, prev_mac=old["mac"], root=old["root"]),
            sa.update(HEAD).values(seq=3),
        )
        await self.refused(database)

    async def test_the_whole_history_put_back_is_found_by_an_anchor_only(
        self, database, database_url, keys, story
    ):
        """As ADR 0010 says: nothing in the database can tell it from the past."""
        seen = await database.read(lambda tx: tx.audit.head())
        restore(database_url, story, *TABLES)

        assert (await vouched(database, "a")).event.action == "refund.approved"
        report = await database.read(lambda tx: verify(tx, keys, anchor=seen))
        assert any("anchored head" in problem for problem in report.problems)

    async def test_what_is_not_text_proves_nothing_and_crashes_nobody(self, sqlite_url, keys):
        for table, values in (
            (ENTRIES, {"subject": b"\xff"}),
            (ENTRIES, {"seq": "soon"}),
            (NODES, {"children": "a,b"}),
            (NODES, {"children": b"\xff"}),
        ):
            database = SqlDatabase(sqlite_url, keys)
            await database.transact(append(event("a")))
            untyped = sa.table(table.name, *(sa.column(column.name) for column in table.columns))
            attack(sqlite_url, sa.update(untyped).values(values))

            await self.refused(database)
            assert any("index" in problem for problem in await problems(database, keys))
            assert not await database.read(lambda tx: is_indexed(tx, keys))
            await database.transact(lambda tx: reindex(tx, keys))
            assert await database.read(lambda tx: is_indexed(tx, keys))
            await database.aclose()


class TestGoingOn:
    """Nobody signs a forgery by writing on."""

    @pytest.mark.parametrize("subject", ["a", NEIGHBOUR, "other", "new"])
    async def test_an_index_that_was_put_back_does_not_become_ours(
        self, database, database_url, story, subject
    ):
        restore(database_url, story, ENTRIES, NODES)

        await database.transact(append(event(subject, "refund.expired")))

        assert await newest_root(database) == ""
        for name in ("a", subject):
            with pytest.raises(HistoryBroken):
                await vouched(database, name)

    async def test_one_entry_that_was_put_back_does_not_become_ours(
        self, database, database_url, keys, story
    ):
        attack(database_url, sa.update(ENTRIES).where(ENTRIES.c.subject == "a").values(seq=1))

        await database.transact(append(event("far away")))
        with pytest.raises(HistoryBroken):
            await vouched(database, "a")
        assert (await vouched(database, "far away")).seq == 5

        await database.transact(append(event(NEIGHBOUR)))
        assert await newest_root(database) == ""

    async def test_a_newest_event_that_was_changed_vouches_for_nothing_after_it(
        self, database, database_url, keys, story
    ):
        attack(database_url, sa.update(EVENTS).where(EVENTS.c.seq == 4).values(actor_id="x"))

        await database.transact(append(event("a", "refund.expired")))

        with pytest.raises(HistoryBroken):
            await vouched(database, "a")
        with pytest.raises(ConfigurationError, match="event 4 is missing, was changed"):
            await database.transact(lambda tx: reindex(tx, keys))

    async def test_an_event_in_the_middle_stops_only_what_it_spoke_of(
        self, database, database_url, story
    ):
        attack(database_url, sa.update(EVENTS).where(CANCELLED).values(actor_id="x"))
        await database.transact(append(event("more")))

        assert (await vouched(database, "other")).seq == 2
        assert (await vouched(database, "more")).seq == 5
        with pytest.raises(HistoryBroken, match="event 3"):
            await vouched(database, "a")


class TestIndexing:
    """A history from before the index counts only after it was walked and signed."""

    async def test_nothing_is_trusted_before(self, database, database_url, keys):
        written_before_the_index(database_url, keys, event("a"), event("a", "refund.approved"))

        for _ in range(2):
            with pytest.raises(ConfigurationError, match="db upgrade"):
                await vouched(database, "a")
            with pytest.raises(ConfigurationError, match="db upgrade"):
                await database.read(lambda tx: check_keys(tx, keys))
            assert any("db upgrade" in problem for problem in await problems(database, keys))
            await database.transact(append(event("b")))  # which does not make it so

    async def test_everything_is_proved_after(self, database, database_url, keys):
        written_before_the_index(
            database_url, keys, event("a"), event("lan", "approver.changed"), event("a")
        )
        assert not await database.read(lambda tx: is_indexed(tx, keys))

        assert await database.transact(lambda tx: reindex(tx, keys)) == 3

        assert (await vouched(database, "a")).seq == 3
        assert (await vouched(database, "lan", "approver")).seq == 2
        assert await vouched(database, "z") is None
        await database.transact(append(event("a")))
        assert (await vouched(database, "a")).seq == 5
        await database.read(lambda tx: check_keys(tx, keys))
        chain = await database.read(lambda tx: tuple(tx.audit.rows()))
        assert [row.event.action for row in chain][3] == "audit.indexed"
        assert "audit" not in {row.root for row in chain[:3]} | {None}
        assert await problems(database, keys) == []

    async def test_a_new_database_and_one_that_lived_on_need_none(self, database, keys):
        assert await database.read(lambda tx: is_indexed(tx, keys))
        await database.transact(append(event("a")))
        await database.transact(append(event("b"), event("b", "quote.shown")))
        await database.transact(append(event("a")))

        assert await database.read(lambda tx: is_indexed(tx, keys))

    @pytest.mark.parametrize("seq", [1, 2, 3])
    async def test_a_broken_chain_is_not_indexed(self, database, database_url, keys, seq):
        written_before_the_index(database_url, keys, event("a"), event("b"), event("c"))
        attack(database_url, sa.delete(EVENTS).where(EVENTS.c.seq == seq))

        with pytest.raises(ConfigurationError, match=rf"event {seq} is missing, was changed"):
            await database.transact(lambda tx: reindex(tx, keys))

        assert snapshot(database_url)["audit_entries"] == []

    async def test_an_index_that_was_lost_is_made_anew_from_a_whole_chain(
        self, database, database_url, keys, story
    ):
        attack(database_url, sa.delete(ENTRIES), sa.delete(NODES))
        await database.transact(append(event("b")))
        assert not await database.read(lambda tx: is_indexed(tx, keys))
        with pytest.raises(ConfigurationError, match="then support-agent db upgrade"):
            await database.read(lambda tx: check_keys(tx, keys))

        assert await database.transact(lambda tx: reindex(tx, keys)) == 5

        assert (await vouched(database, "a")).event.action == "refund.cancelled"


class TestVerify:
    @pytest.mark.parametrize(
        ("statement", "told"),
        [
            (
                sa.update(ENTRIES).where(ENTRIES.c.subject == "a").values(seq=1),
                "entry of refund 'a'",
            ),
            (sa.delete(ENTRIES).where(ENTRIES.c.subject == "a"), "entry of refund 'a' is gone"),
            (
                sa.insert(ENTRIES).values(bucket=1, topic="refund", subject="x", seq=1),
                "entry of refund 'x' is not",
            ),
            (sa.delete(NODES).where(NODES.c.level == 0), "1 node(s)"),
            (
                sa.insert(NODES).values(level=1, position=99, children="," * 15),
                "1 node(s)",
            ),
            (sa.update(NODES).values(children="," * 15), "node(s) of the index"),
        ],
    )
    async def test_a_stored_index_that_is_not_the_history_is_found(
        self, database, database_url, keys, story, statement, told
    ):
        assert await problems(database, keys) == []

        attack(database_url, statement)

        assert any(told in problem for problem in await problems(database, keys))

    async def test_an_event_that_signed_another_root_is_found(self, database, database_url, keys):
        """Only who has the key could do that: a fault of ours."""
        for name in ("a", "b", "c"):
            await database.transact(append(event(name)))
        first, *_ = await database.read(lambda tx: tuple(tx.audit.rows()))
        wrong = link(keys, START, first.event, "f" * 64)
        attack(
            database_url,
            sa.update(EVENTS).where(EVENTS.c.seq == 1).values(root=wrong.root, mac=wrong.mac),
        )

        found = await problems(database, keys)

        assert "event 1 was changed" not in found
        assert "event 1 signed another index than the history's" in found
        assert len([one for one in found if "signed another index" in one]) == 1

    async def test_a_lost_index_is_told_in_few_words(self, database, database_url, keys):
        await database.transact(append(*(event(f"ref_{number}") for number in range(50))))
        attack(database_url, sa.delete(ENTRIES))

        found = await problems(database, keys)

        assert len(found) == 11
        assert "40 more entries of the index are not what the history says" in found


async def test_who_writes_meanwhile_breaks_no_proof(database, database_url, keys):
    """Writers and readers on connections of their own, none of whom waits for another's commit."""
    writers = [SqlDatabase(database_url, keys, busy_timeout_s=30) for _ in range(2)]
    await database.transact(append(event("a"), event("b")))
    done = asyncio.Event()

    async def write(writer: SqlDatabase) -> None:
        for number in range(40):
            subject = ("a", "b", f"c{number}")[number % 3]
            await writer.transact(append(event(subject, "refund.approved", n=str(number))))

    async def read(ask: Callable[[Callable[[Transaction], Any]], Any]) -> int:
        seen, asked = 0, 0
        while not (done.is_set() and asked):
            found = await ask(lambda tx: tx.audit.vouched("refund", "a"))
            assert found.seq >= seen
            seen, asked = found.seq, asked + 1
        return asked

    async def all_written() -> None:
        await asyncio.gather(*(write(writer) for writer in writers))
        done.set()

    # `transact` reads at READ COMMITTED on PostgreSQL, where each statement has its own snapshot.
    readers = [read(database.read), read(database.transact)]
    _, *asked = await asyncio.gather(all_written(), *readers)

    assert min(asked) > 1
    assert (await database.read(lambda tx: tx.audit.head())).seq == 82
    assert await problems(database, keys) == []
    for writer in writers:
        with suppress(RuntimeError):
            await writer.aclose()

"""The audit chain tells on anyone who changes it without the key or the anchored head."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.triggers import postgres_triggers, sqlite_triggers
from support_agent.domain.audit import GENESIS, AuditEvent, AuditHead, AuditRow, holds, link
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction
from support_agent.services.audit import verify

NOW = datetime(2026, 10, 13, 3, 0, 0, 123456, tzinfo=UTC)
LAN = Principal(
    kind=PrincipalKind.APPROVER, id="lan", person_id="p-lan", proof=Proof.TOKEN, via="cli"
)
EVENTS = metadata.tables["audit_events"]
HEAD = metadata.tables["audit_head"]


def event(subject: str, at: datetime = NOW) -> AuditEvent:
    data = {"amount": "250000", "status": "đã duyệt"}
    return AuditEvent(action="test.done", actor=LAN, subject=subject, at=at, data=data)


def append(*subjects: str):
    def work(tx: Transaction) -> None:
        for subject in subjects:
            tx.audit.append(event(subject))

    return work


def rows(tx: Transaction) -> tuple[AuditRow, ...]:
    return tuple(tx.audit.rows())


async def problems(
    database: SqlDatabase, keys: KeyRing, anchor: AuditHead | None = None
) -> tuple[str, ...]:
    report = await database.read(lambda tx: verify(tx, keys, anchor=anchor))
    return report.problems


async def test_events_come_back_as_they_were_and_linked_without_gaps(database, keys):
    await database.transact(append("a", "b"))
    await database.transact(append("c"), durable=False)

    found = await database.read(rows)

    assert [row.seq for row in found] == [1, 2, 3]
    assert [row.event for row in found] == [event("a"), event("b"), event("c")]
    assert [row.prev_mac for row in found] == [GENESIS, found[0].mac, found[1].mac]
    assert all(holds(keys, row) for row in found)
    head = await database.read(lambda tx: tx.audit.head())
    assert head == AuditHead(seq=3, mac=found[-1].mac)
    assert await problems(database, keys) == ()


async def test_an_event_told_in_another_time_zone_still_verifies(database, keys):
    local = NOW.astimezone(timezone(timedelta(hours=7)))
    await database.transact(lambda tx: tx.audit.append(event("a", local)))

    (row,) = await database.read(rows)

    assert row.event.at == NOW
    assert holds(keys, row)


async def test_a_failed_transaction_leaves_neither_event_nor_gap(database, keys):
    def fails(tx: Transaction) -> None:
        tx.audit.append(event("lost"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await database.transact(fails)
    await database.transact(append("kept"))

    assert [(row.seq, row.event.subject) for row in await database.read(rows)] == [(1, "kept")]


async def test_a_transaction_without_events_does_not_take_the_head(database_url, keys):
    database = SqlDatabase(database_url, keys, busy_timeout_s=0.05)
    if database_url.startswith("sqlite"):
        before = await database.read(lambda tx: tx.audit.head())
        await database.transact(lambda tx: None)
        assert await database.read(lambda tx: tx.audit.head()) == before
    else:
        with exclusive(database_url) as holder:
            holder.execute(sa.update(HEAD).values(seq=0))
            await database.transact(lambda tx: tx.installation.id())
    await database.aclose()


async def test_writers_of_two_programs_make_one_chain(database, database_url, keys):
    other = SqlDatabase(database_url, keys)

    await asyncio.gather(
        *(one.transact(append(f"{n}", f"{n}+")) for n in range(10) for one in (database, other))
    )

    found = await database.read(rows)
    assert [row.seq for row in found] == list(range(1, 41))
    assert await problems(database, keys) == ()
    await other.aclose()


async def test_the_newest_event_of_a_subject_is_found(database):
    await database.transact(append("a", "b"))
    await database.transact(append("a"))

    newest = await database.read(lambda tx: tx.audit.latest_for("a"))

    assert newest is not None
    assert newest.seq == 3
    assert await database.read(lambda tx: tx.audit.latest_for("z")) is None


async def test_a_chain_longer_than_one_fetch_is_walked_to_its_end(database, keys):
    await database.transact(append(*(str(n) for n in range(1_200))))

    assert [row.seq for row in await database.read(rows)] == list(range(1, 1_201))
    assert await problems(database, keys) == ()


async def test_events_signed_by_a_retired_key_still_verify(database_url, keys):
    first = SqlDatabase(database_url, keys)
    await first.transact(append("old"))
    await first.aclose()
    rotated = KeyRing(keys=(("k2", b"another secret of thirty-two char"), *keys.keys))
    second = SqlDatabase(database_url, rotated)
    await second.transact(append("new"))

    assert [row.key_id for row in await second.read(rows)] == ["k1", "k2"]
    assert await problems(second, rotated) == ()
    await second.aclose()


def attack(url: str, *statements: sa.Executable) -> None:
    """Write the database as its owner can: triggers off, then anything."""
    with exclusive(url) as raw:
        if url.startswith("sqlite"):
            for name in sqlite_triggers():
                raw.exec_driver_sql(f"DROP TRIGGER {name}")
        else:
            for name, made in postgres_triggers().items():
                table = made.split(" ON ")[1].split()[0]
                raw.exec_driver_sql(f"DROP TRIGGER {name} ON {table}")
        for statement in statements:
            raw.execute(statement)


@pytest.fixture
async def four(database: SqlDatabase) -> tuple[AuditRow, ...]:
    await database.transact(append("a", "b", "c", "d"))
    return await database.read(rows)


SECOND = EVENTS.c.seq == 2
CHANGES = {
    "action": "test.undone",
    "actor_kind": "system",
    "actor_id": "mai",
    "actor_person_id": None,
    "actor_proof": "asserted",
    "actor_via": "api",
    "subject": "z",
    "at": NOW + timedelta(microseconds=1),
    "data": {"amount": "150000", "status": "đã duyệt"},
    "key_id": "k2",
    "mac": "0" * 64,
}


@pytest.mark.parametrize("column", CHANGES)
async def test_a_changed_column_is_found(column, database, database_url, keys, four):
    attack(database_url, sa.update(EVENTS).where(SECOND).values({column: CHANGES[column]}))

    found = await database.read(rows)

    assert [row.seq for row in found if not holds(keys, row)] == [2]
    told = "was signed with key 'k2', which" if column == "key_id" else "was changed"
    assert any(problem.startswith(f"event 2 {told}") for problem in await problems(database, keys))


UNREADABLE = {
    "actor_kind": "emperor",
    "actor_proof": "trust me",
    "data": "{not json",
    "mac": "ờ" * 64,
}


@pytest.mark.parametrize("column", UNREADABLE)
async def test_a_row_made_unreadable_is_found_and_stops_nobody(
    column, database, database_url, keys, four
):
    as_text = sa.update(sa.table("audit_events", sa.column("seq"), sa.column(column, sa.Text)))
    attack(database_url, as_text.where(sa.column("seq") == 2).values({column: UNREADABLE[column]}))

    assert "event 2 was changed" in await problems(database, keys)


@pytest.mark.parametrize(
    ("column", "value"),
    [("at", "yesterday"), ("data", "[1]"), ("data", '{"amount": 1}'), ("subject", b"\xff")],
)
async def test_any_bytes_in_a_sqlite_row_are_found(column, value, sqlite_url, keys):
    database = SqlDatabase(sqlite_url, keys)
    await database.transact(append("a", "b", "c"))
    untyped = sa.table("audit_events", sa.column("seq"), sa.column(column))
    attack(sqlite_url, sa.update(untyped).where(sa.column("seq") == 2).values({column: value}))

    assert "event 2 was changed" in await problems(database, keys)
    await database.aclose()


async def test_a_deleted_row_is_found(database, database_url, keys, four):
    attack(database_url, sa.delete(EVENTS).where(SECOND))

    assert "event 2 is missing before 3" in await problems(database, keys)


async def test_a_deleted_row_with_the_others_moved_up_is_found(database, database_url, keys, four):
    attack(
        database_url,
        sa.delete(EVENTS).where(SECOND),
        sa.update(EVENTS).where(EVENTS.c.seq == 3).values(seq=2, prev_mac=four[0].mac),
        sa.update(EVENTS).where(EVENTS.c.seq == 4).values(seq=3),
        sa.update(HEAD).values(seq=3),
    )

    found = await database.read(rows)

    assert [row.seq for row in found if not holds(keys, row)] == [2, 3]


async def test_a_row_replaced_by_one_of_another_key_is_found(database, database_url, keys, four):
    forged = link(
        KeyRing(keys=(("k1", b"a guess at the secret"),)),
        AuditHead(seq=1, mac=four[0].mac),
        event("forged"),
    )
    attack(
        database_url,
        sa.update(EVENTS)
        .where(SECOND)
        .values(subject="forged", data=dict(forged.event.data), mac=forged.mac),
        sa.update(EVENTS).where(EVENTS.c.seq == 3).values(prev_mac=forged.mac),
    )

    found = await problems(database, keys)

    assert "event 2 was changed" in found
    assert "event 3 was changed" in found


async def test_two_rows_that_changed_places_are_found(database, database_url, keys, four):
    attack(
        database_url,
        sa.update(EVENTS).where(SECOND).values(seq=99),
        sa.update(EVENTS).where(EVENTS.c.seq == 3).values(seq=2),
        sa.update(EVENTS).where(EVENTS.c.seq == 99).values(seq=3),
    )

    assert [row.seq for row in await database.read(rows) if not holds(keys, row)] == [2, 3]


async def test_a_cut_off_tail_is_found_by_the_head(database, database_url, keys, four):
    attack(database_url, sa.delete(EVENTS).where(EVENTS.c.seq == 4))

    assert "the chain has 3 events, its head says 4" in await problems(database, keys)


async def test_a_tail_cut_off_with_its_head_is_found_by_an_anchor_kept_elsewhere(
    database, database_url, keys, four
):
    anchor = AuditHead(seq=4, mac=four[3].mac)
    attack(
        database_url,
        sa.delete(EVENTS).where(EVENTS.c.seq == 4),
        sa.update(HEAD).values(seq=3, mac=four[2].mac),
    )

    assert await problems(database, keys) == ()
    (problem,) = await problems(database, keys, anchor)
    assert "the anchored head 4:" in problem


async def test_a_chain_that_would_fork_is_not_written(database, database_url, keys, four):
    attack(database_url, sa.update(HEAD).values(seq=4, mac=four[1].mac))

    with pytest.raises(sa.exc.IntegrityError):
        await database.transact(append("e"))

    assert len(await database.read(rows)) == 4

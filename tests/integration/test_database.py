"""Transactions: all or nothing, never nested, finished before their caller is released."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import exclusive
from support_agent.domain.audit import AuditEvent
from support_agent.domain.conversation import Assurance, Author, Conversation
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from support_agent.domain.people import SYSTEM
from support_agent.ports.storage import Transaction
from tests.heart import add_destination

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)
PATIENCE_S = 10  # how long a test waits for another thread before it fails


def conversation(id_: str = "conv_1") -> Conversation:
    return Conversation(
        id=id_,
        channel="cli",
        account="default",
        external_contact="C001",
        customer_id="C001",
        assurance=Assurance.VERIFIED,
        language="vi",
        created_at=NOW,
    )


def add(id_: str = "conv_1") -> Callable[[Transaction], None]:
    return lambda tx: tx.conversations.add(conversation(id_))


def ids(tx: Transaction) -> list[str]:
    found = tx.conversations.list(customer_id=None, limit=100, before=None)
    return sorted(one.id for one in found)


class Refusal(Exception):
    pass


@pytest.mark.parametrize("durable", [True, False])
async def test_what_a_transaction_did_is_there_afterwards(durable, database):
    def work(tx: Transaction) -> str:
        add()(tx)
        return "done"

    assert await database.transact(work, durable=durable) == "done"
    assert await database.read(ids) == ["conv_1"]


async def test_an_error_passes_through_unchanged_and_undoes_everything(database):
    refusal = Refusal("no")

    def work(tx: Transaction) -> None:
        add()(tx)
        raise refusal

    with pytest.raises(Refusal) as raised:
        await database.transact(work)

    assert raised.value is refusal
    assert await database.read(ids) == []


@pytest.mark.parametrize("outer", ["transact", "read"])
@pytest.mark.parametrize("inner", ["transact", "read", "check_schema"])
async def test_transactions_do_not_nest(outer, inner, database):
    def work(tx: Transaction) -> None:
        arguments = () if inner == "check_schema" else (ids,)
        getattr(database, inner)(*arguments)

    with pytest.raises(RuntimeError, match="do not nest"):
        await getattr(database, outer)(work)

    await database.transact(add())  # and the thread is free again
    assert await database.read(ids) == ["conv_1"]


async def test_another_database_is_not_reached_from_inside_either(database, sqlite_url, keys):
    other = SqlDatabase(sqlite_url, keys)

    with pytest.raises(RuntimeError, match="do not nest"):
        await database.transact(lambda tx: other.read(ids))

    await other.aclose()


async def test_a_write_while_reading_fails(database):
    with pytest.raises(sa.exc.DBAPIError, match=r"readonly|read-only"):
        await database.read(add())

    assert await database.read(ids) == []


async def test_an_audit_event_while_reading_is_refused_and_not_lost(database):
    event = AuditEvent(action="test.done", actor=SYSTEM, subject="s", at=NOW)

    with pytest.raises(RuntimeError, match="read-only"):
        await database.read(lambda tx: tx.audit.append(event))


async def test_a_reader_sees_one_moment(database):
    looked, written = threading.Event(), threading.Event()

    def look_twice(tx: Transaction) -> tuple[list[str], list[str]]:
        before = ids(tx)
        looked.set()
        assert written.wait(PATIENCE_S)
        return before, ids(tx)

    reading = asyncio.ensure_future(database.read(look_twice))
    assert await asyncio.to_thread(looked.wait, PATIENCE_S)
    await database.transact(add())
    written.set()

    assert await reading == ([], [])
    assert await database.read(ids) == ["conv_1"]


class Gate:
    """A transaction that stands in the middle of its work until it is let go on."""

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self, tx: Transaction) -> None:
        add()(tx)
        self._reached.set()
        assert self._open.wait(PATIENCE_S)
        if self._fails:
            raise Refusal

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)

    def open(self) -> None:
        self._open.set()


async def turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("fails", "left"), [(False, ["conv_1"]), (True, [])])
async def test_a_cancelled_caller_is_released_when_the_transaction_is_over(fails, left, database):
    gate = Gate(fails=fails)
    caller = asyncio.ensure_future(database.transact(gate))
    await gate.reached()

    caller.cancel()
    await turns_of_the_loop()
    caller.cancel()  # a second Ctrl-C changes nothing
    await turns_of_the_loop()
    assert not caller.done()

    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await database.read(ids) == left


async def test_a_time_out_comes_after_the_transaction(database):
    gate = Gate()

    async def late() -> None:
        async with asyncio.timeout(PATIENCE_S) as limit:
            asyncio.get_running_loop().call_soon(limit.reschedule, 0)
            await database.transact(gate)

    caller = asyncio.ensure_future(late())
    await gate.reached()
    gate.open()

    with pytest.raises(TimeoutError):
        await caller
    assert await database.read(ids) == ["conv_1"]


async def test_closing_waits_for_what_was_handed_over(database_url, keys):
    database, gate = SqlDatabase(database_url, keys), Gate()
    caller = asyncio.ensure_future(database.transact(gate))
    await gate.reached()

    closing = asyncio.ensure_future(database.aclose())
    await turns_of_the_loop()
    assert not closing.done()
    gate.open()
    await closing
    await caller

    await database.aclose()
    with pytest.raises(RuntimeError, match="shutdown"):
        await database.transact(ids)
    reopened = SqlDatabase(database_url, keys)
    assert await reopened.read(ids) == ["conv_1"]
    await reopened.aclose()


async def test_nothing_is_opened_by_building_one(tmp_path, keys):
    database = SqlDatabase(f"sqlite:///{tmp_path / 'var' / 'shop.db'}", keys)
    await database.aclose()

    assert list(tmp_path.iterdir()) == []


async def test_the_callers_context_goes_along(database):
    run_id: ContextVar[str] = ContextVar("run_id", default="")
    run_id.set("run_1")

    assert await database.transact(lambda tx: run_id.get()) == "run_1"
    assert await database.read(lambda tx: run_id.get()) == "run_1"


async def test_a_message_to_nowhere_is_refused_by_the_database(database):
    def work(tx: Transaction) -> None:
        tx._connection.exec_driver_sql(  # type: ignore[attr-defined]
            "INSERT INTO messages (conversation_id, seq, author, text, at) "
            "VALUES ('nowhere', 1, 'agent', 'x', '2026-10-13 00:00:00')"
        )

    with pytest.raises(sa.exc.IntegrityError):
        await database.transact(work)


async def test_two_databases_do_not_mix(database, sqlite_url, keys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as source:
        source.execute("VACUUM INTO ?", (str(folder / "shop.db"),))
    source.close()
    other = SqlDatabase(f"sqlite:///{folder / 'shop.db'}", keys)

    await database.transact(add("conv_1"))
    await other.transact(add("conv_2"))

    assert await database.read(ids) == ["conv_1"]
    assert await other.read(ids) == ["conv_2"]
    await other.aclose()


async def test_many_writers_lose_no_update(database, database_url, keys):
    """Two programs on one database, each message counted once."""
    other = SqlDatabase(database_url, keys)
    await database.transact(add())

    def say(tx: Transaction) -> int:
        return tx.conversations.append(
            "conv_1", author=Author.CUSTOMER, text="xin chào", at=NOW, run_id=None
        )

    numbers = await asyncio.gather(*(one.transact(say) for one in (database, other) * 20))

    assert sorted(numbers) == list(range(1, 41))
    await other.aclose()


SYNCHRONOUS = {  # what a commit waits for
    "sqlite": ("PRAGMA synchronous", 2, 1),  # FULL, NORMAL
    "postgresql": ("SHOW synchronous_commit", "on", "off"),
}


async def test_only_what_need_not_survive_a_power_cut_is_written_lazily(database, database_url):
    question, full, lazy = SYNCHRONOUS[database_url.partition(":")[0]]

    def ask(tx: Transaction) -> object:
        return tx._connection.exec_driver_sql(question).scalar_one()  # type: ignore[attr-defined]

    assert await database.transact(ask) == full
    assert await database.transact(ask, durable=False) == lazy
    assert await database.transact(ask) == full


async def test_a_database_locked_for_too_long_is_unavailable(database_url, keys):
    database = SqlDatabase(database_url, keys, busy_timeout_s=0.05)
    event = AuditEvent(action="test.done", actor=SYSTEM, subject="s", at=NOW)

    with exclusive(database_url) as holder:
        holder.exec_driver_sql("UPDATE audit_head SET seq = seq")
        with pytest.raises(DatabaseUnavailable, match="did not answer"):
            await database.transact(lambda tx: tx.audit.append(event))

    await database.transact(lambda tx: tx.audit.append(event))
    assert (await database.read(lambda tx: tx.audit.head())).seq == 1
    await database.aclose()


async def test_reading_goes_on_while_somebody_writes(database_url, keys):
    database = SqlDatabase(database_url, keys, busy_timeout_s=0.05)

    with exclusive(database_url) as writer:
        writer.exec_driver_sql("UPDATE audit_head SET seq = 7")
        assert (await database.read(lambda tx: tx.audit.head())).seq == 0

    await database.aclose()


async def test_a_server_that_is_not_there_is_unavailable(keys, unused_tcp_port):
    url = f"postgresql://postgres@127.0.0.1:{unused_tcp_port}/shop"
    database = SqlDatabase(url, keys)

    with pytest.raises(DatabaseUnavailable, match="SUPPORT_AGENT_DATABASE__URL"):
        await database.read(ids)
    await database.aclose()


async def test_a_database_the_server_does_not_have_is_a_wrong_setting(postgres, keys):
    database = SqlDatabase(f"{postgres}_of_another_shop", keys)

    with pytest.raises(ConfigurationError, match="does not exist") as refused:
        await database.check_schema()
    assert refused.value.setting == "SUPPORT_AGENT_DATABASE__URL"
    await database.aclose()


async def test_a_server_that_only_lets_read_is_a_wrong_setting(postgres_url, keys):
    """A stand-by, for one."""
    database = SqlDatabase(postgres_url, keys)

    def write(tx: Transaction) -> None:
        tx._connection.exec_driver_sql("SET TRANSACTION READ ONLY")  # type: ignore[attr-defined]
        add()(tx)

    with pytest.raises(ConfigurationError, match="read-only"):
        await database.transact(write)
    await database.aclose()


async def test_a_server_that_was_restarted_is_used_again(postgres_url, keys):
    database = SqlDatabase(postgres_url, keys)
    await database.transact(add())

    with exclusive(postgres_url) as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert await database.read(ids) == ["conv_1"]
    await database.aclose()


def where(_: object) -> str:
    """The thread a transaction runs on."""
    return threading.current_thread().name


async def test_only_what_is_short_runs_on_the_callers_thread(database, database_url):
    on_sqlite, here = database_url.startswith("sqlite"), threading.current_thread().name

    assert await database.transact(where) != here
    assert await database.read(where) != here
    assert (await database.transact(where, durable=False) == here) is on_sqlite
    assert (await database.read(where, brief=True) == here) is on_sqlite
    assert (await database.run_read(where, brief=True) == here) is on_sqlite


async def test_a_second_event_loop_has_no_connection_of_its_own(sqlite_url, keys):
    database = SqlDatabase(sqlite_url, keys)
    await database.transact(where, durable=False)  # the first one has

    ran: list[str] = []

    def elsewhere() -> None:
        async def work() -> None:
            ran.append(await database.transact(where, durable=False))
            ran.append(await database.read(where, brief=True))

        asyncio.run(work())

    thread = threading.Thread(target=elsewhere, name="elsewhere")
    thread.start()
    await asyncio.to_thread(thread.join, PATIENCE_S)
    await database.aclose()

    assert len(ran) == 2
    assert "elsewhere" not in ran


async def test_a_step_row_waits_for_another_writer_beside_the_event_loop(sqlite_url, keys):
    """The loop goes on while the file is locked, and the row is written afterwards."""
    database = SqlDatabase(sqlite_url, keys)
    await database.transact(add("conv_1"), durable=False)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ran: list[str] = []

    def work(tx: Transaction) -> None:
        add("conv_2")(tx)
        ran.append(where(tx))

    writing = asyncio.ensure_future(database.transact(work, durable=False))
    await asyncio.sleep(0)
    assert not writing.done()
    assert await database.read(ids, brief=True) == ["conv_1"]
    other.execute("COMMIT")
    other.close()
    await writing

    assert ran != [threading.current_thread().name]
    assert len(ran) == 1
    assert await database.read(ids) == ["conv_1", "conv_2"]
    await database.aclose()


async def test_a_failure_on_the_callers_thread_undoes_everything(sqlite_url, keys):
    database = SqlDatabase(sqlite_url, keys)

    def fail(tx: Transaction) -> None:
        add("conv_9")(tx)
        raise Refusal

    with pytest.raises(Refusal):
        await database.transact(fail, durable=False)
    await database.transact(add("conv_1"), durable=False)

    assert await database.read(ids, brief=True) == ["conv_1"]
    await database.aclose()


@pytest.mark.parametrize("short", [{"durable": False}, {"brief": True}])
async def test_what_is_short_is_refused_after_closing_too(sqlite_url, keys, short):
    database = SqlDatabase(sqlite_url, keys)
    ask = database.read if "brief" in short else database.transact
    await ask(where, **short)
    await database.aclose()

    with pytest.raises(RuntimeError, match="shutdown"):
        await ask(where, **short)


async def test_an_error_of_a_statement_does_not_tell_what_was_written(shop_on_each):
    account = await add_destination(shop_on_each, "C006", account_number="770011770011")

    with pytest.raises(sa.exc.IntegrityError) as broken:
        await shop_on_each.write(lambda tx: tx.destinations.add(account))

    assert "770011770011" not in str(broken.value)

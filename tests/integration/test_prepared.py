"""Statements that the driver runs itself mean what they mean to SQLAlchemy, on either database."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from support_agent.adapters.db.prepared import Prepared, driven
from support_agent.adapters.db.statements import insert_new, storable, table_of
from support_agent.adapters.db.tables.people import ApproverRow
from support_agent.adapters.db.tables.talk import ConversationRow
from support_agent.adapters.db.workers import Workers

APPROVERS, CONVERSATIONS = table_of(ApproverRow), table_of(ConversationRow)

HANOI = timezone(timedelta(hours=7))
AT = datetime(2026, 10, 13, 9, 0, 0, 5, tzinfo=HANOI)
APPROVER = {
    "name": "lan",
    "person_id": "P-LAN",
    "level": 1,
    "limits": {"VND": 2_000_000},
    "customer_ids": ["C003"],
    "disabled": True,
    "token_hash": None,
}
CONVERSATION = {
    "id": "con_1",
    "channel": "cli",
    "account": "local",
    "external_contact": "C001",
    "customer_id": None,
    "assurance": 2,
    "language": "vi",
    "created_at": AT,
    "epoch": 0,
    "lease_until": 12.5,
}
ADD = Prepared(sa.insert(CONVERSATIONS).inline(), columns=[*CONVERSATION])
BY_ID = sa.select(CONVERSATIONS).where(CONVERSATIONS.c.id == sa.bindparam("of"))
GET = Prepared(BY_ID)
HERE = {"of": "con_1"}


@pytest.mark.parametrize(
    ("table", "row"),
    [(APPROVERS, APPROVER), (CONVERSATIONS, CONVERSATION)],
    ids=lambda it: str(it)[:9],
)
async def test_values_go_in_and_come_back_as_sqlalchemy_takes_and_reads_them(database, table, row):
    key = next(iter(table.primary_key))
    select = sa.select(table).where(key == sa.bindparam("of"))
    add, get = Prepared(sa.insert(table).inline(), columns=[*row]), Prepared(select)
    here = {"of": row[key.name]}

    def work(connection: sa.Connection):
        assert add.run(connection, row) == 1
        ours = get.first_named(connection, here)
        theirs = connection.execute(select, here).mappings().one()
        connection.execute(sa.delete(table))
        connection.execute(sa.insert(table), row)
        assert get.first_named(connection, here) == ours
        return ours, dict(theirs)

    ours, theirs = await database.run_write(work)

    assert ours == theirs
    assert {name: ours[name] for name in row} == row


async def test_a_naive_instant_is_not_stored(database):
    with pytest.raises(ValueError, match="naive"):
        await database.run_write(
            lambda c: ADD.run(c, CONVERSATION | {"created_at": datetime(2026, 10, 13)})  # noqa: DTZ001
        )


async def test_an_instant_is_written_in_utc_with_its_microseconds(database):
    def work(connection: sa.Connection) -> tuple[datetime, str]:
        ADD.run(connection, CONVERSATION)
        text = sa.select(sa.cast(CONVERSATIONS.c.created_at, sa.Text))
        return GET.first(connection, HERE).created_at, str(connection.scalar(text))

    read, stored = await database.run_write(work)

    assert (read, read.tzinfo) == (AT, UTC)
    assert stored.startswith("2026-10-13 02:00:00.000005")


async def test_rows_by_attribute_values_and_what_is_not_there(database):
    def work(connection: sa.Connection):
        ADD.run_each(connection, [CONVERSATION, CONVERSATION | {"id": "con_2"}])
        everything = Prepared(sa.select(CONVERSATIONS).order_by(CONVERSATIONS.c.id.desc()))
        none = {"of": "con_9"}
        return (
            [row.id for row in everything.all(connection, {})],
            GET.value(connection, HERE),
            GET.first(connection, none),
            GET.first_named(connection, none),
            GET.value(connection, none),
        )

    assert await database.run_write(work) == (["con_2", "con_1"], "con_1", None, None, None)


async def test_how_many_rows_changed(database):
    raised = Prepared(
        sa.update(CONVERSATIONS)
        .where(CONVERSATIONS.c.id == sa.bindparam("of"))
        .values(epoch=CONVERSATIONS.c.epoch + 1)
    )

    def work(connection: sa.Connection):
        counts = [insert_new(connection, CONVERSATIONS, CONVERSATION) for _ in range(2)]
        counts += [raised.run(connection, {"of": one}) for one in ("con_1", "con_9")]
        return counts, GET.first(connection, HERE).epoch

    assert await database.run_write(work) == ([1, 0, 1, 0], 1)


async def test_a_mistake_is_raised_as_sqlalchemy_raises_it_without_what_people_wrote(database):
    def work(connection: sa.Connection) -> None:
        ADD.run(connection, CONVERSATION)
        ADD.run(connection, CONVERSATION | {"external_contact": "0912 345 678"})

    with pytest.raises(IntegrityError) as raised:
        await database.run_write(work)

    assert "INSERT INTO conversations" in str(raised.value)
    assert "0912" not in str(raised.value)
    assert await database.run_read(lambda c: GET.first(c, HERE)) is None


async def test_a_statement_the_driver_does_not_understand(database):
    with pytest.raises(DBAPIError):
        await database.run_write(lambda c: driven(c, "SELEKT 1"))

    assert await database.run_read(lambda c: driven(c, "SELECT 1").fetchone()[0]) == 1


async def test_both_ways_of_running_share_one_transaction(database):
    def fails(connection: sa.Connection) -> None:
        ADD.run(connection, CONVERSATION)
        connection.execute(sa.insert(CONVERSATIONS), CONVERSATION | {"id": "con_2"})
        raise LookupError

    with pytest.raises(LookupError):
        await database.run_write(fails)
    count = Prepared(sa.select(sa.func.count()).select_from(CONVERSATIONS))
    assert await database.run_read(lambda c: count.value(c, {})) == 0

    def works(connection: sa.Connection) -> None:
        ADD.run(connection, CONVERSATION)
        with connection.begin_nested() as savepoint:
            ADD.run(connection, CONVERSATION | {"id": "con_3"})
            savepoint.rollback()
        connection.execute(sa.insert(CONVERSATIONS), CONVERSATION | {"id": "con_2"})

    await database.run_write(works)
    assert await database.run_read(lambda c: count.value(c, {})) == 2


async def test_who_listens_hears_of_each_statement(database):
    heard = []
    engine = database._engines.reading
    await database.run_read(lambda c: GET.first(c, HERE))
    sa.event.listen(engine, "before_cursor_execute", lambda *args: heard.append(args[2]))

    await database.run_read(lambda c: GET.first(c, HERE))

    assert [words.split()[0] for words in heard if words != "BEGIN"] == ["SELECT"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [("A100", True), ("Đơn số 1 🙂", True), ("", True), ("a\0b", False), ("\ud800", False)],
)
def test_what_a_text_column_can_hold(text: str, *, holds: bool):
    assert storable(text) is holds


@pytest.fixture
async def workers() -> AsyncIterator[Workers]:
    made = Workers(2, "test")
    yield made
    made.close()


class TestWorkers:
    async def test_what_is_raised_comes_to_whoever_waits_and_the_thread_goes_on(self, workers):
        def fails() -> None:
            raise LookupError("nothing there")

        with pytest.raises(LookupError, match="nothing there"):
            await workers.run(fails)
        assert await workers.run(lambda: 7) == 7

    async def test_no_thread_is_started_while_one_is_free(self, workers):
        for _ in range(5):
            await workers.run(lambda: None)
        assert len(workers._threads) == 1

    async def test_closing_ends_the_threads_and_takes_no_more(self, workers):
        await workers.run(lambda: None)
        workers.close()
        assert [thread.is_alive() for thread in workers._threads] == [False]
        with pytest.raises(RuntimeError, match="shutdown"):
            await workers.run(lambda: None)

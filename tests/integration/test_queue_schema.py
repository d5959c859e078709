"""The tables of procrastinate: made, brought up to date step by step, and checked before use."""

import asyncio
import threading
from pathlib import Path

import psycopg
import pytest
from procrastinate.schema import SchemaManager

from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.db.schema import SCHEMA_REVISION
from support_agent.adapters.queue.procrastinate_schema import known_steps, upgrade_queue
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable
from tests.queue_kit import PROCRASTINATE, open_with

SHAPE = """
    SELECT 'function', proname || pg_get_function_identity_arguments(oid) FROM pg_proc
    WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT 'index', indexdef FROM pg_indexes WHERE tablename LIKE 'procrastinate%'
    UNION ALL SELECT 'column', table_name || '.' || column_name || ' ' || udt_name
    FROM information_schema.columns WHERE table_name LIKE 'procrastinate%'
    ORDER BY 1, 2
"""


def shape(url: str) -> list[tuple[str, str]]:
    with psycopg.connect(url) as connection:
        return connection.execute(SHAPE).fetchall()


def run(url: str, statement: str, *arguments: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, arguments or None)


def test_a_second_upgrade_finds_nothing_to_do(postgres_url):
    first, second = upgrade_queue(postgres_url), upgrade_queue(postgres_url)

    assert first.from_step is None
    assert second.from_step == second.to_step == first.to_step == known_steps()[-1]


def test_an_older_queue_becomes_what_a_new_one_is(postgres_url, queue_url):
    *older, _, _, _ = known_steps()
    for step in older:
        path = Path(SchemaManager.get_migrations_path()) / f"{step}.sql"
        run(postgres_url, path.read_text())
    run(postgres_url, "INSERT INTO queue_schema VALUES ('procrastinate', %s)", older[-1])

    done = upgrade_queue(postgres_url)

    assert (done.from_step, done.to_step) == (older[-1], known_steps()[-1])
    assert shape(postgres_url) == shape(queue_url)


def test_two_upgrades_at_once_make_one_queue(postgres_url):
    failures: list[Exception] = []

    def work() -> None:
        try:
            upgrade_queue(postgres_url)
        except Exception as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []


def test_tables_that_somebody_else_made_are_left_alone(postgres_url):
    run(postgres_url, SchemaManager.get_schema())
    before = shape(postgres_url)

    with pytest.raises(ConfigurationError, match="nobody knows its version"):
        upgrade_queue(postgres_url)

    assert shape(postgres_url) == before


def test_a_queue_of_a_newer_procrastinate_is_left_alone(queue_url):
    run(queue_url, "UPDATE queue_schema SET step = '99.00.00_01_from_the_future'")

    with pytest.raises(ConfigurationError, match=r"is older than its queue \(99"):
        upgrade_queue(queue_url)


def test_sqlite_has_no_queue_to_upgrade(sqlite_url):
    with pytest.raises(ConfigurationError, match="needs PostgreSQL"):
        upgrade_queue(sqlite_url)


def test_no_server_is_told_as_such():
    with pytest.raises(DatabaseUnavailable):
        upgrade_queue("postgresql://nobody@127.0.0.1:1/nothing")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM queue_schema", "has no tables yet; run `support-agent db upgrade`"),
        (
            "UPDATE queue_schema SET step = '00.00.00_01_initial'",
            r"needs 03.* run `support-agent db upgrade`",
        ),
        ("UPDATE queue_schema SET step = '99'", "install the one that upgraded it"),
    ],
)
async def test_nothing_starts_on_a_queue_of_another_form(queue_url, statement, problem):
    await asyncio.to_thread(run, queue_url, statement)

    with pytest.raises(ConfigurationError, match=problem):
        async with open_with(queue_url, queue=PROCRASTINATE):
            pass


async def test_who_does_not_use_the_queue_does_not_look_at_it(queue_url):
    await asyncio.to_thread(run, queue_url, "DELETE FROM queue_schema")

    async with open_with(queue_url) as shop:
        assert shop.container.queue()


def test_our_own_schema_goes_up_and_down_beside_the_queue(queue_url):
    assert upgrade(queue_url, live=False).to_revision == SCHEMA_REVISION

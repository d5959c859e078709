"""The database is away in the middle of a turn: the turn fails as a whole, and is finished later."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress

import pytest

from support_agent.domain.errors import DatabaseUnavailable
from tests.cut_line import Line, line_to
from tests.killed_turns import asked_in, work_off
from tests.owners import Owner, agreed, end_everything, owner_of
from tests.places import Places, places_in

HASTY_S = 0.05  # how long it waits for a lock
DECIDES = 1  # the transaction of the turn in which the model's decision is stored
TOLD = "Đã hoàn 120.000"
Stored = dict[str, list[str]]


@pytest.fixture(scope="module")
def template(places: Places) -> tuple[str, str]:
    """A shop with a conversation in which a quote was answered, and nobody has read the answer."""
    return agreed(places)


@asynccontextmanager
async def way_to(
    url: str,
) -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]], Callable[[], Awaitable[None]]]]:
    """The address for who works, and how it goes away and comes back."""
    if url.startswith("sqlite"):
        with closing(
            sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        ) as other:

            async def lock() -> None:
                other.execute("BEGIN EXCLUSIVE")

            async def unlock() -> None:
                other.execute("ROLLBACK")

            yield url, lock, unlock
        return
    async with line_to(url) as (way, line):

        async def cut() -> None:
            line.cut()

        yield way, cut, line.mend


async def test_a_turn_whose_database_goes_away_at_any_commit_is_finished_later(places, template):
    commits = await commits_of_the_turn(places, template)

    for number in range(commits):
        url, notes = places.copy(template[0]), places.folder / f"away.{number}.notes"
        async with way_to(url) as (way, goes_away, comes_back):
            async with owner_of(way, notes, busy_s=HASTY_S) as owner:
                owner.has_no_patience()
                at(owner, number, goes_away)
                with pytest.raises(DatabaseUnavailable):
                    await owner.agent.work(template[1])
            await comes_back()
        assert_ends_well(await end_everything(url, notes, template[1]), str(notes))
        places.drop(url)


async def test_a_turn_waits_for_a_database_that_comes_back_and_is_still_the_same_owners(
    places, template
):
    url, notes = places.copy(template[0]), places.folder / "waits.notes"
    async with (
        way_to(url) as (way, goes_away, comes_back),
        owner_of(way, notes, busy_s=HASTY_S) as owner,
    ):
        first = owner.database.begun

        async def before(begun: int) -> None:
            if begun - first == DECIDES:
                await goes_away()
            elif begun - first == DECIDES + 1:
                await comes_back()

        owner.database.before = before
        await work_off(owner.shop, template[1])
        runs = await owner.shop.read(
            lambda tx: tx.runs.list(conversation_id=template[1], limit=10, before=None)
        )
    assert_ends_well(await end_everything(url, notes, template[1]), str(notes))
    places.drop(url)
    assert [run.attempts for run in runs] == [1, 1]


def at(owner: Owner, number: int, what: Callable[[], Awaitable[None]]) -> None:
    """It happens before the owner's transaction of that number from now, and once."""
    first = owner.database.begun

    async def before(begun: int) -> None:
        if begun - first == number:
            await what()

    owner.database.before = before


async def commits_of_the_turn(places: Places, template: tuple[str, str]) -> int:
    url = places.copy(template[0])
    async with owner_of(url, places.folder / "alone.notes") as owner:
        first = owner.database.begun
        await work_off(owner.shop, template[1])
        commits = owner.database.begun - first
    places.drop(url)
    assert commits > 6
    return commits


def assert_ends_well(end: Stored, notes: str) -> None:
    """One answer, one refund, told once, and nothing that was decided was decided again."""
    assert sum('"author": "agent"' in text for text in end["messages"]) == 2, end["messages"]
    assert sum(TOLD in text for text in end["messages"]) == 1, end["messages"]
    assert [('"REFUNDED"' in request) for request in end["refund_requests"]] == [True]
    assert len(end["ledger_payouts"]) == 1
    assert sum(asked_in(notes)) - len(asked_in(notes)) <= 1, "an answer was paid for twice"


# An answer that is lost: the server did it, and nobody was told.


@pytest.fixture(scope="module")
def on_postgres(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with places_in(tmp_path_factory.mktemp("line"), postgres) as opened:
        yield opened


async def test_a_turn_of_whose_commit_nobody_heard_is_neither_lost_nor_done_twice(on_postgres):
    places = on_postgres
    template = await asyncio.to_thread(agreed, places)
    commits = await commits_of_the_turn(places, template)

    for number in range(commits):
        url, notes = places.copy(template[0]), places.folder / f"unheard.{number}.notes"
        async with line_to(url) as (way, line), owner_of(way, notes, busy_s=HASTY_S) as owner:
            owner.has_no_patience()

            async def lose(line: Line = line) -> None:
                line.loses_answer_to_commit()

            at(owner, number, lose)
            with suppress(DatabaseUnavailable):
                await owner.agent.work(template[1])
        assert_ends_well(await end_everything(url, notes, template[1]), str(notes))
        places.drop(url)

"""Whoever waits for a turn is torn down while a transaction runs: it is whole, and known to be."""

import asyncio
from typing import Any

import pytest

from tests.killed_turns import asked_in, said, said_in_between, work_off
from tests.owners import Owner, agreed, end_everything, owner_of
from tests.places import Places
from tests.stored import Stored, differences, everything


class Refusal(Exception):
    """What a transaction fails with."""


@pytest.fixture(scope="module")
def template(places: Places) -> tuple[str, str]:
    return agreed(places)


async def stored_by(owner: Owner) -> Stored:
    return await owner.shop.container.database().run_read(everything)


async def stages(places: Places, template: tuple[str, str]) -> list[Stored]:
    """What is stored before each commit of the turn, and after the last."""
    url, found = places.copy(template[0]), []
    async with owner_of(url, places.folder / "stages.notes") as owner:

        async def look(_: int) -> None:
            found.append(await stored_by(owner))

        owner.database.before = look
        await work_off(owner.shop, template[1])
        found.append(await stored_by(owner))
    places.drop(url)
    assert len(found) > 7
    return found


async def cancelled_at(owner: Owner, number: int, conversation: str) -> asyncio.CancelledError:
    """The turn is cancelled when its transaction of that number has just been handed over."""
    first = owner.database.begun

    async def cancel(begun: int) -> None:
        if begun - first == number:
            assert owner.task is not None
            owner.task.cancel()

    owner.database.before = cancel
    owner.task = asyncio.ensure_future(owner.agent.work(conversation))
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await owner.task
    return cancelled.value


async def test_a_turn_cancelled_in_any_transaction_leaves_it_whole_and_the_next_owner_goes_on(
    places, template
):
    whole = await stages(places, template)

    for number in range(len(whole) - 2):  # after the last one nothing is left to cancel
        url, notes = places.copy(template[0]), places.folder / f"cancelled.{number}.notes"
        async with owner_of(url, notes) as owner:
            error = await cancelled_at(owner, number, template[1])
            left = await stored_by(owner)
        async with owner_of(url, notes) as next_one:
            await work_off(next_one.shop, template[1])
            attempts = await next_one.shop.read(lambda tx: [run.attempts for run in runs_of(tx)])
        end = await end_everything(url, notes, template[1])
        places.drop(url)

        assert error.__cause__ is None, number  # so it was committed
        assert ours(left) in [ours(stage) for stage in whole[number + 1 :]], number
        assert set(attempts) == {1}, number
        assert said(end) in (said(whole[-1]), said_in_between(said(whole[-1]))), number
        assert differences(whole[-1], end, but=TELLING) == [], number
        assert sum(asked_in(str(notes))) <= 3, number


TELLING = {"conversations", "messages", "outbox", "audit_events"}


def ours(stored: Stored) -> Stored:
    """Without what the gateway did, which no transaction of ours is about."""
    return {table: rows for table, rows in stored.items() if table != "ledger_payouts"}


def runs_of(tx: Any) -> Any:
    return tx.runs.list(conversation_id=None, limit=10, before=None)

"""A conversation that kills whoever answers it is given to a person, and the others go on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support_agent.domain.conversation import Author
from support_agent.domain.runs import Run, RunStatus, StopReason
from support_agent.domain.wording import stop_sentence
from support_agent.ports.model import ModelRequest
from tests.agent_kit import FunctionModel
from tests.crashes import let_leases_end
from tests.heart import requests_of, tasks
from tests.killed_turns import REFUNDED, WANTS_SMALL, YES, decided, message, work_off
from tests.kit import Shop
from tests.owners import Owner, owner_of
from tests.places import Places
from tests.workers import run_together

MOST_ATTEMPTS = 3
BOMB = "quả bom"
SORRY = stop_sentence(StopReason.HANDED_OFF, "vi")


@pytest.fixture(scope="module")
def template(places: Places) -> str:
    return places.shop()


@pytest.fixture
async def owner(places: Places, template: str):
    """Who is left."""
    url = places.copy(template)
    async with owner_of(url, places.folder / "poison.notes") as opened:
        yield opened
    places.drop(url)


async def posted(owner: Owner, text: str, conversation: str | None = None) -> str:
    return (await owner.agent.post(message(text, conversation))).conversation_id


async def kill_all_owners(shop: Shop, conversation: str, *, by: str = BOMB, more: int = 0) -> None:
    """Process after process takes it up and is gone, as often as may be, or more often."""
    job = {"do": "work_turn", "url": shop.url, "conversation": conversation, "killed_by": by}
    for _ in range(MOST_ATTEMPTS + more):
        died = await asyncio.to_thread(run_together, [job | {"notes": "/dev/null"}])
        assert died == [None]
        await let_leases_end(shop)


async def newest_run(shop: Shop, conversation: str) -> Run:
    (run,) = await shop.read(
        lambda tx: tx.runs.list(conversation_id=conversation, limit=1, before=None)
    )
    return run


async def said_by(shop: Shop, conversation: str, *authors: Author) -> list[str]:
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation))
    return [one.text for one in messages if one.author in authors]


async def test_a_run_that_killed_each_of_its_owners_is_a_dead_letter_and_a_person_is_called(owner):
    shop, conversation = owner.shop, await posted(owner, f"Tôi có {BOMB}")
    healthy = await posted(owner, "Bao giờ thì xong ạ?")

    await kill_all_owners(shop, conversation)
    run = await newest_run(shop, conversation)
    assert (run.status, run.attempts) == (RunStatus.RUNNING, MOST_ATTEMPTS)
    await work_off(shop, conversation)
    await work_off(shop, healthy)

    run = await newest_run(shop, conversation)
    assert (run.status, run.stop_reason) == (RunStatus.DEAD, StopReason.REPEATED_ERRORS)
    assert [task.conversation_id for task in await tasks(shop, "dead_run")] == [conversation]
    assert await said_by(shop, conversation, Author.AGENT) == [SORRY]
    assert await said_by(shop, healthy, Author.AGENT) == ["Vâng: Bao giờ thì xong ạ?"]
    assert await shop.read(lambda tx: tx.conversations.due(limit=10)) == ()


async def test_a_person_has_the_conversation_then_and_the_agent_is_silent(owner):
    shop, conversation = owner.shop, await posted(owner, BOMB)
    await kill_all_owners(shop, conversation)
    await work_off(shop, conversation)

    await posted(owner, f"Còn đó không? Tôi có {BOMB}", conversation)
    await work_off(shop, conversation)

    assert await said_by(shop, conversation, Author.AGENT) == [SORRY]
    assert (await newest_run(shop, conversation)).status is RunStatus.HANDED_OFF
    assert len(await tasks(shop, "dead_run")) == 1


async def test_what_a_dead_run_had_paid_is_told_all_the_same(owner):
    shop, conversation = owner.shop, await posted(owner, WANTS_SMALL)
    await work_off(shop, conversation)
    await posted(owner, YES, conversation)

    # The first one got on with it before it died: it is not counted.
    await kill_all_owners(shop, conversation, by='"request_id":', more=1)
    await work_off(shop, conversation)

    (request,) = await requests_of(shop)
    refunded = REFUNDED.replace("req_1", request.id)
    said = await said_by(shop, conversation, Author.AGENT, Author.NOTICE)
    assert [refunded in text for text in said] == [False, True]
    assert SORRY in said[-1]


async def test_what_a_run_had_paid_before_the_program_failed_is_told_all_the_same(owner):
    shop, conversation = owner.shop, await posted(owner, WANTS_SMALL)
    await work_off(shop, conversation)
    await posted(owner, YES, conversation)
    model = FunctionModel(decides_until_it_is_filed)

    async with owner_of(shop.url, Path("/dev/null"), parts={"model": model}) as faulty:
        with pytest.raises(RuntimeError):
            await faulty.agent.work(conversation)

    (request,) = await requests_of(shop)
    said = await said_by(shop, conversation, Author.AGENT, Author.NOTICE)
    assert REFUNDED.replace("req_1", request.id) in said[-1]
    assert (await newest_run(shop, conversation)).status is RunStatus.STOPPED


def decides_until_it_is_filed(request: ModelRequest) -> Any:
    if '"request_id":' in repr(request.turns):
        raise RuntimeError("a fault of the program")
    return decided(request)


async def test_who_stops_in_good_order_is_no_attempt(owner):
    shop, conversation = owner.shop, await posted(owner, "Bao giờ thì xong ạ?")

    for _ in range(2 * MOST_ATTEMPTS):
        owner.is_cancelled_at(0)
        await owner.starts(owner.agent.work(conversation))
        with pytest.raises(asyncio.CancelledError):
            await owner.goes_on()
    owner.database.before = None
    await work_off(shop, conversation)

    run = await newest_run(shop, conversation)
    assert (run.status, run.attempts) == (RunStatus.DONE, 1)
    assert await said_by(shop, conversation, Author.AGENT) == ["Vâng: Bao giờ thì xong ạ?"]

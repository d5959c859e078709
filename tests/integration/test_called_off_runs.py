"""A run is called off at any of its commits, by its own process or another one: all of it holds."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from support_agent.domain.conversation import Author
from support_agent.domain.errors import RunEnded, RunNotFound
from support_agent.domain.people import Principal, PrincipalKind, Proof
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import RunStatus, StopReason
from tests.agent_kit import FunctionModel, Reading, open_agent, take
from tests.heart import requests_of
from tests.killed_turns import work_off
from tests.kit import Shop
from tests.owners import Owner, agreed, end_everything, owner_of
from tests.places import Places
from tests.queue_kit import Gate, eventually, open_with, post

S = RequestStatus
STAFF = Principal(
    kind=PrincipalKind.STAFF, id="desk", person_id=None, proof=Proof.TOKEN, via="test"
)
STOPPED = "dừng"  # in what the customer is told


@pytest.fixture(scope="module")
def agreed_shop(places: Places) -> tuple[str, str]:
    """A conversation in which a quote was answered with a yes; nobody has read that yet."""
    return agreed(places)


async def newest(shop: Shop, conversation: str) -> Any:
    found = await shop.read(
        lambda tx: tx.runs.list(conversation_id=conversation, limit=1, before=None)
    )
    return found[0]


async def commits_of(places: Places, agreed_shop: tuple[str, str]) -> range:
    """Every commit of the turn; on a server, where each is a second, some of them."""
    url = places.copy(agreed_shop[0])
    async with owner_of(url, places.folder / "alone.notes") as owner:
        first = owner.database.begun
        await work_off(owner.shop, agreed_shop[1])
        commits = owner.database.begun - first
    places.drop(url)
    assert commits > 6
    return range(0, commits, 1 if url.startswith("sqlite") else 3)


async def cancelled(owner: Owner, conversation: str) -> bool:
    """Whether there was a run to call off."""
    run = await newest(owner.shop, conversation)
    try:
        await owner.agent.cancel(run.id, by=STAFF)
    except RunEnded:
        return False
    return True


async def holds(shop: Shop, conversation: str) -> None:
    """It ended once, every call has its answer, and the customer was told once what is true."""
    run = await newest(shop, conversation)
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation))
    steps = await shop.read(lambda tx: tx.runs.steps(run.id))
    mine = [m for m in messages if m.author is Author.AGENT and m.run_id == run.id]
    assert (run.status, run.stop_reason) == (RunStatus.STOPPED, StopReason.CANCELLED)
    assert [message.seq for message in mine] == [run.answer_seq]
    assert all(one.observation for step in steps for one in step.calls)
    for request in await requests_of(shop):
        about = [m.text for m in messages if m.seq >= run.answer_seq and request.id in m.text]
        assert about, f"nothing was said of {request.id}"


async def paid_and_told(shop: Shop, conversation: str) -> None:
    """What was filed is paid by its own rules, and the customer hears of it exactly once."""
    requests = await requests_of(shop)
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation))
    for request in requests:
        assert request.status is S.REFUNDED
    told = sum("Đã hoàn 120.000" in message.text for message in messages)
    assert told == len(requests)


async def test_at_each_commit_by_another_process(places, agreed_shop):
    notes = places.folder / "other.notes"
    for number in await commits_of(places, agreed_shop):
        url = places.copy(agreed_shop[0])
        async with owner_of(url, notes) as owner, owner_of(url, notes) as other:
            owner.stops_at(number)
            assert await owner.starts(owner.agent.work(agreed_shop[1])), number
            begun = await newest(other.shop, agreed_shop[1])
            was_running = begun.status is RunStatus.RUNNING
            assert await cancelled(other, agreed_shop[1]) is was_running, number
            assert await owner.goes_on() is None, number
            if was_running:
                await holds(other.shop, agreed_shop[1])
        await end_everything(url, notes, agreed_shop[1])
        async with owner_of(url, notes) as last:
            await paid_and_told(last.shop, agreed_shop[1])
        places.drop(url)


async def test_at_each_commit_by_its_own_process(places, agreed_shop):
    notes = places.folder / "own.notes"
    for number in await commits_of(places, agreed_shop):
        url = places.copy(agreed_shop[0])
        async with owner_of(url, notes) as owner:
            did: list[bool] = []
            first = owner.database.begun

            async def cancel(begun: int, first=first, number=number, owner=owner, did=did) -> None:
                if begun - first == number:
                    owner.database.before = None
                    did.append(await cancelled(owner, agreed_shop[1]))

            before = await newest(owner.shop, agreed_shop[1])
            owner.database.before = cancel
            assert await owner.agent.work(agreed_shop[1]) is None, number
            assert len(did) == 1, number
            if did[0]:
                await holds(owner.shop, agreed_shop[1])
            else:  # before the run began there was none to call off, and it came to its end
                assert (await newest(owner.shop, agreed_shop[1])).id != before.id or number > 0
        await end_everything(url, notes, agreed_shop[1])
        async with owner_of(url, notes) as last:
            await paid_and_told(last.shop, agreed_shop[1])
        places.drop(url)


async def test_a_model_that_thinks_is_not_waited_for(shop_on_each: Shop):
    gate = Gate(is_open=False)
    shop_on_each.model.model = gate
    agent = shop_on_each.container.agent()
    posted = await post(shop_on_each)
    working = asyncio.create_task(agent.work(posted.conversation_id))
    await eventually(lambda: gate.waiting)
    run = await newest(shop_on_each, posted.conversation_id)

    await agent.cancel(run.id, by=STAFF)

    assert await asyncio.wait_for(working, 5) is None
    assert gate.waiting == 0
    await holds(shop_on_each, posted.conversation_id)
    result = await agent.answer_to(posted)
    assert (result.stop_reason, result.run_id) == (StopReason.CANCELLED, run.id)
    assert result.answer
    with pytest.raises(RunEnded, match="stopped"):
        await agent.cancel(run.id, by=STAFF)
    (event,) = await shop_on_each.read(
        lambda tx: [row.event for row in tx.audit.rows() if row.event.action == "run.cancelled"]
    )
    assert (event.actor.id, event.subject) == ("desk", run.id)


async def test_a_run_that_there_is_not_is_not_found(shop: Shop):
    with pytest.raises(RunNotFound):
        await shop.container.agent().cancel("run_nothing", by=STAFF)


async def test_what_was_written_meanwhile_is_answered_by_the_next_turn(shop_on_each: Shop):
    gate = Gate(is_open=False)
    shop_on_each.model.model = gate
    agent = shop_on_each.container.agent()
    posted = await post(shop_on_each)
    working = asyncio.create_task(agent.work(posted.conversation_id))
    await eventually(lambda: gate.waiting)
    later = await post(shop_on_each, "Còn đó không?", conversation=posted.conversation_id)
    run = await newest(shop_on_each, posted.conversation_id)
    await agent.cancel(run.id, by=STAFF)
    await asyncio.wait_for(working, 5)
    gate.open.set()

    await agent.work(posted.conversation_id)

    assert (await agent.answer_to(later)).answer == "Vâng."


async def test_a_run_that_was_called_off_can_be_resumed(shop_on_each: Shop):
    gate = Gate(is_open=False)
    shop_on_each.model.model = gate
    agent = shop_on_each.container.agent()
    posted = await post(shop_on_each)
    working = asyncio.create_task(agent.work(posted.conversation_id))
    await eventually(lambda: gate.waiting)
    run = await newest(shop_on_each, posted.conversation_id)
    await agent.cancel(run.id, by=STAFF)
    await asyncio.wait_for(working, 5)
    gate.open.set()

    carry = await agent.reopen(run.id, operator=None, via="test")
    await carry()

    result = await agent.answer_to(posted)
    assert (result.status, result.answer) == (RunStatus.DONE, "Vâng.")


async def test_a_tool_that_runs_is_broken_off_and_its_call_answered(shop_url: str):
    async def slow() -> Any:
        started.set()
        await asyncio.Event().wait()

    def decide(request: Any) -> Any:
        seen.append(request.turns)
        return [("probe", "{}"), ("probe", "{}")] if len(seen) == 1 else "Vâng."

    started, seen = asyncio.Event(), list[Any]()
    async with open_agent(shop_url, tools=[Reading(slow)], model=FunctionModel(decide)) as shop:
        agent = shop.container.agent()
        posted = await post(shop)
        working = asyncio.create_task(agent.work(posted.conversation_id))
        await started.wait()
        run = await newest(shop, posted.conversation_id)
        await agent.cancel(run.id, by=STAFF)
        await asyncio.wait_for(working, 5)
        await holds(shop, posted.conversation_id)
        (step,) = await shop.read(lambda tx: tx.runs.steps(run.id))
        assert {one.observation.error_code for one in step.calls} == {"NOT_EXECUTED"}

        await take(shop, "Chào", conversation=posted.conversation_id)

    results = [turn.content for turn in seen[-1] if hasattr(turn, "content")]
    assert len(results) == 2
    assert all("NOT_EXECUTED" in content for content in results)


async def test_a_conversation_that_a_person_took_is_not_talked_into(shop: Shop):
    gate = Gate(is_open=False)
    shop.model.model = gate
    agent = shop.container.agent()
    posted = await post(shop)
    working = asyncio.create_task(agent.work(posted.conversation_id))
    await eventually(lambda: gate.waiting)
    await shop.container.hand_off_desk().take(posted.conversation_id, by=STAFF)
    run = await newest(shop, posted.conversation_id)

    await agent.cancel(run.id, by=STAFF)
    await asyncio.wait_for(working, 5)

    messages = await shop.read(lambda tx: tx.conversations.messages(posted.conversation_id))
    assert [message.author for message in messages] == [Author.CUSTOMER]


async def test_what_was_counted_ahead_for_its_next_call_is_given_back(shop_url: str):
    gate = Gate(is_open=False)
    async with open_with(shop_url, gate) as shop:
        agent = shop.container.agent()
        posted = await post(shop)
        working = asyncio.create_task(agent.work(posted.conversation_id))
        await eventually(lambda: gate.waiting)
        held = await _counted(shop, posted.conversation_id)
        run = await newest(shop, posted.conversation_id)
        await agent.cancel(run.id, by=STAFF)
        await asyncio.wait_for(working, 5)
        left = await _counted(shop, posted.conversation_id)

    assert held > 1_000  # a whole answer may have come
    assert left == 0  # none did


async def _counted(shop: Shop, conversation_id: str) -> int:
    statement = sa.text("SELECT COALESCE(SUM(output_tokens), 0) FROM usage_counters")
    return await shop.container.database().run_read(
        lambda connection: connection.execute(statement).scalar_one()
    )

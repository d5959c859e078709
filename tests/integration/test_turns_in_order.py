"""One turn of a conversation at a time, in the order of the messages, whoever dies and whoever waits."""

import asyncio
import json
import threading
from contextlib import suppress
from typing import Any

import pytest

from support_agent.domain.conversation import Author
from support_agent.domain.runs import RunStatus
from support_agent.ports.model import AssistantCalls, CustomerTurn, ModelRequest, ToolResult
from tests.agent_kit import FunctionModel
from tests.crashes import let_leases_end
from tests.heart import assert_sound, requests_of
from tests.killed_turns import WANTS_SMALL, YES, decided, message, work_off
from tests.kit import Shop
from tests.owners import Died, Owner, agreed, owner_of
from tests.places import Places

PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def template(places: Places) -> tuple[str, str]:
    return agreed(places)


@pytest.fixture
async def owners(places: Places, template: tuple[str, str]):
    """Two programs on one database, and a conversation in which a yes to a quote is unread."""
    url, notes = places.copy(template[0]), places.folder / "order.notes"
    async with owner_of(url, notes) as one, owner_of(url, notes) as other:
        yield one, other, template[1]
    places.drop(url)


async def messages_in(shop: Shop, conversation: str) -> Any:
    return await shop.read(lambda tx: tx.conversations.messages(conversation))


async def runs_in(shop: Shop, conversation: str) -> Any:
    """Oldest first."""
    runs = await shop.read(
        lambda tx: tx.runs.list(conversation_id=conversation, limit=20, before=None)
    )
    return [*reversed(runs)]


async def assert_read_in_order(shop: Shop, conversation: str) -> None:
    """Each message by one run, and no run before the one of an earlier message had ended."""
    messages = await messages_in(shop, conversation)
    runs = await runs_in(shop, conversation)
    read = [
        (run.id, one.seq)
        for run in runs
        for one in messages
        if (one.author, one.run_id) == (Author.CUSTOMER, run.id)
    ]
    assert [seq for _, seq in read] == [m.seq for m in messages if m.author is Author.CUSTOMER]
    ends = [run.answer_seq for run in runs]
    assert ends == sorted(ends)
    assert all(run.status in {RunStatus.DONE, RunStatus.WAITING_CUSTOMER} for run in runs)
    assert [run.epoch for run in runs] == sorted({run.epoch for run in runs})


async def test_three_messages_at_once_are_answered_in_order_and_one_at_a_time(owners):
    one, other, conversation = owners
    texts = ("Câu một", "Câu hai", "Câu ba")

    results = await asyncio.gather(
        *(
            owner.agent.take(message(text, conversation))
            for owner, text in zip((one, other, one), texts, strict=True)
        )
    )

    await assert_read_in_order(one.shop, conversation)
    said = {m.text: m.run_id for m in await messages_in(one.shop, conversation)}
    assert [result.run_id for result in results] == [said[text] for text in texts]
    assert all(result.answer for result in results)


async def test_two_workers_woken_for_one_message_make_one_turn_of_it(owners):
    one, other, conversation = owners

    await asyncio.gather(*(owner.agent.work(conversation) for owner in (one, other)))

    assert len(await runs_in(one.shop, conversation)) == 2  # of the quote, and of the yes
    (request,) = await requests_of(one.shop)
    assert [attempt.number for attempt in await attempts_of(one.shop, request.id)] == [1]
    await assert_sound(one.shop)


async def attempts_of(shop: Shop, request_id: str) -> Any:
    return await shop.read(lambda tx: tx.attempts.of(request_id))


async def test_a_message_that_is_just_being_posted_is_answered_before_the_next(owners):
    """The next one is taken while the transaction of the first has written and not committed."""
    one, other, conversation = owners
    await work_off(one.shop, conversation)
    gate = Gate(one)

    posting = asyncio.ensure_future(one.agent.post(message("Câu một", conversation)))
    await gate.reached()
    taking = asyncio.ensure_future(other.agent.take(message("Câu hai", conversation)))
    await other_is_waiting(other, taking)
    gate.open()
    await asyncio.gather(posting, taking)
    await work_off(other.shop, conversation)

    await assert_read_in_order(one.shop, conversation)


class Gate:
    """Holds a transaction of an owner open when everything in it is written."""

    def __init__(self, owner: Owner) -> None:
        self._written, self._open = threading.Event(), threading.Event()
        transact = owner.database.transact

        def held(fn: Any, *, durable: bool = True) -> Any:
            owner.database.transact = transact

            def work(tx: Any) -> Any:
                result = fn(tx)
                self._written.set()
                assert self._open.wait(PATIENCE_S)
                return result

            return transact(work, durable=durable)

        owner.database.transact = held

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._written.wait, PATIENCE_S)

    def open(self) -> None:
        self._open.set()


async def other_is_waiting(owner: Owner, task: asyncio.Task[Any]) -> None:
    """Its transaction is begun, and the lock it needs is not to be had."""
    if owner.shop.url.startswith("sqlite"):
        return  # it waits for the one writer's lock
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    database = owner.shop.container.database()
    async with asyncio.timeout(PATIENCE_S):
        while not await database.run_read(lambda c: c.exec_driver_sql(waiting).scalar()):
            assert not task.done()


async def test_the_first_message_delivered_again_after_a_crash_opens_no_second_conversation(
    places, template
):
    for number in range(6):
        url, notes = places.copy(template[0]), places.folder / f"first.{number}.notes"
        incoming = message("Chào shop", None, "first")
        async with owner_of(url, notes) as one, owner_of(url, notes) as other:
            one.dies_at(number)
            with suppress(Died):
                await one.agent.take(incoming)
            await let_leases_end(other.shop)
            result = await other.agent.take(incoming)
            again = await other.agent.take(incoming)
            conversations = await other.shop.read(
                lambda tx: tx.conversations.list(customer_id=None, limit=10, before=None)
            )
            said = [m.text for m in await messages_in(other.shop, result.conversation_id)]
        places.drop(url)
        assert (again.run_id, again.answer) == (result.run_id, result.answer), number
        assert len(conversations) == 2, number  # with the one of the template
        assert said == ["Chào shop", "Vâng: Chào shop"], number


async def test_calls_that_a_dead_owner_left_open_are_run_and_the_answered_ones_are_not(
    places, template
):
    """Three of one reply: a lookup, one that is malformed, and the filing. Row 12."""
    for number in range(1, 5):
        url, notes = places.copy(template[0]), places.folder / f"batch.{number}.notes"
        model = FunctionModel(asks_for_three)
        async with (
            owner_of(url, notes, parts={"model": model}) as one,
            owner_of(url, notes, parts={"model": model}) as other,
        ):
            one.dies_at(number)
            with pytest.raises(Died):
                await one.agent.work(template[1])
            await let_leases_end(other.shop)
            await work_off(other.shop, template[1])
            run = (await runs_in(other.shop, template[1]))[-1]
            steps = await other.shop.read(lambda tx, run=run: tx.runs.steps(run.id))
            requests = await requests_of(other.shop)
            await assert_sound(other.shop)
        places.drop(url)
        observations = [call.observation for step in steps for call in step.calls]
        assert [one.error_code for one in observations] == [None, "INVALID_ARGUMENTS", None]
        assert len(requests) == 1
        assert all_answered(model.requests)
        assert len(model.requests) == (
            3 if number == 1 else 2
        )  # what was stored is not asked again


def asks_for_three(request: ModelRequest) -> Any:
    asked = decided(request)
    if not isinstance(asked, list):
        return asked
    about = json.dumps({"order_id": "A102"})
    return [("lookup_order", about), ("lookup_order", '{"order_id":'), *asked]


def all_answered(requests: list[ModelRequest]) -> bool:
    """Every call a model was shown stands before its result."""
    for request in requests:
        open_calls: list[str] = []
        for turn in request.turns:
            if isinstance(turn, AssistantCalls):
                open_calls += [call.id for call in turn.calls]
            elif isinstance(turn, ToolResult):
                open_calls.remove(turn.call.id)
            elif isinstance(turn, CustomerTurn) and open_calls:
                return False
        if open_calls:
            return False
    return True


async def test_who_writes_after_a_crash_gets_the_turn_that_it_broke_and_then_an_answer(owners):
    """Row 7: what is stored ends in a call without an answer, and the customer writes.

    What they wrote since is unclear, so the filing that their yes was for asks them again.
    """
    one, other, conversation = owners
    one.dies_at(2)  # the filing was decided, and not done
    with pytest.raises(Died):
        await one.agent.work(conversation)
    await let_leases_end(other.shop)

    result = await other.agent.take(message("Sao rồi ạ?", conversation))

    assert result.answer.startswith("Vâng: Sao rồi ạ?")
    (quote,) = result.quotes
    assert await requests_of(other.shop) == ()
    await other.agent.take(message(YES, conversation))
    assert [request.quote_id for request in await requests_of(other.shop)] == [quote.id]
    await assert_read_in_order(other.shop, conversation)
    await assert_sound(other.shop)


async def test_a_yes_that_came_before_its_quote_was_shown_files_nothing(owners):
    one, other, conversation = owners
    await work_off(one.shop, conversation)
    one.stops_at(2)  # it was quoted, and is not shown yet
    await one.agent.post(message(WANTS_SMALL.replace("A102", "A103"), conversation))
    assert await one.starts(one.agent.work(conversation))
    await other.agent.post(message(YES, conversation))
    await one.goes_on()
    await work_off(other.shop, conversation)

    assert [request.order_id for request in await requests_of(one.shop)] == ["A102"]
    await assert_read_in_order(one.shop, conversation)

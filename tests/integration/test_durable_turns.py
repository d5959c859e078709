"""Messages are kept, merged, answered once and in order; a turn goes on where its owner left it."""

import asyncio
from dataclasses import replace

import pytest

from support_agent.agent.turns import Incoming, Posted
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import InvalidInput
from support_agent.domain.runs import RunStatus, StopReason
from support_agent.ports.model import AssistantTurn, CustomerTurn
from tests.agent_kit import (
    FunctionModel,
    Reading,
    Writing,
    call,
    change,
    forever,
    open_agent,
    rows,
    take,
    told,
    written,
)
from tests.kit import Shop, binding_of

A100 = "Đơn A100 của tôi?"


def incoming(text: str, conversation: str | None = None, **more: object) -> Incoming:
    return Incoming(text=text, binding=binding_of("C001"), conversation_id=conversation, **more)


async def post(shop: Shop, text: str, conversation: str | None = None, **more: object) -> Posted:
    return await shop.container.agent().post(incoming(text, conversation, **more))


def authors(shop: Shop) -> list[tuple[str, str]]:
    return rows(shop.url, "SELECT author, text FROM messages ORDER BY seq")


async def test_a_posted_message_is_kept_and_answered_when_somebody_works(shop: Shop):
    shop.model.play({"answer": "Đã giao."})
    posted = await post(shop, A100)
    assert rows(shop.url, "SELECT count(*) FROM runs") == [(0,)]
    due = await shop.read(lambda tx: tx.conversations.due(limit=5))
    assert due == (posted.conversation_id,)

    assert await shop.container.agent().work(posted.conversation_id) is None

    assert authors(shop) == [("customer", A100), ("agent", "Đã giao.")]
    assert await shop.read(lambda tx: tx.conversations.due(limit=5)) == ()
    # Nobody waited for the answer: it is to be sent.
    topics = rows(shop.url, "SELECT topic, key FROM outbox")
    assert topics == [("conversation.message", f"{posted.conversation_id}:2")]


async def test_an_answer_that_was_waited_for_is_not_sent_as_well(shop: Shop):
    await shop.say(A100)
    assert rows(shop.url, "SELECT count(*) FROM outbox") == [(0,)]


async def test_working_where_there_is_nothing_to_do_changes_nothing(shop: Shop):
    first = await shop.say(A100)
    before = rows(shop.url, "SELECT * FROM conversations")

    assert await shop.container.agent().work(first.conversation_id) is None
    assert await shop.container.agent().work("con_unknown") is None

    assert rows(shop.url, "SELECT * FROM conversations") == before


async def test_messages_that_came_together_are_one_turn(shop: Shop):
    shop.model.play({"answer": "Vâng."})
    posted = await post(shop, "Đơn A100")
    await post(shop, "của tôi", posted.conversation_id)
    await post(shop, "giao chưa?", posted.conversation_id)

    await shop.container.agent().work(posted.conversation_id)

    (request,) = shop.model.requests
    assert [turn.text for turn in request.turns] == ["Đơn A100", "của tôi", "giao chưa?"]
    assert rows(shop.url, "SELECT status, trigger_seq FROM runs") == [("done", 3)]


async def test_a_burst_is_waited_for_until_it_is_over(shop_url: str):
    async with open_agent(shop_url, queue={"debounce_seconds": 30}) as shop:
        shop.model.play({"answer": "Vâng."})
        posted = await post(shop, "Đơn A100")
        agent = shop.container.agent()

        later = await agent.work(posted.conversation_id)

        assert later is not None
        assert 25 < later <= 30
        assert not shop.model.requests
        change(shop_url, "UPDATE messages SET posted_at = posted_at - 29")
        await post(shop, "của tôi", posted.conversation_id)
        assert await agent.work(posted.conversation_id) is not None
        change(shop_url, "UPDATE messages SET posted_at = posted_at - 31")
        assert await agent.work(posted.conversation_id) is None
        assert len(shop.model.requests) == 1


async def test_who_goes_on_and_on_writing_is_answered_in_between(shop_url: str):
    async with open_agent(shop_url, queue={"debounce_seconds": 30}) as shop:
        shop.model.play({"answer": "Vâng."})
        posted = await post(shop, "Đơn A100")
        change(shop_url, "UPDATE messages SET posted_at = posted_at - 150")
        await post(shop, "của tôi", posted.conversation_id)

        assert await shop.container.agent().work(posted.conversation_id) is None


async def test_a_message_under_the_same_id_is_one_message(shop: Shop):
    shop.model.play({"answer": "Vâng."})
    first = await shop.container.agent().take(incoming(A100, message_id="m-1"))
    again = await shop.container.agent().take(incoming(A100, message_id="m-1"))
    here = await shop.container.agent().take(
        incoming("Bản sao", first.conversation_id, message_id="m-1")
    )
    posted = await post(shop, A100, message_id="m-1")

    assert again == here == first
    assert posted == Posted(conversation_id=first.conversation_id, seq=1, is_known=True)
    assert len(authors(shop)) == 2
    assert rows(shop.url, "SELECT count(*) FROM runs") == [(1,)]


async def test_the_same_answer_still_shows_its_quote(shop: Shop):
    call_, answer = call("quote_refund", order_id="A100"), {"answer": "Bạn đồng ý không?"}
    shop.model.play(call_, answer)
    first = await shop.container.agent().take(incoming("hoàn A100", message_id="m-1"))
    again = await shop.container.agent().take(incoming("hoàn A100", message_id="m-1"))
    assert again == first
    assert first.quotes


async def test_the_same_message_twice_at_once_is_answered_once(shop: Shop):
    shop.model.play({"answer": "Vâng."})
    agent = shop.container.agent()
    results = await asyncio.gather(*(agent.take(incoming(A100, message_id="m")) for _ in range(5)))
    assert {result.run_id for result in results} == {results[0].run_id}
    assert len(shop.model.requests) == 1


async def test_another_customers_message_id_is_another_message(shop: Shop):
    shop.model.play({"answer": "Vâng."})
    first = await shop.container.agent().take(incoming(A100, message_id="m-1"))
    shop.model.play({"answer": "Vâng."})
    theirs = replace(incoming(A100, message_id="m-1"), binding=binding_of("C002"))
    other = await shop.container.agent().take(theirs)
    assert other.conversation_id != first.conversation_id


@pytest.mark.parametrize("message_id", ["", " ", "x" * 201, "a\0b", "a\ud800"])
async def test_an_id_that_is_none_is_refused(shop: Shop, message_id: str):
    with pytest.raises(InvalidInput, match="message_id"):
        await shop.container.agent().take(incoming(A100, message_id=message_id))
    assert authors(shop) == []


async def test_what_an_operator_writes_is_a_turn_of_its_own(shop: Shop):
    """Who wrote for the customer may not approve it: that is told apart by run."""
    shop.model.play({"answer": "Một."}, {"answer": "Hai."})
    posted = await post(shop, A100, operator="lan")
    await post(shop, "Còn A101?", posted.conversation_id, operator="minh")

    await shop.container.agent().work(posted.conversation_id)

    runs = rows(shop.url, "SELECT operator, status FROM runs ORDER BY id")
    assert runs == [("lan", "done"), ("minh", "done")]
    assert [turn.text for turn in shop.model.requests[-1].turns] == [A100, "Một.", "Còn A101?"]


async def test_a_run_is_as_sure_of_who_writes_as_its_channel_was(shop: Shop):
    binding = binding_of("C001", assurance=Assurance.NONE)
    shop.model.play(call("list_orders"), {"answer": "Vâng."})
    posted = await shop.container.agent().post(Incoming(text=A100, binding=binding))
    await shop.container.agent().work(posted.conversation_id)
    assert "IDENTITY_NOT_VERIFIED" in told(shop.model.requests[-1])[0]


async def test_a_yes_that_was_written_before_the_quote_was_shown_is_none(shop_url: str):
    async def decide(request):
        if len(model.requests) == 1:
            return [("quote_refund", '{"order_id": "A104"}')]
        if len(model.requests) == 2:
            asked.set()
            await go_on.wait()
            return "Bạn có đồng ý không?"
        if len(model.requests) == 3:
            quote = rows(shop_url, "SELECT id FROM quotes")[0][0]
            return [("request_refund", f'{{"quote_id": "{quote}"}}')]
        return "Xong."

    asked, go_on, model = asyncio.Event(), asyncio.Event(), FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        first = asyncio.create_task(take(shop, "Hoàn tiền đơn A104"))
        await asked.wait()
        ((conversation,),) = rows(shop_url, "SELECT id FROM conversations")
        second = asyncio.create_task(take(shop, "đồng ý", conversation=conversation))
        await written(shop_url, 2)
        go_on.set()
        _, answered = await asyncio.gather(first, second)

    assert "NO_CONSENT" in told(model.requests[-1])[-1]
    assert answered.requests == ()
    assert rows(shop_url, "SELECT count(*) FROM refund_requests") == [(0,)]


async def test_a_turn_stands_in_the_view_behind_what_was_said_before_it(shop_url: str):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def decide(request):
        if len(model.requests) == 1:
            asked.set()
            await go_on.wait()
        return f"Về: {request.turns[-1].text}"

    model = FunctionModel(decide)
    async with open_agent(shop_url, model=model) as shop:
        posted = await post(shop, "Một")
        working = asyncio.create_task(shop.container.agent().work(posted.conversation_id))
        await asked.wait()
        await post(shop, "Hai", posted.conversation_id)
        await post(shop, "Ba", posted.conversation_id)
        go_on.set()
        await working
        await take(shop, "Bốn", conversation=posted.conversation_id)

    seen = [turn.text for turn in model.requests[-1].turns]
    assert seen == ["Một", "Về: Một", "Hai", "Ba", "Về: Ba", "Bốn"]
    assert [type(turn) for turn in model.requests[1].turns][1:] == [
        AssistantTurn,
        CustomerTurn,
        CustomerTurn,
    ]


async def test_a_worker_that_stops_lets_its_turn_go_and_the_next_one_goes_on(shop_url: str):
    """Nothing is asked or done twice, and it is no failed attempt."""
    reached = asyncio.Event()

    async def hang(_tx=None, _context=None):
        reached.set()
        await forever()

    wrote = Writing(lambda tx, context: None)
    probe = Reading(hang)
    async with open_agent(shop_url, tools=[wrote, probe]) as shop:
        shop.model.play({"calls": [call("write"), call("probe")]}, {"answer": "Xong."})
        posted = await post(shop, A100)
        working = asyncio.create_task(shop.container.agent().work(posted.conversation_id))
        await reached.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert rows(shop_url, "SELECT status, attempts FROM runs") == [("running", 0)]
        assert rows(shop_url, "SELECT lease_until FROM conversations") == [(None,)]

        probe._do = lambda: {"seen": 1}
        assert await shop.container.agent().work(posted.conversation_id) is None

    assert rows(shop_url, "SELECT status, attempts FROM runs") == [("done", 1)]
    assert len(shop.model.requests) == 2
    assert wrote.ran == 1
    assert told(shop.model.requests[-1]) == ['{"done":true}', '{"seen":1}']


async def test_the_owners_lease_is_waited_for(shop_url: str):
    asked = asyncio.Event()

    async def decide(_):
        asked.set()
        return await forever()

    async with open_agent(shop_url, model=FunctionModel(decide)) as shop:
        posted = await post(shop, A100)
        working = asyncio.create_task(shop.container.agent().work(posted.conversation_id))
        await asked.wait()

        later = await shop.container.agent().work(posted.conversation_id)

        assert later is not None
        assert 100 < later <= 150
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_run_that_broke_all_its_owners_is_a_dead_letter(shop_url: str):
    """As if each process had died in it: the row is what they leave behind."""
    async with open_agent(shop_url, queue={"max_attempts": 3}) as shop:
        stopped = await take_stopped(shop)
        for attempts in (1, 2):
            leave_running(shop_url, attempts)
            shop.model.play({"error": "503"})
            await shop.container.agent().work(stopped)
            assert rows(shop_url, "SELECT status, attempts FROM runs") == [
                ("stopped", attempts + 1)
            ]
        leave_running(shop_url, 3)
        asked = len(shop.model.requests)

        assert await shop.container.agent().work(stopped) is None

        run = rows(shop_url, "SELECT status, stop_reason FROM runs")
        assert run == [(RunStatus.DEAD, StopReason.REPEATED_ERRORS)]
        assert rows(shop_url, "SELECT kind, conversation_id FROM tasks") == [("dead_run", stopped)]
        assert "nhân viên" in authors(shop)[-1][1]
        assert len(shop.model.requests) == asked
        # The next message is for the person.
        silent = await take(shop, "Alo?", conversation=stopped)
        assert (silent.status, silent.answer) == (RunStatus.HANDED_OFF, "")


async def take_stopped(shop: Shop) -> str:
    shop.model.play({"error": "503"})
    return (await take(shop, A100)).conversation_id


def leave_running(url: str, attempts: int) -> None:
    change(
        url,
        "UPDATE runs SET status = 'running', stop_reason = NULL, ended_at = NULL, attempts = ?",
        attempts,
    )
    change(url, "UPDATE conversations SET lease_until = 1")


async def test_a_person_who_takes_over_in_the_middle_is_not_talked_over(shop_url: str):
    """What was done with money is said all the same; words of the model's are not."""

    async def decide(request):
        if len(model.requests) == 1:
            quote = rows(shop_url, "SELECT id FROM quotes")[0][0]
            return [("request_refund", f'{{"quote_id": "{quote}"}}')]
        asked.set()
        await go_on.wait()
        return "Mình đã làm xong rồi nhé."

    asked, go_on = asyncio.Event(), asyncio.Event()
    async with open_agent(shop_url) as shop:
        quoted = await shop.quote("A104")
        model = FunctionModel(decide)
        shop.model.model = model
        shop.model.base = 0
        running = asyncio.create_task(take(shop, "đồng ý", conversation=quoted.conversation_id))
        await asked.wait()
        await shop.write(lambda tx: tx.conversations.hand_off(quoted.conversation_id))
        go_on.set()
        result = await running

    assert result.status is RunStatus.HANDED_OFF
    assert "Mình đã làm xong" not in result.answer
    assert result.requests[0].id in result.answer
    assert authors(shop)[-1] == ("agent", result.answer)


async def test_a_stop_in_the_middle_of_a_step_still_holds_for_the_next_owner(shop_url: str):
    """Two errors in a row stop the run; the process died before the third call was skipped."""

    def fail():
        raise ValueError

    failing, probe = Reading(fail, name="failing"), Reading()
    limits = {"max_consecutive_errors": 2, "max_identical_calls": 9}
    async with open_agent(shop_url, tools=[failing, probe], limits=limits) as shop:
        shop.model.play({"calls": [call("failing"), call("failing"), call("probe")]})
        first = await take(shop, A100)
        assert (first.stop_reason, probe.ran) == (StopReason.REPEATED_ERRORS, 0)
        leave_running(shop_url, 1)
        change(
            shop_url,
            "UPDATE tool_calls SET ok = NULL, content = NULL, answered_at = NULL, error_code = NULL"
            " WHERE name = 'probe'",
        )
        change(shop_url, "UPDATE runs SET consecutive_errors = 0")

        await shop.container.agent().work(first.conversation_id)

    assert rows(shop_url, "SELECT stop_reason FROM runs") == [("repeated_errors",)]
    assert probe.ran == 0
    assert len(shop.model.requests) == 1


async def test_who_resumed_a_run_by_hand_is_known_to_the_owner_after_them(shop_url: str):
    """They wrote for the customer, in a way: whoever files it later, they may not approve."""
    async with open_agent(shop_url) as shop:
        stopped = await take_stopped(shop)
        ((run_id,),) = rows(shop_url, "SELECT id FROM runs")
        shop.model.play({"error": "503"})
        await shop.container.agent().resume(run_id, operator="minh", via="test")
        assert rows(shop_url, "SELECT operator FROM runs") == [("minh",)]

        leave_running(shop_url, 1)
        shop.model.play({"error": "503"})
        await shop.container.agent().resume(run_id, operator="lan", via="test")
        assert rows(shop_url, "SELECT operator, attempts FROM runs") == [("lan", 2)]
        assert stopped

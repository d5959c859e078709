"""Whose turn it is, what a conversation remembers, and what the model is shown of it."""

import asyncio
import unicodedata
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from support_agent.agent.history import turns_of
from support_agent.agent.turns import Incoming
from support_agent.domain.errors import ConversationBusy, ConversationNotFound, InvalidInput
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import CallTools, StopReason, ToolCall
from support_agent.ports.model import AssistantCalls, AssistantTurn, CustomerTurn, ToolResult
from tests.agent_kit import (
    FunctionModel,
    Reading,
    call,
    change,
    forever,
    observations,
    open_agent,
    rows,
    take,
    told,
    written,
)
from tests.kit import Shop, binding_of

ANSWER = {"answer": "Vâng."}
CARD = "4111 1111 1111 1111"


def is_pair_safe(turns) -> bool:
    """Each call is followed by exactly its own results before anything else is said."""
    waiting: list[ToolCall] = []
    for turn in turns:
        if isinstance(turn, ToolResult):
            if not waiting or waiting.pop(0) != turn.call:
                return False
        elif waiting:
            return False
        elif isinstance(turn, AssistantCalls):
            waiting = list(turn.calls)
    return not waiting


async def test_of_two_turns_at_once_the_second_waits_for_the_first(shop_url: str):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def decide(request):
        asked.set()
        await go_on.wait()
        return "Vâng."

    model = FunctionModel(lambda _: "Chào bạn.")
    async with open_agent(shop_url, model=model) as shop:
        first = await take(shop, "Xin chào")
        model._decide = decide
        running = asyncio.create_task(take(shop, "A100?", conversation=first.conversation_id))
        await asked.wait()
        second = asyncio.create_task(take(shop, "Alo?", conversation=first.conversation_id))
        await written(shop.url, 4)  # it is in the inbox
        assert rows(shop.url, "SELECT count(*) FROM runs WHERE status = 'running'") == [(1,)]
        assert not second.done()

        go_on.set()
        result, again = await asyncio.gather(running, second)
        assert result.stop_reason is again.stop_reason is StopReason.ANSWERED
        assert result.run_id != again.run_id
        authors = rows(shop.url, "SELECT author FROM messages ORDER BY seq")
        assert [author for (author,) in authors][2:] == ["customer", "customer", "agent", "agent"]
        # Each is shown behind what was said before its turn began.
        said = [turn.text for turn in shop.model.requests[-1].turns]
        assert said == ["Xin chào", "Chào bạn.", "A100?", "Vâng.", "Alo?"]


async def test_a_message_that_waited_too_long_is_kept_and_answered_later(shop_url: str):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def decide(request):
        asked.set()
        await go_on.wait()
        return f"Về: {request.turns[-1].text}"

    model = FunctionModel(decide)
    async with open_agent(shop_url, model=model, queue={"wait_seconds": 0.01}) as shop:
        running = asyncio.create_task(take(shop, "A100?"))
        await asked.wait()
        ((conversation,),) = rows(shop.url, "SELECT id FROM conversations")
        with pytest.raises(ConversationBusy, match="kept"):
            await take(shop, "Alo?", conversation=conversation)
        go_on.set()
        await running

        assert await shop.container.agent().work(conversation) is None

        answers = rows(shop.url, "SELECT text FROM messages WHERE author = 'agent' ORDER BY seq")
        assert answers == [("Về: A100?",), ("Về: Alo?",)]


async def test_two_conversations_of_one_customer_run_at_once(shop_url: str):
    asked, go_on = [], asyncio.Event()

    async def decide(request):
        asked.append(request)
        if len(asked) == 2:
            go_on.set()
        await go_on.wait()
        return "Vâng."

    async with open_agent(shop_url, model=FunctionModel(decide)) as shop:
        results = await asyncio.gather(take(shop, "A100?"), take(shop, "A101?"))

    assert [result.stop_reason for result in results] == [StopReason.ANSWERED] * 2


async def test_after_a_dead_owner_the_next_message_waits_until_its_run_is_ended(shop_url: str):
    """The lease is the database's time; until it is over nobody may take the conversation."""
    asked = asyncio.Event()

    async def decide(request):
        if len(model.requests) == 1:
            return [("probe", "{}")]
        asked.set()
        return await forever()

    model = FunctionModel(decide)
    async with open_agent(shop_url, tools=[Reading()], model=model) as dead:
        task = asyncio.create_task(take(dead, "A100?"))
        await asked.wait()
        ((conversation, lease),) = rows(shop_url, "SELECT id, lease_until FROM conversations")
        async with open_agent(shop_url, tools=[Reading()]) as shop:
            shop.model.play({"answer": "Về A100."}, {"answer": "Về Alo."})
            waiting = asyncio.create_task(take(shop, "Alo?", conversation=conversation))
            await written(shop_url, 2)
            assert not shop.model.requests
            change(shop_url, "UPDATE conversations SET lease_until = ?", lease - 10_000)

            result = await waiting

            states = rows(shop_url, "SELECT status, stop_reason FROM runs ORDER BY trigger_seq")
            assert states == [("done", "answered")] * 2
            assert result.answer == "Về Alo."
            assert is_pair_safe(shop.model.requests[-1].turns)
        # The owner was only slow: it comes too late to change anything.
        before = rows(shop_url, "SELECT * FROM messages")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert rows(shop_url, "SELECT * FROM messages") == before
        states = rows(shop_url, "SELECT status, stop_reason FROM runs ORDER BY trigger_seq")
        assert states == [("done", "answered")] * 2


async def test_a_slow_owner_cannot_answer_over_the_one_who_took_over(shop_url: str):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def decide(request):
        asked.set()
        await go_on.wait()
        return "Từ người cũ."

    async with open_agent(shop_url, model=FunctionModel(decide)) as slow:
        task = asyncio.create_task(take(slow, "A100?"))
        await asked.wait()
        ((conversation,),) = rows(shop_url, "SELECT id FROM conversations")
        change(shop_url, "UPDATE conversations SET lease_until = 1")
        async with open_agent(shop_url, model=FunctionModel(lambda _: "Từ người mới.")) as shop:
            await take(shop, "Alo?", conversation=conversation)
        go_on.set()
        assert (await task).answer == "Từ người mới."

    answers = rows(shop_url, "SELECT text FROM messages WHERE author = 'agent'")
    assert answers == [("Từ người mới.",)] * 2


async def test_a_call_without_an_answer_is_shown_with_one_and_not_made_again(shop: Shop):
    """A history that ends in an open call would be refused by every provider, for ever."""
    first = await shop.say("A100?", call("lookup_order", order_id="A100"), ANSWER)
    change(
        shop.url,
        "UPDATE tool_calls SET ok = NULL, content = NULL, answered_at = NULL, error_code = NULL",
    )
    result = await shop.say("Alo?", conversation=first.conversation_id)

    request = shop.model.requests[-1]
    assert is_pair_safe(request.turns)
    assert told(request)[0].startswith("ERROR INTERRUPTED")
    assert observations(result) == []


async def test_the_history_comes_back_from_the_database_byte_for_byte(shop_url: str):
    """Two calls without words beside them (content None on the wire), thoughts, odd arguments."""
    arguments = ['{"order_id":', '  {"tên":"Áo dài 👗","n":[1,2.50,"\\u00e1"]} ', "", "null"]
    replies = iter([[("probe", a) for a in arguments[:2]], [("probe", a) for a in arguments[2:]]])
    model = FunctionModel(lambda _: next(replies, "Xong ạ. “Áo dài” 👗\n\tđây"))
    async with open_agent(
        shop_url, tools=[Reading(lambda: {"tên": "Áo dài"})], model=model
    ) as shop:
        result = await take(shop, "Đơn A100?\n\tÁo dài 👗")
        zone = shop.container.terms().zone
        messages, steps = await shop.read(
            lambda tx: (
                tx.conversations.messages(result.conversation_id),
                tx.runs.steps_of_conversation(result.conversation_id),
            )
        )

    lived = list(model.requests[-1].turns)
    assert turns_of(messages, steps, zone) == [*lived, AssistantTurn(text=result.answer)]
    calls = [step.decision for step in steps if isinstance(step.decision, CallTools)]
    assert [c.arguments for decision in calls for c in decision.calls] == arguments
    assert [decision.thought for decision in calls] == ["", ""]


async def test_the_pair_of_an_earlier_turn_is_in_the_next_one(shop: Shop):
    first = await shop.say("A100?", call("lookup_order", order_id="A100"), ANSWER)
    await shop.say("Còn gì nữa không?", conversation=first.conversation_id)

    earlier, later = shop.model.requests[-2:]
    assert later.turns[: len(earlier.turns)] == earlier.turns
    assert told(later) == told(earlier) != []
    assert later.turns[len(earlier.turns)] == AssistantTurn(text="Vâng.")


async def test_a_message_is_dated_by_its_own_day_in_the_shop(shop: Shop):
    """Six in the evening in London is the next day in Vietnam."""
    shop.clock.set(datetime(2026, 10, 13, 17, 30, tzinfo=UTC))
    first = await shop.say("Xin chào")
    shop.clock.set(datetime(2026, 10, 20, 2, 0, tzinfo=UTC))
    await shop.say("A100?", conversation=first.conversation_id)

    dates = [t.today for t in shop.model.requests[-1].turns if isinstance(t, CustomerTurn)]
    assert dates == [date(2026, 10, 14), date(2026, 10, 20)]


async def test_personal_numbers_are_masked_for_the_model_and_stay_the_same_placeholder(shop: Shop):
    first = await shop.say("Số tôi là 0912 345 678, CCCD 001099012345, mail mai@example.com")
    await shop.say(
        "Gọi +84912345678 nhé, không phải 0987654321", conversation=first.conversation_id
    )

    texts = [t.text for t in shop.model.requests[-1].turns if isinstance(t, CustomerTurn)]
    assert texts == [
        "Số tôi là [phone-1], CCCD [id-1], mail [email-1]",
        "Gọi [phone-1] nhé, không phải [phone-2]",
    ]
    stored = rows(shop.url, "SELECT text FROM messages WHERE seq = 1")
    assert "0912 345 678" in stored[0][0]  # kept for the shop's people


async def test_a_card_number_reaches_neither_the_model_nor_any_file(shop: Shop, tmp_path):
    result = await shop.say(
        f"Thẻ của tôi là {CARD}, hoàn đơn A100",
        call("quote_refund", order_id="A100"),
        {"answer": "Bạn có đồng ý không?"},
    )

    assert "[card …1111]" in shop.model.requests[0].turns[-1].text
    number = CARD.replace(" ", "").encode()
    assert result.quotes
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {path.name for path in files} >= {"shop.db", "shop.db-wal"}
    for path in files:
        content = path.read_bytes()
        assert CARD.encode() not in content
        assert number not in content


async def test_a_conversation_with_a_person_is_not_answered_by_the_model(shop: Shop):
    first = await shop.say("Cho gặp nhân viên", call("hand_off", reason="Khách muốn gặp người"))
    asked = len(shop.model.requests)

    for text in ("Có ai không?", "Is anybody there?"):
        result = await shop.say(text, conversation=first.conversation_id)

        assert result.stop_reason is StopReason.HANDED_OFF
        assert result.answer == ""
    assert len(shop.model.requests) == asked
    customer = rows(shop.url, "SELECT text FROM messages WHERE author = 'customer' ORDER BY seq")
    assert [text for (text,) in customer][1:] == ["Có ai không?", "Is anybody there?"]
    assert rows(shop.url, "SELECT count(*) FROM tasks") == [(1,)]


async def test_a_customer_who_writes_while_a_person_decides_is_answered(shop: Shop):
    """The approval stays, and the history stays valid."""
    filed = await shop.answer(await shop.quote("A100"))
    request = filed.requests[0]
    assert request.status is RequestStatus.PENDING_APPROVAL

    result = await shop.say(
        "Đơn A101 tới đâu rồi?",
        call("lookup_order", order_id="A101"),
        {"answer": "Đơn A101 đang giao ạ."},
        conversation=filed.conversation_id,
    )

    assert result.answer == "Đơn A101 đang giao ạ."
    assert is_pair_safe(shop.model.requests[-1].turns)
    waiting = await shop.request(request.id)
    assert (waiting.status, waiting.version) == (request.status, request.version)
    by = await shop.approver("lan")
    await shop.container.approvals().approve(request.id, by=by)
    paid = await shop.container.payouts().pay(request.id)
    assert paid.status is RequestStatus.REFUNDED

    await shop.say("Xong chưa?", conversation=filed.conversation_id)
    turns = shop.model.requests[-1].turns
    assert is_pair_safe(turns)
    notice = turns[-2]
    assert isinstance(notice, AssistantTurn)
    assert "Đã hoàn 250.000\u00a0₫" in notice.text


async def test_another_customers_conversation_is_as_good_as_none(shop: Shop):
    mine = await shop.say("Xin chào")
    before = rows(shop.url, "SELECT * FROM messages")

    for conversation in (mine.conversation_id, "con_unknown"):
        with pytest.raises(ConversationNotFound):
            await shop.say("Alo?", customer="C002", conversation=conversation)
    assert rows(shop.url, "SELECT * FROM messages") == before
    events = rows(shop.url, "SELECT count(*) FROM audit_events WHERE action = 'access.denied'")
    assert events == [(1,)]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("channel", "web"),
        ("account", "other"),
        ("external_contact", "else"),
        ("customer_id", "C002"),
    ],
)
async def test_a_conversation_opens_only_to_the_binding_it_was_made_with(
    shop: Shop, part: str, value: str
):
    mine = await shop.say("Xin chào")
    other = replace(binding_of("C001"), **{part: value})

    with pytest.raises(ConversationNotFound):
        await shop.container.agent().take(
            Incoming(text="Alo?", binding=other, conversation_id=mine.conversation_id)
        )


@pytest.mark.parametrize(
    "text", ["", "   ", "\u200b\u200d", "x" * 100_000, "A100\x00", "\ud800", "\x07"]
)
async def test_a_message_that_is_no_message_changes_nothing(shop: Shop, text: str):
    with pytest.raises(InvalidInput):
        await shop.say(text)

    assert rows(shop.url, "SELECT count(*) FROM conversations") == [(0,)]
    assert shop.model.requests == []


async def test_composed_and_decomposed_text_are_one_message(shop: Shop):
    for form in ("NFC", "NFD"):
        await shop.say(unicodedata.normalize(form, "Đơn của tôi đã được giao chưa ạ?"))

    composed, decomposed = shop.model.requests
    assert composed.turns == decomposed.turns


@pytest.mark.parametrize("unstorable", ["con_\x00", "con_\ud800"])
async def test_an_id_that_no_database_can_hold_is_of_no_conversation(unstorable: str, shop: Shop):
    with pytest.raises(ConversationNotFound):
        await shop.say("hi", conversation=unstorable)

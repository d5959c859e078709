"""A conversation with a person: the agent is silent, the person answers and gives it back."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support_agent.domain.conversation import Author
from support_agent.domain.errors import (
    ConversationHandedOff,
    ConversationNotFound,
    ConversationNotHandedOff,
    InvalidInput,
    TaskAlreadyDone,
)
from support_agent.domain.runs import RunStatus
from support_agent.services.conversation_briefs import ConversationBrief, conversation_brief
from support_agent.services.hand_off_desk import LONGEST_ANSWER, HandOffDesk
from support_agent.services.tasks import CUSTOMER_WROTE, HAND_OFF
from tests.heart import assert_sound, calls, events, operator, tasks
from tests.kit import Shop
from tests.outgoing import Outside, open_outside

THU = operator("thu")
CARD = "4111 1111 1111 1111"


@pytest.fixture
async def outside(shop_url: str) -> AsyncIterator[Outside]:
    async with open_outside(shop_url) as opened:
        yield opened


@pytest.fixture
def shop(outside: Outside) -> Shop:
    return outside.shop


@pytest.fixture
def desk(shop: Shop) -> HandOffDesk:
    return shop.container.hand_off_desk()


@pytest.fixture
async def talk(shop: Shop) -> str:
    """A conversation that the agent handed over."""
    result = await shop.say("cho tôi gặp nhân viên", calls("hand_off", reason="khách muốn gặp"))
    return result.conversation_id


async def authors(shop: Shop, talk: str) -> list[Author]:
    messages = await shop.read(lambda tx: tx.conversations.messages(talk))
    return [message.author for message in messages]


async def brief(shop: Shop, talk: str) -> ConversationBrief:
    return await shop.read(lambda tx: conversation_brief(tx, talk))


class TestSilence:
    async def test_the_agent_says_nothing_and_no_model_is_asked(self, shop: Shop, talk: str):
        asked = len(shop.model.requests)

        result = await shop.say("còn đó không?", conversation=talk)

        assert (result.status, result.answer) == (RunStatus.HANDED_OFF, "")
        assert len(shop.model.requests) == asked
        assert (await authors(shop, talk))[-1] is Author.CUSTOMER

    async def test_what_code_has_to_tell_is_told_all_the_same(
        self, outside: Outside, shop: Shop, desk: HandOffDesk
    ):
        request = await shop.filed("A100")
        talk = request.conversation_id
        await desk.take(talk, by=THU)

        await shop.container.approvals().reject(request.id, by=await shop.approver())
        await outside.all_out()

        [told] = outside.customers.texts
        assert "không được duyệt" in told

    async def test_a_person_who_takes_it_while_the_agent_thinks_is_not_talked_over(
        self, shop: Shop, desk: HandOffDesk
    ):
        talk = (await shop.say("xin chào")).conversation_id
        decide, thinks, taken = shop.model.decide, asyncio.Event(), asyncio.Event()

        async def decide_slowly(request: Any) -> Any:
            thinks.set()
            await taken.wait()
            return await decide(request)

        shop.model.decide = decide_slowly  # type: ignore[method-assign]
        answering = asyncio.create_task(shop.say("đơn đâu?", conversation=talk))
        await thinks.wait()

        await desk.take(talk, by=THU)
        taken.set()

        assert (await answering).answer == ""
        assert (await authors(shop, talk))[-1] is Author.CUSTOMER


class TestTaking:
    async def test_a_person_may_take_one_that_the_agent_did_not_give(
        self, shop: Shop, desk: HandOffDesk
    ):
        talk = (await shop.say("xin chào")).conversation_id

        task = await desk.take(talk, by=THU)

        assert (await brief(shop, talk)).conversation.handed_off
        assert [one.id for one in await tasks(shop, HAND_OFF)] == [task.id]
        [event] = await events(shop, "conversation.handed_off")
        assert (event.subject, event.actor.id, event.data) == (talk, "thu", {"task": task.id})

    async def test_one_that_a_person_has_is_not_taken_again(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        with pytest.raises(ConversationHandedOff):
            await desk.take(talk, by=operator("hai"))

        assert len(await tasks(shop, HAND_OFF)) == 1

    @pytest.mark.parametrize("unknown", ["con_no", "", "\0"])
    async def test_an_unknown_one_is_not_found(self, desk: HandOffDesk, unknown: str):
        with pytest.raises(ConversationNotFound):
            await desk.take(unknown, by=THU)
        with pytest.raises(ConversationNotFound):
            await desk.answer(unknown, "vâng", by=THU)
        with pytest.raises(ConversationNotFound):
            await desk.give_back(unknown, by=THU)


class TestAnswering:
    async def test_it_stands_in_the_conversation_and_leaves(
        self, outside: Outside, shop: Shop, desk: HandOffDesk, talk: str
    ):
        message = await desk.answer(talk, "  Mai bên mình giao.  ", by=THU)
        await outside.all_out()

        assert message.text == "Mai bên mình giao."
        [sent] = outside.customers.sent
        assert (sent.id, sent.text) == (f"{talk}:{message.seq}", "Mai bên mình giao.")
        [event] = await events(shop, "conversation.answered")
        assert (event.actor.id, event.data) == ("thu", {"message": str(message.seq)})
        await assert_sound(shop)

    async def test_no_card_number_and_nothing_that_hides_is_stored(
        self, desk: HandOffDesk, talk: str
    ):
        message = await desk.answer(talk, f"thẻ {CARD}\u202e ạ", by=THU)

        assert "1111 1111" not in message.text
        assert "\u202e" not in message.text

    @pytest.mark.parametrize("text", ["", " \n ", "x" * (LONGEST_ANSWER + 1)])
    async def test_nothing_or_too_much_is_refused(self, desk: HandOffDesk, talk: str, text: str):
        with pytest.raises(InvalidInput):
            await desk.answer(talk, text, by=THU)

    async def test_beside_the_agent_nobody_answers(
        self, outside: Outside, shop: Shop, desk: HandOffDesk
    ):
        talk = (await shop.say("xin chào")).conversation_id

        with pytest.raises(ConversationNotHandedOff, match="conversations take"):
            await desk.answer(talk, "vâng", by=THU)

        assert Author.STAFF not in await authors(shop, talk)
        await outside.all_out()
        assert outside.customers.sent == []


class TestWritingToAPerson:
    async def test_before_the_first_answer_the_task_of_the_hand_off_is_enough(
        self, shop: Shop, talk: str
    ):
        await shop.say("alo?", conversation=talk)

        assert await tasks(shop, CUSTOMER_WROTE) == []
        assert len(await tasks(shop, HAND_OFF)) == 1

    async def test_after_it_the_person_is_called_once_and_the_next_answer_ends_that(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.answer(talk, "Vâng?", by=THU)
        for text in ("hàng vỡ", "đổi được không?"):
            await shop.say(text, conversation=talk)
        [task] = await tasks(shop, CUSTOMER_WROTE)
        assert task.conversation_id == talk

        await desk.answer(talk, "Được ạ.", by=THU)
        assert await tasks(shop, CUSTOMER_WROTE) == []

        await shop.say("cảm ơn", conversation=talk)
        [again] = await tasks(shop, CUSTOMER_WROTE)
        assert again.id != task.id

    async def test_done_by_itself_it_leaves_the_conversation_with_the_person(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.answer(talk, "Vâng?", by=THU)
        await shop.say("hàng vỡ", conversation=talk)
        [task] = await tasks(shop, CUSTOMER_WROTE)

        await desk.finish(task.id, by=THU)

        assert (await brief(shop, talk)).conversation.handed_off


class TestGivingBack:
    async def test_the_agent_answers_again_and_sees_what_staff_said(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.answer(talk, "Bên mình gửi hàng mới ngày mai.", by=THU)

        assert await desk.give_back(talk, by=THU) == 0
        result = await shop.say("cảm ơn", {"answer": "Không có gì."}, conversation=talk)

        assert result.stop_reason == "answered"
        seen = [str(turn) for turn in shop.model.requests[-1].turns]
        assert any("Bên mình gửi hàng mới ngày mai." in turn for turn in seen)
        assert await tasks(shop, HAND_OFF) == []
        [event] = await events(shop, "conversation.given_back")
        assert (event.subject, event.actor.id) == (talk, "thu")
        await assert_sound(shop)

    async def test_what_nobody_answered_is_the_agents_and_its_answer_leaves(
        self, outside: Outside, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.answer(talk, "Vâng?", by=THU)
        await shop.say("à, đơn A102 đâu rồi?", conversation=talk)

        assert await desk.give_back(talk, by=THU) == 1
        assert await shop.read(lambda tx: tx.conversations.due(limit=9)) == (talk,)
        shop.model.play({"answer": "Đơn A102 đang giao."})
        assert await shop.container.agent().work(talk) is None
        await outside.all_out()

        assert [text.split("\n")[0] for text in outside.customers.texts] == [
            "Vâng?",
            "Đơn A102 đang giao.",
        ]
        assert await tasks(shop, CUSTOMER_WROTE) == []

    async def test_what_a_person_answered_is_not_answered_again(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await shop.say("đơn A102 đâu rồi?", conversation=talk)
        await desk.answer(talk, "Đang giao ạ.", by=THU)

        assert await desk.give_back(talk, by=THU) == 0

        assert await shop.read(lambda tx: tx.conversations.due(limit=9)) == ()

    async def test_with_the_next_message_it_is_one_turn(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await shop.say("đơn A102 đâu rồi?", conversation=talk)
        await desk.give_back(talk, by=THU)

        result = await shop.say("alo", {"answer": "Đang giao ạ."}, conversation=talk)

        assert result.stop_reason == "answered"
        seen = " ".join(str(turn) for turn in shop.model.requests[-1].turns)
        assert "đơn A102 đâu rồi?" in seen
        assert (await authors(shop, talk))[-3:] == [
            Author.CUSTOMER,
            Author.CUSTOMER,
            Author.AGENT,
        ]

    async def test_a_second_time_there_is_nothing_to_give_back(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.give_back(talk, by=THU)

        with pytest.raises(ConversationNotHandedOff):
            await desk.give_back(talk, by=operator("hai"))

        assert len(await events(shop, "conversation.given_back")) == 1

    async def test_all_it_was_handed_over_for_is_done_with_it_and_nothing_else(
        self, shop: Shop, desk: HandOffDesk, talk: str
    ):
        await desk.answer(talk, "Vâng?", by=THU)
        await shop.say("hàng vỡ", conversation=talk)
        other = (await shop.say("gặp nhân viên", calls("hand_off", reason="x"))).conversation_id

        await desk.give_back(talk, by=THU)

        left = await shop.read(lambda tx: tx.tasks.list(open_only=True, limit=9))
        assert [task.conversation_id for task in left] == [other]
        done = [event.data["kind"] for event in await events(shop, "task.done")]
        assert sorted(done) == [CUSTOMER_WROTE, HAND_OFF]

    async def test_of_two_who_do_its_task_at_once_one_did_it(self, shop_on_each: Shop):
        shop, desk = shop_on_each, shop_on_each.container.hand_off_desk()
        gone = await shop.say("gặp nhân viên", calls("hand_off", reason="x"))
        [task] = await tasks(shop, HAND_OFF)

        outcomes = await asyncio.gather(
            desk.finish(task.id, by=THU),
            desk.give_back(gone.conversation_id, by=operator("hai")),
            return_exceptions=True,
        )

        refused = [one for one in outcomes if isinstance(one, BaseException)]
        assert len(refused) == 1
        assert isinstance(refused[0], TaskAlreadyDone | ConversationNotHandedOff)
        assert len(await events(shop, "task.done")) == 1
        assert len(await events(shop, "conversation.given_back")) == 1


class TestTheBrief:
    async def test_it_tells_what_was_looked_up_offered_filed_and_refused(self, shop: Shop):
        request = await shop.filed("A100")
        talk = request.conversation_id
        await shop.quote("A102", conversation=talk)
        await shop.say(
            "?", calls("lookup_order", order_id="A100"), {"answer": "."}, conversation=talk
        )
        await shop.say(
            "gặp người",
            calls("lookup_order", order_id="A200"),  # another customer's
            calls("hand_off", reason="khách giận"),
            conversation=talk,
        )

        found = await brief(shop, talk)

        assert [order.id for order in found.orders] == ["A100"]
        assert [quote.order_id for quote in found.quotes] == ["A102"]
        assert [one.id for one in found.requests] == [request.id]
        assert [(one.tool, one.refusal) for one in found.tried][-2:] == [
            ("lookup_order", "ORDER_NOT_FOUND"),
            ("hand_off", None),
        ]
        assert [task.kind for task in found.tasks] == [HAND_OFF]
        assert found.model_reason == "khách giận"
        assert found.unanswered == 0

    async def test_open_requests_from_elsewhere_count_and_other_customers_do_not(self, shop: Shop):
        mine = await shop.filed("A100")
        await shop.filed("A200", customer="C002")
        talk = (await shop.say("xin chào")).conversation_id

        found = await brief(shop, talk)

        assert [one.id for one in found.requests] == [mine.id]

    async def test_it_counts_what_nobody_answered(self, shop: Shop, talk: str):
        for text in ("alo", "có ai không?"):
            await shop.say(text, conversation=talk)

        assert (await brief(shop, talk)).unanswered == 2

    @pytest.mark.parametrize("arguments", ["", "[]", '"x"', '{"reason": {"a": 1}}'])
    async def test_a_model_that_gives_no_reason_breaks_nothing(self, shop: Shop, arguments: str):
        result = await shop.say(
            "gặp người", {"tool": "hand_off", "raw_arguments": arguments}, {"answer": "."}
        )

        found = await brief(shop, result.conversation_id)

        assert found.model_reason is None

    async def test_an_unknown_conversation_has_none(self, shop: Shop):
        with pytest.raises(ConversationNotFound):
            await brief(shop, "con_no")


async def test_another_customer_gets_into_none_that_a_person_has(shop: Shop, talk: str):
    with pytest.raises(ConversationNotFound):
        await shop.say("?", customer="C002", conversation=talk)

    assert Author.CUSTOMER is not (await authors(shop, talk))[-1]

"""Order ids that are not the customer's: after a few different ones a person takes over."""

from collections.abc import AsyncIterator

import pytest

from support_agent.domain.runs import RunStatus, StopReason
from support_agent.domain.wording import stop_sentence
from support_agent.services.tasks import UNKNOWN_ORDERS
from support_agent.services.unknown_orders import order_ids
from tests.agent_kit import call, observations
from tests.heart import events, operator, tasks
from tests.kit import Shop, open_shop

ANSWER = {"answer": "Mình không tìm thấy đơn này ạ."}
LIMITS = {"unknown_orders": 3, "max_consecutive_errors": 9, "max_identical_calls": 9}


def look(order_id: str):
    return call("lookup_order", order_id=order_id)


@pytest.fixture
async def guarded(shop_url: str) -> AsyncIterator[Shop]:
    """A shop that calls a person after three unknown orders."""
    async with open_shop(shop_url, limits=LIMITS) as opened:
        yield opened


async def test_the_third_one_hands_the_conversation_over_with_a_task(guarded: Shop):
    # A200 is another customer's, which is no different.
    result = await guarded.say("?", look("Z1"), look("A200"), look("Z3"), look("Z4"))

    assert result.status is RunStatus.HANDED_OFF
    assert result.answer == stop_sentence(StopReason.HANDED_OFF, "vi")
    assert [o.error_code for o in observations(result)] == ["ORDER_NOT_FOUND"] * 3
    [task] = await tasks(guarded, UNKNOWN_ORDERS)
    assert task.subject == task.conversation_id == result.conversation_id
    [event] = await events(guarded, "conversation.handed_off")
    assert event.data == {"task": task.id, "unknown_orders": "3"}


async def test_the_same_one_again_however_it_is_asked_for_counts_once(guarded: Shop):
    result = await guarded.say(
        "?",
        look("Z1"),
        look("z1"),
        call("quote_refund", order_id="Z1"),
        {"tool": "lookup_order", "raw_arguments": '"{\\"order_id\\": \\"Z1\\"}"'},
        look("Z2"),
        look("A100"),
        ANSWER,
    )

    assert result.stop_reason is StopReason.ANSWERED
    assert await tasks(guarded, UNKNOWN_ORDERS) == []


async def test_the_count_goes_on_in_later_runs_and_after_a_restart(guarded: Shop, shop_url: str):
    first = await guarded.say("?", look("Z1"), ANSWER)
    talk = first.conversation_id
    await guarded.say("?", look("Z2"), ANSWER, conversation=talk)

    async with open_shop(shop_url, limits=LIMITS) as restarted:
        elsewhere = await restarted.say("?", look("Z9"), ANSWER)
        result = await restarted.say("?", look("Z3"), ANSWER, conversation=talk)

    assert elsewhere.stop_reason is StopReason.ANSWERED  # another conversation counts by itself
    assert result.stop_reason is StopReason.HANDED_OFF


async def test_several_at_once_are_answered_once_each_and_the_rest_is_not_executed(guarded: Shop):
    each = [{"tool": "lookup_order", "arguments": {"order_id": f"Z{n}"}} for n in range(5)]
    result = await guarded.say("?", {"calls": each})

    codes = [observation.error_code for observation in observations(result)]
    assert codes == ["ORDER_NOT_FOUND"] * 3 + ["NOT_EXECUTED"] * 2
    assert len(await tasks(guarded, UNKNOWN_ORDERS)) == 1


async def test_after_a_person_gave_it_back_as_many_more_are_a_new_task(guarded: Shop):
    first = await guarded.say("?", look("Z1"), look("Z2"), look("Z3"))
    talk = first.conversation_id
    [task] = await tasks(guarded, UNKNOWN_ORDERS)
    await guarded.container.hand_off_desk().finish(task.id, by=operator("thu"))

    some = await guarded.say("?", look("Z4"), look("Z5"), ANSWER, conversation=talk)
    last = await guarded.say("?", look("Z6"), ANSWER, conversation=talk)

    assert some.stop_reason is StopReason.ANSWERED
    assert last.stop_reason is StopReason.HANDED_OFF
    [again] = await tasks(guarded, UNKNOWN_ORDERS)
    assert again.id != task.id


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (['{"order_id":"A1"}', '{"order_id": "a1"}', '"{\\"order_id\\":\\"A1\\"}"'], 1),
        (['{"order_id":"A1"}', '{"order_id":"A2"}'], 2),
        (["", "[]", "null", "{", '{"id":1}', '"x"', "[" * 9000], 7),
        ([], 0),
    ],
)
def test_arguments_are_told_apart_by_their_order(arguments: list[str], count: int):
    assert len(order_ids(arguments)) == count

"""Signed thinking goes back to the model it came from, byte for byte, and to nobody else."""

import json
from dataclasses import replace

import pytest

from support_agent.domain.errors import ConfigurationError
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    ToolResult,
)
from support_agent.testing.anthropic_replies import asks, message, says, thinks, thinks_unseen
from support_agent.testing.model_server import ServerReply
from tests.anthropic_kit import QUESTION, TODAY, TOOL, call_of, model_at, request, root_of, served

THINKING = thinks('Khách hỏi "A100":\n\\ xem đơn đã… 🧵\u2028', "Eq/+QBCkYIBxgCKkA9x==")
LATER = thinks("Đã giao ngày 1/10.", "Z2g=")
ROOM = {"max_output_tokens": 4000, "thinking_tokens": 2000}


def turns_of(reply, *contents):
    """A decision and its observations, as the loop shows them in the next request."""
    decision = reply.decision
    results = contents or ["{}"] * len(decision.calls)
    return (
        AssistantCalls(
            calls=decision.calls,
            thought=decision.thought,
            provider_state=decision.provider_state,
        ),
        *(
            ToolResult(call=call, content=content)
            for call, content in zip(decision.calls, results, strict=True)
        ),
    )


async def sent_after(
    reply, *, change=lambda turns: turns, first=(QUESTION,), other=None, **settings
):
    """The second body of a run whose first reply was `reply`; `change` alters what is shown."""
    async with served(reply, message(says("Dạ")), **(ROOM | settings)) as (model, server):
        decided = await model.decide(request(*first))
        turns = change((*first, *turns_of(decided)))
        second = model_at(root_of(server), **(ROOM | settings | (other or {})))
        await second.decide(request(*turns, step=3))
        await second.aclose()
        return server.requests[1]


def thinking_in(body):
    return [
        block
        for sent in body["messages"]
        if not isinstance(sent["content"], str)
        for block in sent["content"]
        if "thinking" in block["type"]
    ]


@pytest.mark.parametrize(
    "content",
    [
        [THINKING, asks("lookup_order", {"order_id": "A100"})],
        [THINKING, says(" Xem đơn.\n"), asks("lookup_order", {"order_id": "A100"})],
        [thinks_unseen(), THINKING, asks("lookup_order", {})],
        [thinks(""), asks("lookup_order", {})],
        [THINKING, says("Xem."), LATER, asks("lookup_order", {}), asks("t", {}, call_id="b")],
        [THINKING, asks("lookup_order", {}), thinks_unseen(), asks("t", {}, call_id="b")],
        [THINKING | {"new_field": [1, None, 2.5]}, asks("lookup_order", {})],
    ],
)
async def test_a_reply_goes_back_as_it_came_with_every_block_in_its_place(content):
    received = await sent_after(message(*content))

    assert received.json["messages"][1] == {"role": "assistant", "content": content}
    for block in content:
        if "thinking" in block["type"]:
            as_it_came = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
            assert as_it_came.encode() in received.body


async def test_thinking_is_asked_for_while_no_call_of_the_run_lacks_it():
    received = await sent_after(message(THINKING, asks("lookup_order", {})))

    assert received.json["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert received.json["max_tokens"] == 4000


async def test_a_model_that_thinks_unasked_gets_its_thinking_back():
    content = [THINKING, asks("lookup_order", {})]

    received = await sent_after(message(*content), thinking_tokens=None)

    assert received.json["messages"][1]["content"] == content
    assert "thinking" not in received.json


async def test_a_reply_without_thinking_leaves_nothing_to_keep():
    async with served(message(says("Xem."), asks("t", {}))) as (model, _):
        decision = (await model.decide(request())).decision

    assert decision.provider_state == ""
    assert decision.thought == "Xem."


async def test_thinking_is_no_thought_and_no_answer():
    async with served(message(THINKING, says("Dạ"))) as (model, _):
        decision = (await model.decide(request())).decision

    assert decision.text == "Dạ"
    assert decision.thought == ""


async def test_thinking_builds_up_over_the_steps_of_a_run():
    first = [THINKING, asks("lookup_order", {"order_id": "A100"})]
    second = [LATER, says("Xem tiếp."), asks("lookup_order", {"order_id": "A101"}, call_id="b")]
    replies = (message(*first), message(*second), message(says("Dạ")))
    async with served(*replies, **ROOM) as (model, server):
        turns = (QUESTION,)
        for step in (1, 2):
            turns += turns_of(await model.decide(request(*turns, step=step)))
        await model.decide(request(*turns, step=3))

    body = server.requests[2].json
    assert [sent["content"] for sent in body["messages"][1::2]] == [first, second]
    assert body["messages"][:3] == server.requests[1].json["messages"]


async def test_thinking_of_the_runs_before_the_last_customer_message_is_left_out():
    def with_an_answer(turns):
        return (*turns, AssistantTurn(text="Đã giao."), CustomerTurn(text="Còn A101?", today=TODAY))

    received = await sent_after(
        message(THINKING, says("Xem."), asks("lookup_order", {})), change=with_an_answer
    )

    assert thinking_in(received.json) == []
    assert [block["type"] for block in received.json["messages"][1]["content"]] == [
        "text",
        "tool_use",
    ]
    assert received.json["thinking"]["type"] == "enabled"


SHORTER = {
    "an earlier observation became a digest": lambda turns: (
        *turns[:2],
        replace(turns[2], content='{"digest":1}'),
        *turns[3:],
    ),
    "the earlier turns are gone": lambda turns: turns[3:],
    "a notice came in between": lambda turns: (*turns[:4], Correction(text="x"), *turns[4:]),
}


@pytest.mark.parametrize("change", SHORTER.values(), ids=SHORTER)
async def test_thinking_that_was_made_after_something_else_is_left_out(change):
    """A model may refuse a request in which what comes before its thinking has changed."""
    before = call_of(arguments='{"order_id":"A101"}', provider_id="toolu_9", index=9)
    first = (
        CustomerTurn(text="Đơn A101 đâu?", today=TODAY),
        AssistantCalls(calls=(before,)),
        ToolResult(call=before, content='{"status":"SHIPPING"}'),
        QUESTION,
    )

    received = await sent_after(
        message(THINKING, asks("lookup_order", {})), first=first, change=change
    )

    assert thinking_in(received.json) == []
    assert "thinking" not in received.json


async def test_other_tools_are_something_else_too():
    reply = message(THINKING, asks("lookup_order", {}))
    async with served(reply, message(says("Dạ")), **ROOM) as (model, server):
        decided = await model.decide(request())
        other = (TOOL, replace(TOOL, name="refund_policy"))
        await model.decide(request(QUESTION, *turns_of(decided), tools=other))

    assert thinking_in(server.requests[1].json) == []


@pytest.mark.parametrize(
    "state",
    [
        "x",
        "[]",
        "{}",
        "null",
        '{"adapter":"other","model":"claude-test","after":"","content":[0]}',
        "[" * 100_000,
    ],
)
async def test_state_that_is_not_ours_is_ignored(state):
    received = await sent_after(
        message(THINKING, says("Xem."), asks("lookup_order", {})),
        change=lambda turns: (turns[0], replace(turns[1], provider_state=state), *turns[2:]),
    )

    assert [block["type"] for block in received.json["messages"][1]["content"]] == [
        "text",
        "tool_use",
    ]


@pytest.mark.parametrize(
    "content", ["7", "[]", "[0,1]", "[1,0]", '[{"type":"thinking"}]', "[true]", '["x",0]']
)
async def test_state_of_ours_that_does_not_fit_its_calls_is_ignored(content):
    def spoilt(turns):
        state = json.loads(turns[1].provider_state) | {"content": json.loads(content)}
        return (turns[0], replace(turns[1], provider_state=json.dumps(state)), *turns[2:])

    received = await sent_after(message(THINKING, asks("lookup_order", {})), change=spoilt)

    assert [block["type"] for block in received.json["messages"][1]["content"]] == ["tool_use"]


async def test_another_model_does_not_see_it():
    received = await sent_after(
        message(THINKING, asks("lookup_order", {})), other={"name": "claude-other"}
    )

    assert thinking_in(received.json) == []
    assert "thinking" not in received.json


async def test_thinking_that_no_database_could_take_is_not_kept():
    body = json.dumps(
        {"content": [thinks("\ud800"), asks("lookup_order", {})], "stop_reason": "tool_use"}
    )
    received = await sent_after(ServerReply(body=body.encode()))

    assert thinking_in(received.json) == []


@pytest.mark.parametrize(("left", "thinks_on"), [(None, True), (2001, True), (2000, False)])
async def test_a_budget_that_leaves_no_room_beside_the_thinking_stops_it(left, thinks_on):
    async with served(message(says("Dạ")), **ROOM) as (model, server):
        await model.decide(request(max_output_tokens=left))

    assert ("thinking" in server.requests[0].json) is thinks_on


@pytest.mark.parametrize(
    ("thinking", "most", "text"),
    [
        (1023, 4000, "1024 at least"),
        (0, 4000, "1024 at least"),
        (-5, 4000, "1024 at least"),
        (1024, 1024, "below SUPPORT_AGENT_MODEL__MAX_OUTPUT_TOKENS"),
        (9000, 4000, "below SUPPORT_AGENT_MODEL__MAX_OUTPUT_TOKENS"),
    ],
)
def test_tokens_to_think_with_that_do_not_fit_are_refused(thinking, most, text):
    with pytest.raises(ConfigurationError, match=text) as caught:
        model_at(None, thinking_tokens=thinking, max_output_tokens=most)

    assert caught.value.setting == "SUPPORT_AGENT_MODEL__THINKING_TOKENS"

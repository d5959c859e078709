"""The body is built once from ready dicts: it equals what the vendor's own `create()` sends."""

import openai
import pytest

from support_agent.adapters.models.chat_messages import chat_messages, chat_tools
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import (
    AssistantCalls,
    AssistantTurn,
    Correction,
    CustomerTurn,
    Recap,
    ToolResult,
)
from support_agent.testing.model_server import ModelServer, answer, calls
from support_agent.testing.model_streams import streamed
from tests.openai_kit import KEY, TODAY, TOOL, request, served

FIRST = ToolCall(
    id="rn_1:1:0", provider_id="p1", name="lookup_order", arguments='{"order_id": "Áo dài"}'
)
SECOND = ToolCall(id="rn_1:1:1", provider_id="p2", name="look up", arguments='{"order_id":')
HISTORY = (
    Recap(facts='{"orders":["A100"]}', summary="Khách hỏi về đơn A100 </summary>"),
    CustomerTurn(text="Đơn A100 của tôi đâu? 🧵", today=TODAY),
    AssistantCalls(calls=(FIRST, SECOND), thought="Xem đơn."),
    ToolResult(call=FIRST, content='{"order_id":"A100","total":"250.000\u00a0₫"}'),
    ToolResult(call=SECOND, content="ERROR UNKNOWN_TOOL: there is no tool 'look up'"),
    Correction(text="Câu trả lời trước trống."),
    AssistantCalls(calls=(FIRST,)),
    ToolResult(call=FIRST, content="{}"),
    AssistantTurn(text="Đơn đã giao."),
    CustomerTurn(text="Cảm ơn", today=TODAY),
)


async def created(question, **options):
    """What the vendor's client sends for the same request."""
    reply = streamed(answer("Dạ")) if options.get("stream") else answer("Dạ")
    with ModelServer([reply]) as server:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=server.base_url) as client:
            await client.chat.completions.create(
                model="test-model",
                max_tokens=77,
                messages=chat_messages(question),
                tools=chat_tools(question.tools),
                tool_choice="auto",
                **options,
            )
    return server.requests[0]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_body_is_what_create_sends(stream):
    question = request(*HISTORY)
    reply = streamed(answer("Dạ")) if stream else answer("Dạ")
    async with served(reply, stream=stream, max_output_tokens=77) as (model, server):
        await model.decide(question)

    ours = server.requests[0]
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    vendors = await created(question, **options)
    assert ours.json == vendors.json
    assert ours.path == vendors.path
    for header in ("authorization", "content-type", "accept"):
        assert ours.headers[header] == vendors.headers[header]


async def test_a_history_starts_as_it_was_sent_before():
    """So that a provider's cache serves it, byte for byte."""
    async with served(answer("1"), answer("2")) as (model, server):
        await model.decide(request(*HISTORY[:5]))
        await model.decide(request(*HISTORY))

    before, after = (received.body for received in server.requests)
    assert after.startswith(before[: before.index(b"there is no tool")])


async def test_no_call_is_ever_forced():
    again = request(*HISTORY)
    async with served(calls(("lookup_order", "{}")), answer("Dạ")) as (model, server):
        await model.decide(request())
        await model.decide(again)

    assert [received.json["tool_choice"] for received in server.requests] == ["auto", "auto"]


@pytest.mark.parametrize(
    ("own", "left", "limit"), [(77, None, 77), (77, 40, 40), (77, 400, 77), (77, 0, 1)]
)
async def test_the_output_limit_is_the_smaller_one(own, left, limit):
    async with served(answer("Dạ"), max_output_tokens=own) as (model, server):
        await model.decide(request(max_output_tokens=left))

    assert server.requests[0].json["max_tokens"] == limit


async def test_one_set_of_tools_is_not_sent_for_another():
    async with served(answer("1"), answer("2")) as (model, server):
        await model.decide(request(tools=(TOOL,)))
        await model.decide(request(tools=()))

    assert "tools" not in server.requests[1].json

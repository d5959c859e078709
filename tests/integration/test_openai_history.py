"""Calls come back from the database as the model made them: the history is sent byte for byte."""

from support_agent.adapters.models import chat_messages as chat_messages_module
from support_agent.adapters.models.chat_messages import chat_messages
from support_agent.agent.turns import Incoming
from support_agent.container import open_container
from support_agent.ports.model import AssistantCalls, ToolResult
from support_agent.testing.clock import FixedClock
from support_agent.testing.model_server import ModelServer, answer, calls
from tests.kit import TODAY, binding_of, settings_for
from tests.openai_kit import call_of, request

TWO_CALLS = calls(
    ("lookup_order", '{ "order_id" :"A100"}'),
    ("refund_policy", ""),
    ids=["call_Áo", None],
)


async def test_two_calls_without_content_are_the_same_bytes_after_a_restart(shop_url):
    replies = [TWO_CALLS, answer("Đơn A100 đã giao."), answer("Không có gì ạ.")]
    with ModelServer(replies) as server:
        conversation = None
        for text in ("Đơn A100 sao rồi?", "Cảm ơn"):
            conversation = await said(shop_url, server, text, conversation)

    _, before, after = (received.body for received in server.requests)
    shown = before[: before.rindex(b'],"tools":')]
    assert shown.count(b'"content":null') == 1
    assert b'"id":"call_\xc3\x81o"' in shown
    assert after.startswith(shown)


def test_an_id_of_another_server_is_no_longer_than_this_one_takes():
    made = [call_of(provider_id=f"chatcmpl-tool-{n:032x}") for n in range(2)]
    results = [ToolResult(call=call, content="{}") for call in made]
    question = request(AssistantCalls(calls=tuple(made)), *results)

    called, *answered = chat_messages(question, longest_id=40)[-3:]

    ids = [call["id"] for call in called["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in answered]
    assert len(set(ids)) == 2
    assert max(map(len, ids)) <= 40
    as_they_came = chat_messages(question)[-3]["tool_calls"]
    assert [call["id"] for call in as_they_came] == [call.provider_id for call in made]


async def said(url, server, text, conversation):
    """A message to a process that was started for it; the conversation's id."""
    settings = settings_for(
        url, model={"kind": "openai", "name": "m"}, OPENAI_BASE_URL=server.base_url
    )
    async with open_container(settings, overrides={"clock": FixedClock(TODAY)}) as container:
        incoming = Incoming(text=text, binding=binding_of("C001"), conversation_id=conversation)
        return (await container.agent().take(incoming)).conversation_id


def test_turns_of_any_length_are_not_kept_for_ever():
    """A process answers for months; what a model wrote once must not stay in its memory."""
    before = chat_messages_module._remembered.cache_info().currsize
    for number in range(20):
        huge = call_of(arguments=f'{{"{number}": "{"a" * 100_000}"}}')
        chat_messages(request(AssistantCalls(calls=(huge,)), ToolResult(call=huge, content="{}")))

    kept = chat_messages_module._remembered.cache_info().currsize - before
    assert kept <= 2  # the question and the short result

"""Streamed chat completions: put together as if they had come whole, and all ways to break off."""

import json
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from support_agent.adapters.models.chat_stream import ChatStream
from support_agent.domain.errors import ContextTooLong, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.domain.runs import CallTools, FinalAnswer, Usage
from support_agent.domain.tokens import estimate_tokens
from support_agent.testing.model_server import answer, calls, completion, failure
from support_agent.testing.model_streams import delta, events, streamed
from tests.openai_kit import decided, refused, request, served

COUNTED = {"prompt_tokens": 120, "completion_tokens": 30}
TWO_CALLS = calls(
    ("lookup_order", '{"order_id": "A100", "note": "Áo dài 🧵"}'),
    ("refund_policy", "{}"),
    content="Xem đơn và chính sách.",
    usage=COUNTED,
)


def call(index=None, name=None, arguments=None, **fields):
    """An event with a part of one call."""
    function = {"name": name, "arguments": arguments}
    entry = {"function": {key: value for key, value in function.items() if value is not None}}
    if index is not None:
        entry["index"] = index
    return delta({"tool_calls": [entry | fields]})


async def made(*sent):
    """The calls that a stream comes to, as name and arguments."""
    reply = await decided(events(*sent, delta({}, finish_reason="tool_calls")), stream=True)
    return [(each.name, each.arguments) for each in reply.decision.calls]


class TestAssembly:
    async def test_the_body_asks_for_a_stream_with_usage(self):
        async with served(streamed(answer("Dạ")), stream=True) as (model, server):
            await model.decide(request())

        assert server.requests[0].json["stream"] is True
        assert server.requests[0].json["stream_options"] == {"include_usage": True}

    @pytest.mark.parametrize(
        "reply",
        [
            TWO_CALLS,
            answer("Đơn A100 đã giao. 🧵\nAnh/chị cần gì thêm?", usage=COUNTED),
            calls(("a", ""), ("b", '{"order_id":'), ("c", '{"x":"' + "y" * 500 + '"}')),
            calls(("lookup_order", "{}"), ids=[None]),
            completion({"content": None, "refusal": "Tôi không thể làm việc đó."}),
            completion({"content": "Đơn A1"}, finish_reason="length", usage=COUNTED),
        ],
        ids=["two calls", "text", "odd arguments", "no id", "refusal", "length"],
    )
    async def test_a_streamed_reply_is_the_reply(self, reply):
        whole, in_parts = await decided(reply), await decided(streamed(reply), stream=True)

        assert in_parts.decision == whole.decision
        assert in_parts.usage.output_tokens == whole.usage.output_tokens

    async def test_usage_comes_in_the_last_event(self):
        reply = await decided(
            streamed(TWO_CALLS), stream=True, prices={"test-model": Price(input=10_000, output=0)}
        )

        assert reply.usage == Usage(requests=1, input_tokens=120, output_tokens=30, cost_micros=2)

    async def test_a_server_that_does_not_stream_is_understood(self):
        assert (await decided(answer("Dạ"), stream=True)).decision == FinalAnswer(text="Dạ")

    async def test_a_server_that_streams_unasked_is_understood(self):
        assert (await decided(streamed(answer("Dạ")))).decision == FinalAnswer(text="Dạ")

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
    @pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
    def test_neither_cuts_nor_line_ends_matter(self, size, ending):
        body = b"".join(streamed(TWO_CALLS).chunks).replace(b"\n", ending)
        stream = ChatStream()

        for start in range(0, len(body), size):
            stream.feed(body[start : start + size])
        stream.end()

        whole = json.loads(TWO_CALLS.body)
        assert stream.is_done
        assert stream.message["content"] == whole["choices"][0]["message"]["content"]
        assert stream.message["tool_calls"] == whole["choices"][0]["message"]["tool_calls"]
        assert stream.usage == COUNTED

    async def test_comments_other_fields_and_blank_events_are_passed_over(self):
        sent = [b": keep-alive\n\n", b"event: x\nid: 7\nretry: 3\n\n", b"data:\n\n", b"\n\n\n"]
        reply = await decided(events(*sent, delta({"content": "Dạ"}), *sent), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_a_byte_order_mark_is_passed_over(self):
        reply = await decided(events(b"\xef\xbb\xbf", delta({"content": "Dạ"})), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    def test_no_bytes_between_cr_and_lf_change_nothing(self):
        stream = ChatStream()

        for part in (b'data: {"usage":\r', b"", b'\ndata: {"prompt_tokens":7}}\r\n\r\n'):
            stream.feed(part)

        assert stream.usage == {"prompt_tokens": 7}

    async def test_data_over_several_lines_is_one_document(self):
        lines = json.dumps(delta({"content": "Dạ"}), indent=1).replace("\n", "\ndata: ")

        reply = await decided(events(f"data: {lines}\n\n".encode()), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_an_end_without_done_or_blank_line_is_an_end(self):
        last = b"data: " + json.dumps(delta({}, finish_reason="stop")).encode()

        reply = await decided(events(delta({"content": "Dạ"}), last, done=False), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_what_follows_the_end_is_not_read(self):
        sent = [delta({"content": "Dạ"}), "[DONE]", delta({"content": "!"}), "no json"]

        reply = await decided(events(*sent), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_a_connection_that_stays_open_after_the_end_does_not_hold_the_answer_up(self):
        ended = [delta({"content": "Dạ"}), "[DONE]"]
        open_ended = replace(events(*ended, *ended, done=False), fault="stall")

        reply = await decided(open_ended, stream=True, timeout_s=20)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_only_the_first_choice_is_read(self):
        other = {"choices": [{"index": 1, "delta": {"content": "khác"}}]}

        reply = await decided(events(other, delta({"content": "Dạ"}), other), stream=True)

        assert reply.decision == FinalAnswer(text="Dạ")

    async def test_content_in_parts_is_joined(self):
        parts = [{"type": "text", "text": "Dạ "}, {"type": "image"}]

        reply = await decided(
            events(delta({"content": parts}), delta({"content": "có"})), stream=True
        )

        assert reply.decision == FinalAnswer(text="Dạ có")


class TestCalls:
    async def test_interleaved_parts_find_their_call(self):
        assert await made(
            call(1, "b", '{"x"', id="p2"),
            call(0, "a", '{"y', id="p1"),
            call(1, None, ":1}"),
            call(0, None, '":2}'),
        ) == [("a", '{"y":2}'), ("b", '{"x":1}')]

    async def test_a_name_that_is_repeated_or_comes_in_parts_is_one_name(self):
        assert await made(
            call(0, "lookup_", "", id="p1"),
            call(0, "order", "{"),
            call(0, "lookup_order", "}", id="p1"),
        ) == [("lookup_order", "{}")]

    async def test_calls_of_one_index_with_ids_of_their_own_are_several(self):
        assert await made(
            call(0, "a", '{"n":1}', id="p1"),
            call(0, "a", '{"n":2}', id="p2"),
            call(0, "b", "{}", id="p3"),
        ) == [("a", '{"n":1}'), ("a", '{"n":2}'), ("b", "{}")]

    async def test_calls_of_one_index_get_the_parts_that_follow_them(self):
        assert await made(
            call(0, "a", "", id="p1"),
            call(0, None, '{"n":1}'),
            call(0, "b", "", id="p2"),
            call(0, None, '{"n":2}'),
        ) == [("a", '{"n":1}'), ("b", '{"n":2}')]

    async def test_a_later_index_is_no_part_of_a_call_that_shared_one(self):
        assert await made(
            call(0, "a", "{}", id="p1"), call(0, "b", "{}", id="p2"), call(1, "c", "{}")
        ) == [("a", "{}"), ("b", "{}"), ("c", "{}")]

    async def test_parts_without_an_index_find_their_call_by_its_id(self):
        assert await made(
            call(None, "a", "", id="p1"),
            call(None, "b", "", id="p2"),
            call(None, None, '{"n":1}', id="p1"),
            call(None, None, '{"n":2}', id="p2"),
        ) == [("a", '{"n":1}'), ("b", '{"n":2}')]

    async def test_calls_without_an_index_begin_with_a_name(self):
        assert await made(
            call(None, "a", '{"n":'), call(None, None, "1}"), call(None, "b", "{}")
        ) == [("a", '{"n":1}'), ("b", "{}")]

    async def test_arguments_that_come_as_an_object_become_text(self):
        assert await made(call(0, "a", {"order_id": "Áo"}, id="p1")) == [
            ("a", '{"order_id": "Áo"}')
        ]

    async def test_the_form_before_tools_is_a_call(self):
        assert await made(
            delta({"function_call": {"name": "a", "arguments": '{"n"'}}),
            delta({"function_call": {"arguments": ":1}"}}),
        ) == [("a", '{"n":1}')]

    async def test_custom_calls_carry_their_text_as_arguments(self):
        custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "t", "input": "A1"}}
        more = {"index": 0, "custom": {"input": "00"}}

        assert await made(delta({"tool_calls": [custom]}), delta({"tool_calls": [more]})) == [
            ("t", "A100")
        ]

    async def test_half_a_call_is_told_back_by_the_loop(self):
        sent = [call(0, "a", '{"n":', id="p1"), delta({}, finish_reason="length")]

        reply = await decided(events(*sent), stream=True)

        assert isinstance(reply.decision, CallTools)
        assert reply.decision.calls[0].arguments == '{"n":'

    async def test_a_call_cut_off_before_its_arguments_is_not_made_without_them(self):
        sent = [call(0, "a", "", id="p1"), delta({}, finish_reason="length")]

        assert "cut off" in str(await refused(events(*sent), ModelReplyInvalid, stream=True))


BROKEN_OFF = {
    "no end": events(delta({"content": "Dạ"}), done=False),
    "cut": replace(streamed(answer("Dạ, đơn của anh/chị đã giao.")), fault="cut"),
    "silent": replace(streamed(answer("Dạ, đơn của anh/chị đã giao.")), fault="stall"),
    "no event": events(b": keep-alive\n\n", done=False),
    "slow": replace(events(*[b": keep-alive\n\n"] * 500), pause_s=0.02),
    "an error": events(delta({"content": "Dạ"}), {"error": {"code": "server_error"}}),
}
NO_COMPLETION = {
    "no JSON": events("<html>"),
    "invalid UTF-8": events(b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n'),
    "a list": events([]),
    "choices of another type": events({"choices": "x"}),
    "a choice of another type": events({"choices": ["x"]}),
    "a delta of another type": events({"choices": [{"delta": "x"}]}),
    "content of another type": events(delta({"content": 7})),
    "calls of another type": events(delta({"tool_calls": {"index": 0}})),
    "a call of another type": events(delta({"tool_calls": ["x"]})),
    "a name of another type": events(call(0, 7)),
    "a call without a name": events(call(0, None, "{}")),
    "a function of another type": events(delta({"tool_calls": [{"function": "x"}]})),
    "deep": events("[" * 200_000),
    "nothing": events(),
    "endless": events(b"data: " + b"x" * 20_000_000),
    "half a surrogate pair": events(b'data: {"choices":[{"delta":{"content":"\\ud800"}}]}\n\n'),
}


LONG = {
    "many calls": [{"index": index} for index in range(50_000)],
    "many parts": [{"index": 0, "function": {"arguments": "x" * 45}}] * 80_000,
    "many names": [{"index": 0, "function": {"name": "x" * 45}}] * 80_000,
}


@pytest.mark.parametrize("entries", LONG.values(), ids=LONG)
def test_no_stream_takes_long(entries):
    stream = ChatStream()
    body = json.dumps(delta({"tool_calls": entries})).encode()
    started = time.process_time()

    with suppress(ModelReplyInvalid):
        stream.feed(b"data: " + body + b"\n\n")
    _ = stream.message

    assert time.process_time() - started < 3


class TestFaults:
    @pytest.mark.parametrize("reply", BROKEN_OFF.values(), ids=BROKEN_OFF)
    async def test_a_stream_that_breaks_off_may_be_asked_for_again(self, reply):
        async with served(reply, stream=True, timeout_s=0.4) as (model, server):
            with pytest.raises(ModelUnavailable) as caught:
                await model.decide(request())

        sent = estimate_tokens(server.requests[0].body.decode())
        assert caught.value.may_pass
        assert caught.value.usage.requests == 1
        assert caught.value.usage.input_tokens == sent

    async def test_what_had_come_is_counted(self):
        text = "Dạ, đơn của anh/chị "
        error = await refused(
            events(delta({"content": text}), done=False), ModelUnavailable, stream=True
        )

        assert error.usage.output_tokens == estimate_tokens(text)

    @pytest.mark.parametrize("reply", NO_COMPLETION.values(), ids=NO_COMPLETION)
    async def test_a_stream_of_something_else_is_invalid(self, reply):
        error = await refused(reply, ModelReplyInvalid, stream=True)

        assert error.usage.requests == 1
        assert error.usage.input_tokens > 0

    async def test_an_error_event_about_the_length_is_one(self):
        reply = events({"error": {"code": "context_length_exceeded"}})

        error = await refused(reply, ContextTooLong, stream=True)

        assert error.usage == Usage(requests=1)

    async def test_an_error_status_is_judged_before_the_stream(self):
        error = await refused(failure(429, retry_after="2"), ModelUnavailable, stream=True)

        assert error.retry_after == 2.0

    async def test_the_next_call_is_answered(self):
        broken = replace(streamed(answer("Dạ" * 100)), fault="cut")
        async with served(broken, streamed(answer("Dạ")), stream=True) as (model, _):
            with pytest.raises(ModelUnavailable):
                await model.decide(request())

            assert (await model.decide(request())).decision == FinalAnswer(text="Dạ")

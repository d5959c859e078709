"""What the Messages adapter makes of a reply, served by a real server on the loopback address."""

import gzip
import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

from support_agent.adapters.models.anthropic_replies import Answer, read_message
from support_agent.domain.errors import ContextTooLong, ModelReplyInvalid, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.domain.runs import CallTools, FinalAnswer, ToolCall, Usage
from support_agent.testing.anthropic_replies import asks, message, says, thinks
from support_agent.testing.model_server import ServerReply
from tests.anthropic_kit import decided, refused, request, served

USAGE = {"input_tokens": 100, "output_tokens": 600}
PRICES = {"claude-test": Price(input=3_000_000, output=15_000_000)}


class TestDecision:
    @pytest.mark.parametrize("stop", ["end_turn", "stop_sequence", None, "new_one"])
    async def test_text_is_the_answer(self, stop):
        reply = await decided(message(says("Dạ có"), stop=stop))

        assert reply.decision == FinalAnswer(text="Dạ có")

    async def test_text_that_the_output_limit_broke_off_shows_that_it_was(self):
        reply = await decided(message(says("Đơn A100 đã"), stop="max_tokens"))

        assert reply.decision == FinalAnswer(text="Đơn A100 đã […]")

    async def test_a_call_written_into_the_text_is_made_and_not_shown(self):
        text = 'Xem đơn. {"name":"lookup_order","arguments":{"order_id":"A100"}}'

        reply = await decided(message(says(text)))

        assert [(call.name, call.arguments) for call in reply.decision.calls] == [
            ("lookup_order", '{"order_id":"A100"}')
        ]

    async def test_a_broken_call_in_the_text_is_told_back(self):
        await refused(message(says('<tool_call>{"name":"lookup_order",')), ModelReplyInvalid)

    async def test_text_in_several_blocks_is_joined_and_other_blocks_are_not_shown(self):
        odd = {"type": "server_tool_use", "name": "web_search", "input": {}, "text": "không"}

        reply = await decided(message(thinks("Nghĩ"), says("Dạ "), odd, says("có ")))

        assert reply.decision == FinalAnswer(text="Dạ có")

    @pytest.mark.parametrize("stop", ["tool_use", "end_turn", "pause_turn"])
    async def test_calls_are_made_whatever_the_reply_says_it_stopped_for(self, stop):
        reply = await decided(
            message(
                says("Xem đơn."),
                asks("lookup_order", {"order_id": "Á100"}, call_id="toolu_A"),
                asks("refund_policy", {}, call_id="toolu_B"),
                stop=stop,
            )
        )

        assert reply.decision == CallTools(
            thought="Xem đơn.",
            calls=(
                ToolCall(
                    id="rn_1:2:0",
                    provider_id="toolu_A",
                    name="lookup_order",
                    arguments='{"order_id":"Á100"}',
                ),
                ToolCall(
                    id="rn_1:2:1", provider_id="toolu_B", name="refund_policy", arguments="{}"
                ),
            ),
        )

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            (["a", "b"], ["a", "b"]),
            (["a", "a"], ["a", "call_rn_1_2_1"]),
            ([None, ""], ["call_rn_1_2_0", "call_rn_1_2_1"]),
            ([7, "gọi 1"], ["call_rn_1_2_0", "gọi 1"]),
            (["a\x00", "\ud800"], ["call_rn_1_2_0", "call_rn_1_2_1"]),
        ],
    )
    async def test_an_id_that_is_missing_or_repeated_is_made_up(self, given, kept):
        blocks = [asks("t", {}, call_id=name) for name in given]
        body = json.dumps({"type": "message", "content": blocks, "stop_reason": "tool_use"})

        reply = await decided(ServerReply(body=body.encode()))

        assert [call.provider_id for call in reply.decision.calls] == kept

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            (None, ""),
            ({}, "{}"),
            ({"b": 1, "a": "Áo"}, '{"b":1,"a":"Áo"}'),
            ([], "[]"),
            (' {"a": 1}', ' {"a": 1}'),
        ],
    )
    async def test_input_becomes_text(self, given, text):
        reply = await decided(message(asks("t", given)))

        assert reply.decision.calls[0].arguments == text

    async def test_content_that_is_plain_text_is_an_answer(self):
        reply = await decided(ServerReply(body=b'{"type":"message","content":"Da"}'))

        assert reply.decision == FinalAnswer(text="Da")

    async def test_a_call_with_another_one_behind_it_is_whole_at_the_output_limit(self):
        """Only the last block of a reply can be cut off."""
        reply = await decided(message(asks("t", {}), says("và"), stop="max_tokens"))

        assert [call.name for call in reply.decision.calls] == ["t"]


class TestUsage:
    async def test_what_the_servers_cache_took_and_gave_is_input_at_its_own_price(self):
        usage = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": 5000,
            "output_tokens": 10,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000},
        }

        reply = await decided(message(says("Dạ"), usage=usage), prices=PRICES)

        # 100 + 1000 * 5/4 + 5000 / 10 tokens at 3 USD a million, 10 at 15.
        assert reply.usage == Usage(
            requests=1, input_tokens=6100, output_tokens=10, cost_micros=1850 * 3 + 10 * 15
        )

    async def test_a_model_without_a_price_is_counted_as_free(self):
        reply = await decided(message(says("Dạ"), usage=USAGE))

        assert reply.usage == Usage(requests=1, input_tokens=100, output_tokens=600)

    @pytest.mark.parametrize(
        "usage",
        [None, {}, {"input_tokens": "9"}, {"input_tokens": -5, "output_tokens": 10**30}],
    )
    async def test_what_no_server_counted_is_estimated_from_both_texts(self, usage):
        reply = await decided(message(says("Dạ, đơn A100 đã giao."), usage=usage), prices=PRICES)

        assert reply.usage.requests == 1
        assert 50 < reply.usage.input_tokens < 500
        assert 5 < reply.usage.output_tokens < 50
        assert reply.usage.cost_micros > 0

    @pytest.mark.parametrize("stop", ["refusal", "max_tokens"])
    async def test_tokens_of_an_unusable_reply_are_not_lost(self, stop):
        error = await refused(message(stop=stop, usage=USAGE), ModelReplyInvalid)

        assert error.usage == Usage(requests=1, input_tokens=100, output_tokens=600)

    async def test_tokens_of_a_reply_that_cannot_be_read_are_estimated(self):
        error = await refused(ServerReply(body=b"{"), ModelReplyInvalid)

        assert error.usage.input_tokens > 50


def test_arguments_that_are_nested_too_deeply_to_be_written_are_told_back(monkeypatch):
    # Reading gives up a little later than writing, so that a reply may be between the two.
    monkeypatch.setattr(json, "dumps", Mock(side_effect=RecursionError))
    reply = Answer(
        sent=b"{}",
        body=b'{"content":[{"type":"tool_use","name":"t","input":{"a":[]}}]}',
        media_type="application/json",
    )

    with pytest.raises(ModelReplyInvalid, match="too deeply"):
        read_message(
            reply, call_prefix="r:1", tool_names=frozenset(), price=None, state=lambda _: ""
        )


LATIN = b'{"type":"message","content":[{"type":"text","text":"\xff"}]}'
INVALID = {
    "text": ServerReply(body=b"upstream", content_type="text/plain"),
    "empty body": ServerReply(body=b""),
    "no content": ServerReply(status=204),
    "utf-16": ServerReply(body='{"content":[]}'.encode("utf-16")),
    "invalid utf-8": ServerReply(body=LATIN),
    "deep": ServerReply(body=b"[" * 200_000),
    "a list": ServerReply(body=b"[]"),
    "a number of 5000 digits": ServerReply(body=b"9" * 5000),
    "nothing in it": ServerReply(body=b"{}"),
    "content null": ServerReply(body=b'{"content":null}'),
    "content of another type": ServerReply(body=b'{"content":{"text":"x"}}'),
    "a block of another type": ServerReply(body=b'{"content":["x"]}'),
    "a chat completion": ServerReply(body=b'{"choices":[{"message":{"content":"x"}}]}'),
    "5 MB": message(says("x" * 5_000_000)),
    "a gzip bomb": ServerReply(
        body=gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}
    ),
    "not gzip": ServerReply(body=b"{}", headers={"Content-Encoding": "gzip"}),
    "no blocks": message(),
    "blank text": message(says(" \n")),
    "text of another type": message({"type": "text", "text": 3}),
    "text without text": message({"type": "text"}),
    "thinking only": message(thinks("Nghĩ mãi"), stop="max_tokens"),
    "refusal": message(says("I can"), stop="refusal"),
    "refusal with a call": message(asks("t", {}), stop="refusal"),
    "pause with text": message(says("Tôi đang"), stop="pause_turn"),
    "half a call": message(says("Xem"), asks("t", {"a": 1}), stop="max_tokens"),
    "call without name": message({"type": "tool_use", "id": "a", "input": {}}),
    "name empty": message(asks("", {})),
    "name of another type": message({"type": "tool_use", "name": 3}),
    "NUL in a name": message(asks("a\x00", {})),
    "half a surrogate pair": ServerReply(body=b'{"content":[{"type":"text","text":"\\ud800"}]}'),
    "half a surrogate pair in an input": ServerReply(
        body=b'{"content":[{"type":"tool_use","name":"t","input":{"a":"\\ud800"}}]}'
    ),
}


@pytest.mark.parametrize("reply", INVALID.values(), ids=INVALID)
async def test_an_answer_that_is_no_decision_is_invalid_and_the_next_one_works(reply):
    async with served(reply, message(says("Dạ"))) as (model, server):
        with pytest.raises(ModelReplyInvalid) as caught:
            await model.decide(request())

        assert caught.value.usage.requests == 1
        assert (await model.decide(request())).decision == FinalAnswer(text="Dạ")
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("refusal", "refusal"),
        ("thinking only", "cut off at the output limit before any text"),
        ("half a call", "in the middle of a call"),
        ("pause with text", "stopped in the middle"),
        ("no blocks", "empty"),
        ("text", "not JSON"),
        ("5 MB", "longer than"),
    ],
)
async def test_an_invalid_reply_says_why(name, text):
    assert text in str(await refused(INVALID[name]))


@pytest.mark.parametrize("content", [[], [says("Đơn của")], [asks("t", {})]])
async def test_a_reply_that_hits_the_end_of_the_window_asks_for_a_shorter_view(content):
    error = await refused(
        message(*content, stop="model_context_window_exceeded", usage=USAGE), ContextTooLong
    )

    assert error.usage == Usage(requests=1, input_tokens=100, output_tokens=600)


@pytest.mark.parametrize(
    ("kind", "may_pass"),
    [
        ("overloaded_error", True),
        ("rate_limit_error", True),
        ("api_error", True),
        ("timeout_error", True),
        ("invalid_request_error", False),
        ("billing_error", False),
        (None, True),
    ],
)
async def test_an_error_inside_a_successful_answer_is_unavailable(kind, may_pass):
    body = {"type": "error", "error": {"type": kind, "message": "x"}}

    error = await refused(ServerReply(body=json.dumps(body).encode()), ModelUnavailable)

    assert (kind or "no type") in str(error)
    assert error.may_pass is may_pass


@pytest.mark.parametrize("label", ["text/html; charset=utf-8", "text/event-stream", "image/png"])
async def test_what_no_model_server_sends_names_the_address(label):
    error = await refused(ServerReply(body=b"<html>", content_type=label), ModelUnavailable)

    assert "ANTHROPIC_BASE_URL" in str(error)
    assert label.split(";")[0] in str(error)
    assert not error.may_pass


async def test_json_under_another_content_type_is_read():
    reply = replace(message(says("Dạ")), content_type="text/html; charset=latin-1")

    assert (await decided(reply)).decision == FinalAnswer(text="Dạ")

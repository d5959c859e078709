"""Whatever a chat-completion server sends, it ends in a decision or in one of our errors."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support_agent.adapters.models.chat_errors import http_failure
from support_agent.adapters.models.chat_replies import Completion, read_reply
from support_agent.adapters.models.chat_stream import ChatStream
from support_agent.adapters.models.chat_usage import counted_usage
from support_agent.domain.errors import ConfigurationError, ModelError, ModelReplyInvalid
from support_agent.domain.runs import CallTools, Usage
from support_agent.testing.model_streams import events

FIELDS = st.sampled_from(
    [
        "choices",
        "message",
        "delta",
        "content",
        "refusal",
        "tool_calls",
        "function_call",
        "function",
        "custom",
        "index",
        "id",
        "name",
        "arguments",
        "input",
        "finish_reason",
        "error",
        "code",
        "type",
        "usage",
        "text",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["length", "stop", "custom", "function", "{}", "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)
DELTAS = st.builds(lambda delta: {"choices": [{"delta": delta}]}, VALUES)
MESSAGES = st.builds(lambda message: {"choices": [{"message": message}]}, VALUES)
DEEP = json.loads("[" * 900 + "]" * 900)


def judged(document):
    return read_reply(
        Completion(document=document, usage=Usage(requests=1)),
        call_prefix="rn_1:1",
        tool_names=frozenset({"lookup_order"}),
    ).decision


@given(st.dictionaries(FIELDS, VALUES) | MESSAGES)
def test_any_document_is_a_decision_or_no_usable_reply(document):
    with suppress(ModelReplyInvalid):
        decision = judged(document)
        if isinstance(decision, CallTools):
            ids = [call.provider_id for call in decision.calls]
            assert len(set(ids)) == len(ids) > 0
            assert all(call.name for call in decision.calls)


@given(st.lists(VALUES | DELTAS, max_size=5))
def test_any_stream_is_a_reply_or_one_of_our_errors(documents):
    stream = ChatStream()
    with suppress(ModelError):
        for chunk in events(*(json.dumps(document) for document in documents)).chunks:
            stream.feed(chunk)
        judged(stream.document())


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_a_stream_or_one_of_our_errors(chunks):
    stream = ChatStream()
    with suppress(ModelError):
        for chunk in chunks:
            stream.feed(b"data:" + chunk)
        stream.end()


@given(
    st.integers(300, 599),
    st.binary(max_size=40) | st.builds(lambda value: json.dumps(value).encode(), VALUES),
)
def test_any_failure_is_one_of_our_errors(status, body):
    assert isinstance(http_failure(status, {}, body), ModelError | ConfigurationError)


@given(VALUES, VALUES)
def test_any_usage_is_a_count(counts, message):
    usage = counted_usage(counts, sent=b"{}", message=message, price=None)

    assert usage.requests == 1
    assert min(usage.input_tokens, usage.output_tokens) >= 0


@pytest.mark.parametrize(
    "message",
    [
        {"content": DEEP},
        {"content": [{"text": DEEP}]},
        {"tool_calls": [{"function": {"name": "a", "arguments": DEEP}}]},
    ],
)
def test_nesting_has_a_limit(message):
    assert counted_usage(None, sent=b"", message=message, price=None).output_tokens < 10
    with suppress(ModelReplyInvalid):
        judged({"choices": [{"message": message}]})

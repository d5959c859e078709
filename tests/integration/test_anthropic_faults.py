"""What the Messages adapter makes of a server that fails, over both HTTP clients."""

import json
import logging
import traceback
from dataclasses import replace

import pytest
from pydantic import SecretStr

from support_agent.domain.errors import ConfigurationError, ContextTooLong, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.domain.runs import FinalAnswer, Usage
from support_agent.testing.anthropic_replies import failed, message, says
from support_agent.testing.model_server import ModelServer, ServerReply
from tests.anthropic_kit import KEY, model_at, refused, request, root_of, served

SENT = range(50, 500)  # tokens of the sample request, as estimated
PRICES = {"claude-test": Price(input=3_000_000, output=15_000_000)}


@pytest.fixture(params=["httpx2", "aiohttp"])
def transport(request):
    return request.param


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_server_that_fails_may_answer_later(status, transport):
    error = await refused(failed(status, "some_error"), ModelUnavailable, transport=transport)

    assert f"HTTP {status}, some_error" in str(error)
    assert error.may_pass
    assert error.retry_after is None
    assert error.usage == Usage(requests=1)


@pytest.mark.parametrize("status", [400, 402, 405, 422, 451])
async def test_a_request_that_is_refused_for_what_it_is_will_be_again(status):
    error = await refused(failed(status, "invalid_request_error"), ModelUnavailable)

    assert not isinstance(error, ContextTooLong)
    assert not error.may_pass


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (413, "request_too_large", "Request exceeds the maximum size"),
        (400, "invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        (400, "invalid_request_error", "Prompt is too long"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
        ),
        (400, "invalid_request_error", "messages: the input exceeds the context window"),
    ],
)
async def test_a_request_that_is_too_long_asks_for_a_shorter_view(status, kind, words, transport):
    error = await refused(failed(status, kind, words), ContextTooLong, transport=transport)

    assert f"HTTP {status}, {kind}" in str(error)
    assert words not in str(error)


@pytest.mark.parametrize(
    ("retry_after", "seconds"), [("2", 2.0), ("0.5", 0.5), ("soon", None), ("-1", None)]
)
async def test_retry_after_is_passed_on(retry_after, seconds):
    error = await refused(failed(429, "rate_limit_error", retry_after=retry_after))

    assert error.retry_after == seconds


async def test_a_request_is_sent_once_and_never_retried(transport):
    retry = {"x_should_retry": "true", "retry_after": "0"}
    replies = (failed(529, "overloaded_error", **retry), message(says("Dạ")))
    async with served(*replies, transport=transport) as (model, server):
        with pytest.raises(ModelUnavailable):
            await model.decide(request())

        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "setting", "also"),
    [
        (401, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        (403, "ANTHROPIC_API_KEY", "SUPPORT_AGENT_MODEL__NAME"),
        (404, "SUPPORT_AGENT_MODEL__NAME", "ANTHROPIC_BASE_URL"),
    ],
)
async def test_a_wrong_setting_does_not_look_like_an_outage(status, setting, also, transport):
    error = await refused(failed(status), ConfigurationError, transport=transport)

    assert error.setting == setting
    assert also in str(error)


async def test_an_address_that_ends_in_v1_is_a_wrong_setting():
    with ModelServer([message(says("Dạ"))]) as server:
        model = model_at(server.base_url)
        with pytest.raises(ConfigurationError, match="ANTHROPIC_BASE_URL"):
            await model.decide(request())
        await model.aclose()


@pytest.mark.parametrize(
    "words",
    [
        '"thinking.type.enabled" is not supported for this model',
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    ],
)
async def test_a_model_that_takes_no_thinking_budget_names_the_setting(words):
    error = await refused(
        failed(400, "invalid_request_error", words),
        ConfigurationError,
        thinking_tokens=2000,
        max_output_tokens=4000,
    )

    assert error.setting == "SUPPORT_AGENT_MODEL__THINKING_TOKENS"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_customer_messages_do_not_follow_a_redirect(status, transport):
    with ModelServer([message(says("Dạ"))]) as elsewhere:
        target = f"{elsewhere.base_url}/messages"
        error = await refused(
            failed(status, location=target), ConfigurationError, transport=transport
        )

        assert error.setting == "ANTHROPIC_BASE_URL"
        assert elsewhere.requests == ()


BROKEN = {
    "reset": ServerReply(fault="reset"),
    "cut": replace(message(says("x" * 1000)), fault="cut"),
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_a_broken_connection_may_have_been_billed_and_the_next_one_works(reply, transport):
    replies = (reply, message(says("Dạ")))
    async with served(*replies, prices=PRICES, transport=transport) as (model, _):
        with pytest.raises(ModelUnavailable) as caught:
            await model.decide(request())

        assert caught.value.may_pass
        assert caught.value.usage.input_tokens in SENT
        assert caught.value.usage.cost_micros > 0
        assert (await model.decide(request())).decision == FinalAnswer(text="Dạ")


async def test_nobody_listening_is_unavailable_and_costs_nothing(transport):
    with ModelServer() as server:
        gone = root_of(server)
    model = model_at(gone, transport=transport)

    with pytest.raises(ModelUnavailable, match="no connection") as caught:
        await model.decide(request())
    await model.aclose()

    assert caught.value.usage == Usage(requests=1)
    assert caught.value.may_pass


@pytest.mark.parametrize(("own", "asked"), [(30, 0.1), (0.1, 30)])
async def test_the_shorter_time_out_cuts_a_silent_server(own, asked, transport):
    replies = (ServerReply(fault="hang"), message(says("Dạ")))
    async with served(*replies, timeout_s=own, transport=transport) as (model, _):
        with pytest.raises(ModelUnavailable, match=r"no answer in 0\.1 s") as caught:
            await model.decide(request(timeout_s=asked))

        assert caught.value.usage.input_tokens in SENT


async def test_a_server_without_tls_is_no_server_behind_https(transport):
    with ModelServer([message(says("Dạ"))]) as server:
        model = model_at(root_of(server).replace("http://", "https://"), transport=transport)
        with pytest.raises(ModelUnavailable, match="ANTHROPIC_BASE_URL"):
            await model.decide(request())
        await model.aclose()


async def test_an_endless_error_body_is_not_read_to_its_end(transport):
    huge = ServerReply(status=500, body=b"x" * 50_000_000, content_type="text/plain")

    assert "HTTP 500" in str(await refused(huge, ModelUnavailable, transport=transport))


@pytest.mark.parametrize(
    "reply",
    [
        failed(401, KEY),
        failed(400, "invalid_request_error", f"prompt is too long, {KEY}"),
        ServerReply(status=401, body=f"invalid x-api-key: {KEY}".encode()),
        failed(500, "api_error", KEY),
        ServerReply(body=json.dumps({"type": "error", "error": {"type": KEY}}).encode()),
        ServerReply(body=KEY.encode()),
        ServerReply(fault="reset"),
        message(says(KEY), stop="refusal"),
    ],
)
async def test_no_error_and_no_log_repeats_the_key(reply, caplog):
    caplog.set_level(logging.DEBUG)

    error = await refused(reply, api_key=SecretStr(KEY))

    assert KEY not in "".join(traceback.format_exception(error))
    assert KEY not in caplog.text

"""What each refusal of a chat-completion server means: try again, shorten, or mend a setting."""

import json
from dataclasses import replace

import pytest

from support_agent.domain.errors import ConfigurationError, ContextTooLong, ModelUnavailable
from support_agent.domain.runs import Usage
from support_agent.testing.model_server import ModelServer, ServerReply, answer, failure
from tests.openai_kit import refused, request, served


def told(status, error, **fields):
    """An error as a server words it."""
    body = {"error": error} | fields if error is not None else fields
    return ServerReply(status=status, body=json.dumps(body).encode())


LONG = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."
TOO_LONG = {
    "OpenAI": told(400, {"code": "context_length_exceeded", "type": "invalid_request_error"}),
    "llama.cpp": told(
        400,
        {
            "code": 400,
            "type": "exceed_context_size_error",
            "message": "the request exceeds the available context size",
            "n_ctx": 4096,
        },
    ),
    "vLLM": told(400, {"code": 400, "type": "BadRequestError", "message": LONG}),
    "vLLM of old": told(400, None, object="error", message=LONG, type="BadRequestError", code=400),
    "Gemini": told(
        400,
        {
            "code": 400,
            "message": "The input token count (9000) exceeds the maximum number of tokens allowed",
        },
    ),
    "a proxy": ServerReply(status=413, body=b"<html>Request Entity Too Large</html>"),
    "a code under another status": told(500, {"code": "context_length_exceeded"}),
    "an error under 200": told(200, {"code": "context_length_exceeded"}),
    "an error in words under 200": told(200, {"code": 400, "message": LONG}),
}


@pytest.mark.parametrize("reply", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_request_that_is_too_long_is_told_apart(reply):
    error = await refused(reply, ContextTooLong)

    assert not error.may_pass
    assert error.usage == Usage(requests=1)
    assert "4096" not in str(error)


NOT_TOO_LONG = {
    "words under a status that is no refusal": told(503, {"message": LONG}),
    "another length": told(400, {"message": "max_tokens is too large: maximum is 4096"}),
    "another refusal": told(400, {"code": "content_filter", "message": "length of context"}),
    "words that are no text": told(400, {"message": ["maximum context length"]}),
    "no JSON": ServerReply(status=400, body=b"maximum context length"),
}


@pytest.mark.parametrize("reply", NOT_TOO_LONG.values(), ids=NOT_TOO_LONG)
async def test_other_refusals_are_not_taken_for_it(reply):
    assert not isinstance(await refused(reply, ModelUnavailable), ContextTooLong)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_a_failure_that_passes_may_be_asked_again(status):
    error = await refused(failure(status), ModelUnavailable)

    assert error.may_pass
    assert error.usage == Usage(requests=1)


@pytest.mark.parametrize("status", [400, 402, 405, 410, 422, 451])
async def test_a_refusal_of_the_request_may_not(status):
    error = await refused(failure(status), ModelUnavailable)

    assert not error.may_pass
    assert error.usage == Usage(requests=1)


@pytest.mark.parametrize("key", ["code", "type"])
@pytest.mark.parametrize("name", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_an_empty_account_does_not_pass(key, name):
    error = await refused(told(429, {key: name}), ModelUnavailable)

    assert not error.may_pass
    assert name in str(error)


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        ({"code": 429}, True),
        ({"code": 502, "message": "upstream"}, True),
        ({"code": 400}, False),
        ({"code": "insufficient_quota"}, False),
        ({"message": "odd"}, True),
        ("in words", True),
    ],
    ids=str,
)
async def test_an_error_under_200_is_judged_like_one_with_a_status(error, may_pass):
    reply = await refused(told(200, error), ModelUnavailable)

    assert reply.may_pass is may_pass


@pytest.mark.parametrize(
    "content_type", ["text/html; charset=utf-8", "application/xml", "image/png"]
)
async def test_another_kind_of_server_is_named_with_its_setting(content_type):
    page = ServerReply(body=b"<html>Welcome</html>", content_type=content_type)

    error = await refused(page, ModelUnavailable)

    assert content_type.partition(";")[0] in str(error)
    assert "OPENAI_BASE_URL" in str(error)
    assert not error.may_pass
    assert error.usage == Usage(requests=1)


async def test_a_content_type_is_foreign_text():
    page = ServerReply(body=b"x", content_type="text/<b>hacked</b>")

    assert "hacked" not in str(await refused(page))


async def test_a_wrong_path_names_the_address():
    server = ModelServer([answer("Dạ")], paths=["/api/v1/chat/completions"])
    async with served(server=server) as (model, _):
        with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL"):
            await model.decide(request())


async def test_a_server_without_the_model_is_a_wrong_setting_not_a_long_request():
    error = await refused(told(404, {"code": "model_not_found"}), ConfigurationError)

    assert error.setting == "SUPPORT_AGENT_MODEL__NAME"
    assert "model_not_found" in str(error)


async def test_a_reply_that_is_no_json_may_have_been_billed():
    error = await refused(replace(answer("Dạ"), body=b'{"choices": ['))

    assert error.usage.input_tokens > 0

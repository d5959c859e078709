"""Bodies: nobody's is read before they are let in, and what is read is JSON that all read alike."""

import asyncio
import gzip
import json

import pytest
from starlette.requests import Request

from support_agent.api.bodies import json_of
from support_agent.api.problems import ProblemError
from support_agent.domain.access import Scope
from support_agent.domain.errors import InvalidInput
from tests.api_kit import Api, opened_api
from tests.guarded_kit import Probe, probed

SMALL = {"max_body_bytes": 2_000, "body_seconds": 0.2}


@pytest.fixture
async def api(shop_url):
    async with opened_api(shop_url, api=SMALL) as opened:
        yield opened


@pytest.fixture
def probe(api: Api) -> Probe:
    return probed(api)


async def post(api: Api, content, **headers: str):
    kind = {"Content-Type": "application/json"} if "Content-Type" not in headers else {}
    who = await api.staff(Scope.TASKS_WRITE)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.client.post("/v1/probe", content=content, headers={**who, **kind, **named})


def read(content: bytes, kind: str = "application/json", **headers: str) -> object:
    """What the guard makes of a body."""
    told = {"content-type": kind, **headers}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()]
    return json_of(Request({"type": "http", "headers": raw}), content)


def refusal(content: bytes, kind: str = "application/json", **headers: str) -> tuple[int, str, str]:
    with pytest.raises(ProblemError) as refused:
        read(content, kind, **headers)
    return refused.value.status, refused.value.code, str(refused.value)


def is_problem(response, status: int, code: str) -> str:
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert body["request_id"] == response.headers["x-request-id"]
    return body["detail"]


async def test_json_in_utf8_comes_through_whole(api, probe):
    text = "Đơn A100 đâu rồi? 🙂"
    response = await post(api, json.dumps({"text": text}, ensure_ascii=False).encode())

    assert response.json() == {"n": 1, "text": text}
    assert (await post(api, json.dumps({"text": text}).encode())).json()["text"] == text


@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON; charset="UTF-8"'],
)
def test_the_type_may_say_that_it_is_utf8(kind):
    assert read(b'{"text": "x"}', kind) == {"text": "x"}


@pytest.mark.parametrize(
    "kind",
    [
        *("text/plain", "application/xml", "application/x-www-form-urlencoded", "json", ""),
        *("application/json; charset=latin1", "application/json; charset=utf-16"),
        *("application/merge-patch+json", "application/jsonp", "*/*", "application/json, text/x"),
        "multipart/form-data; boundary=x",
    ],
)
def test_another_type_is_refused(kind):
    status, code, words = refusal(b'{"text": "x"}', kind)

    assert (status, code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "application/json" in words


async def test_a_body_without_a_type_or_packed_is_refused(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)
    bare = await api.client.post("/v1/probe", content=b'{"text": "x"}', headers=who)
    packed = await post(api, gzip.compress(b'{"text": "x"}'), Content_Encoding="gzip")

    is_problem(bare, 415, "UNSUPPORTED_MEDIA_TYPE")
    is_problem(packed, 415, "UNSUPPORTED_MEDIA_TYPE")


NOT_JSON = {
    "cut off": b'{"text": "x"',
    "none": b"hello",
    "two": b'{"text": "x"} {}',
    "blank": b"  ",
    "NUL": b"\0",
    "a raw NUL": b'{"text": "a\0b"}',
    "a raw line break": b'{"text": "a\nb"}',
    "single quotes": b"{'text': 'x'}",
    "trailing comma": b'{"text": "x",}',
    "comment": b'{"text": "x"} // no',
    "byte order mark": b'\xef\xbb\xbf{"text": "x"}',
    "latin1": '{"text": "é"}'.encode("latin-1"),
    "utf16": '{"text": "x"}'.encode("utf-16"),
    "utf16 without a mark": '{"text": "x"}'.encode("utf-16-le"),
    "utf32": '{"text": "x"}'.encode("utf-32"),
    "overlong": b'{"text": "\xc0\xaf"}',
    "half a surrogate in bytes": b'{"text": "\xed\xa0\x80"}',
    "half a letter": b'{"text": "\xc4"}',
    "NaN": b'{"text": "x", "number": NaN}',
    "Infinity": b'{"text": "x", "number": Infinity}',
    "-Infinity": b'{"text": "x", "number": -Infinity}',
    "too large a float": b'{"text": "x", "number": 1e999}',
    "too small a float": b'{"text": "x", "number": -1e999}',
    "64 bits": b'{"text": "x", "number": 9223372036854775808}',
    "many digits": b'{"text": "x", "number": ' + b"9" * 1_900 + b"}",
    "twice": b'{"text": "x", "text": "y"}',
    "twice within": b'{"text": "x", "more": [{"a": 1, "a": 1}]}',
    "deep lists": b'{"text": "x", "more": ' + b"[" * 70 + b"]" * 70 + b"}",
    "very deep lists": b"[" * 1_990,
    "deep objects": b'{"a":' * 300,
    "deep objects that close": b'{"a":' * 100 + b"1" + b"}" * 100,
}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_not_json_is_told_so(content):
    status, code, words = refusal(content)

    assert (status, code) == (400, "BODY_NOT_JSON")
    assert len(words) < 250


async def test_it_says_where_it_breaks(api, probe):
    assert "line 2, column 8" in is_problem(await post(api, b'{\n"text":x}'), 400, "BODY_NOT_JSON")
    is_problem(await post(api, b"[" * 1_990), 400, "BODY_NOT_JSON")
    assert probe.came == []
    twice = await post(api, b'{"text": "x", "te\\ud800": 1, "te\\ud800": 2}')
    assert "twice" in is_problem(twice, 400, "BODY_NOT_JSON")


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b'{"text": "a\\u0000b"}', "/text"),
        (b'{"text": "\\ud800"}', "/text"),
        (b'{"text": "\\udc00\\ud800"}', "/text"),
        (b'{"text": "x", "more": [1, {"a/b~c": "\\udfff"}]}', "/more/1/a~1b~0c"),
        (b'{"text": "x", "more": {"\\ud800": 1}}', "/more"),
        (b'"\\u0000"', "body"),
    ],
)
def test_texts_that_cannot_be_stored_are_named(content, pointer):
    with pytest.raises(InvalidInput) as refused:
        read(content)

    assert refused.value.field == pointer


async def test_json_of_another_shape_is_invalid(api, probe):
    for content in (
        b'{"text": "\\ud800"}',
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"7",
        b"{}",
        b'{"text": 7}',
        b'{"text": null}',
        b'{"text": "x", "surprise": 1}',
        b'{"text": "x", "__proto__": {}}',
    ):
        is_problem(await post(api, content), 422, "INVALID_INPUT")
    assert probe.came == []


async def test_a_pair_of_surrogates_is_a_letter_as_any_other(api, probe):
    assert (await post(api, b'{"text": "\\ud83d\\ude42"}')).json()["text"] == "🙂"


async def test_numbers_at_the_edge_are_taken(api, probe):
    for number in (9223372036854775807, -9223372036854775807, 1.7976931348623157e308, 0):
        sent = json.dumps({"text": "x", "number": number}).encode()
        assert (await post(api, sent)).status_code == 200
        assert probe.came[-1].number == number


class TestSize:
    async def test_at_the_limit_it_is_taken_and_beyond_it_not(self, api, probe):
        fits = b'{"text": "' + b"x" * (2_000 - 12) + b'"}'
        assert len(fits) == 2_000
        assert (await post(api, fits)).status_code == 200

        response = await post(api, fits + b" ")

        assert "2000 bytes" in is_problem(response, 413, "BODY_TOO_LARGE")
        assert response.headers["connection"] == "close"

    async def test_one_that_does_not_say_how_large_it_is_may_not_be_larger(self, api, probe):
        sent = 0

        async def endless():
            nonlocal sent
            while True:
                sent += 1
                yield b" " * 500

        is_problem(await post(api, endless()), 413, "BODY_TOO_LARGE")
        assert sent <= 6
        assert probe.came == []

    async def test_who_is_not_let_in_is_told_that_first(self, api, probe):
        read = False

        async def never():
            nonlocal read
            read = True
            yield b"x"

        for headers, status in ((await api.staff(Scope.TASKS_READ), 403), ({}, 401)):
            response = await api.client.post("/v1/probe", content=never(), headers=headers)
            assert response.status_code == status
        response = await api.client.post("/v1/probe", content=b"x" * 9_000)
        assert response.status_code == 401
        assert not read


async def test_one_that_comes_too_slowly_is_given_up(api, probe):
    waiting = asyncio.Event()

    async def dripping():
        yield b'{"text": '
        await waiting.wait()

    response = await post(api, dripping())

    assert "0.2 s" in is_problem(response, 408, "REQUEST_TIMEOUT")
    assert response.headers["connection"] == "close"
    assert probe.came == []


async def test_a_route_without_a_body_takes_none_and_minds_none(api, probe):
    who = await api.staff(Scope.TASKS_WRITE)

    assert (await api.client.post("/v1/probe/p1", headers=who)).status_code == 201
    assert (await api.client.post("/v1/probe/p1", headers=who, json={"a": 1})).status_code == 201
    bad = await api.client.post("/v1/probe/p1", headers=who, content=b"\xff")
    is_problem(bad, 415, "UNSUPPORTED_MEDIA_TYPE")

"""The guard over real sockets: large, slow and tricky requests, and two processes on one database."""

import asyncio
import json
import socket
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from support_agent.domain.access import Scope
from tests.api_kit import HOST
from tests.cli.terminal import PATIENCE_S
from tests.kit import copy_database, open_shop
from tests.serving_kit import Served, customer_for, key_for, served, serving_environment

PATH = "/v1/conversations"
MB = 1_000_000


@pytest.fixture(scope="module")
def url(template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return copy_database(template, tmp_path_factory.mktemp("guarded") / "shop.db")


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory):
    env = serving_environment(url, API__BODY_SECONDS="0.5", API__CUSTOMER_RATE_PER_MINUTE="1000")
    with served(tmp_path_factory.mktemp("server"), env, "--no-worker") as one:
        yield one


@pytest.fixture(scope="module")
def headers(url: str) -> dict[str, str]:
    return asyncio.run(customer_for(url))


@pytest.fixture(scope="module")
def staff(url: str) -> dict[str, str]:
    return asyncio.run(key_for(url, Scope.TASKS_READ, Scope.TASKS_WRITE, name="ops"))


def head(method: str, target: str, *named: dict[str, str]) -> bytes:
    lines = [f"{name}: {value}" for some in named for name, value in some.items()]
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def exchanged(server: Served, *pieces: bytes) -> bytes:
    """What is answered until the connection is closed; a server may close it before all is sent."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except ConnectionError:
                break
        heard = b""
        try:
            while more := connection.recv(65_536):
                heard += more
        except ConnectionResetError:
            pass
        return heard


def problem_of(heard: bytes) -> tuple[int, str]:
    start, _, rest = heard.partition(b"\r\n")
    lines, _, body = rest.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in lines.lower()
    said = json.loads(body)
    assert int(start.split()[1]) == said["status"]
    return said["status"], said["code"]


JSON = {"Content-Type": "application/json"}


def test_ten_megabytes_are_refused_by_what_they_say_of_themselves(server, headers):
    begun = time.monotonic()
    told = head("POST", PATH, headers, JSON, {"Content-Length": str(10 * MB)})

    assert problem_of(exchanged(server, told, b'{"text": "')) == (413, "BODY_TOO_LARGE")
    assert time.monotonic() - begun < 5


def test_ten_megabytes_that_do_not_say_so_are_refused_while_they_come(server, headers):
    told = head("POST", PATH, headers, JSON, {"Transfer-Encoding": "chunked"})
    piece = b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n"

    assert problem_of(exchanged(server, told, piece)) == (413, "BODY_TOO_LARGE")


def test_who_is_not_let_in_is_told_so_whatever_the_body(server, headers, staff):
    large = {"Content-Length": str(10 * MB)}
    close = {"Connection": "close"}

    assert problem_of(exchanged(server, head("POST", PATH, JSON, large, close)))[0] == 401
    assert problem_of(exchanged(server, head("POST", PATH, staff, JSON, large, close)))[0] == 403


def test_a_body_that_drips_is_given_up(server, headers):
    told = head("POST", PATH, headers, JSON, {"Content-Length": "100"})

    assert problem_of(exchanged(server, told, b'{"te', b"xt")) == (408, "REQUEST_TIMEOUT")


def test_one_that_breaks_off_does_not_hurt_the_next(server, headers):
    told = head("POST", PATH, headers, JSON, {"Content-Length": "100"})
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        connection.sendall(told + b'{"text": ')

    tasks = head("GET", "/v1/nothing", {"Connection": "close"})
    assert problem_of(exchanged(server, tasks)) == (404, "NOT_FOUND")


def test_a_body_that_was_not_read_is_not_taken_for_a_request(server, staff):
    hidden = head("GET", "/v1/tasks", staff)
    told = head("POST", PATH, JSON, {"Content-Length": str(len(hidden))})
    last = head("GET", "/v1/nothing", {"Connection": "close"})

    heard = exchanged(server, told + hidden + last)

    assert heard.startswith(b"HTTP/1.1 401 ")
    assert b"HTTP/1.1 200" not in heard


def test_two_in_one_go_are_answered_one_after_the_other(server, staff):
    heard = exchanged(
        server, head("GET", "/v1/tasks", staff) + head("GET", "/v1/no", {"Connection": "close"})
    )

    assert heard.index(b"HTTP/1.1 200 ") < heard.index(b"HTTP/1.1 404 ")


TARGETS = {
    "//v1/tasks": 404,
    "/v1//tasks": 404,
    "/v1/tasks/": 404,
    "/V1/tasks": 404,
    "/v1/./tasks": 404,
    "/v1/x/../tasks": 404,
    "/v1/tasks/a%2Fb": 404,
    "/v1/tasks/..%2F..%2Fetc%2Fpasswd": 404,
    "/v1/tasks/%00": 404,
    "/v1/tasks/%ff%fe": 404,
    "/v1/tasks/%zz": 404,
    "/v1/tasks/%F0%9F%99%82": 404,
    "/v1/tasks/" + "x" * 20_000: 404,
    "/v1/tasks/tsk_1?x=%00&y=%ff": 404,
    "/v1/tasks?limit=%00": 422,
    "/v1/tasks?cursor=%00": 422,
    "/v1/tasks?limit=1&limit=x": 422,
    "*": 404,
    "/v1/tasks;x=1": 404,
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[:24])
def test_an_unusual_address_is_answered_as_a_problem(server, staff, target):
    heard = exchanged(server, head("GET", target, staff, {"Connection": "close"}))

    assert problem_of(heard)[0] == TARGETS[target]


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "BREW", "CONNECT"])
def test_a_method_that_is_not_taken_is_a_problem(server, staff, method):
    heard = exchanged(server, head(method, "/v1/tasks", staff, {"Connection": "close"}))

    assert problem_of(heard) == (405, "METHOD_NOT_ALLOWED")
    assert b"allow: GET" in heard or b"allow: HEAD" in heard


def test_two_keys_in_one_request_are_none(server, staff):
    twice = b"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"".join(
        f"Authorization: {value}\r\n".encode()
        for value in (staff["Authorization"], "Bearer sak_x_y")
    )

    assert problem_of(exchanged(server, twice + b"\r\n")) == (401, "NOT_AUTHENTICATED")


async def test_a_key_that_another_process_revoked_opens_nothing_more(server, url):
    who = await key_for(url, Scope.TASKS_READ, name="leaked")
    async with server.client() as client:
        before = await client.get("/v1/tasks", headers=who)
        async with open_shop(url) as shop:
            keys = shop.container.api_keys()
            key = await keys.authenticate(who["Authorization"].removeprefix("Bearer "))
            await keys.revoke(key.id, by=HOST)
        after = await client.get("/v1/tasks", headers=who)

    assert (before.status_code, after.status_code) == (200, 401)
    assert after.json()["code"] == "KEY_REFUSED"


async def test_twenty_equal_messages_at_two_processes_are_one(server, url, headers, tmp_path):
    env = serving_environment(url, API__CUSTOMER_RATE_PER_MINUTE="1000")
    told = {**headers, "Idempotency-Key": "the-same", "Prefer": "wait=10"}
    with served(tmp_path, env, "--no-worker") as second:
        async with server.client() as one, second.client() as two:
            sent = [
                client.post(PATH, json={"text": "Xin chào shop"}, headers=told)
                for client in (one, two)
                for _ in range(10)
            ]
            answers = await asyncio.gather(*sent)
            again = await two.post(PATH, json={"text": "Xin chào shop"}, headers=told)

    statuses = Counter(answer.status_code for answer in answers)
    assert statuses.keys() <= {200, 202, 409}
    good = {answer.content for answer in answers if answer.status_code != 409}
    assert len(good) == 1
    assert (again.headers["idempotency-replayed"], {again.content}) == ("true", good)
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        rows = connection.execute("SELECT count(*) FROM conversations WHERE channel = 'api'")
        assert rows.fetchone() == (1,)

"""A serving process: how it starts, what it refuses of the wire, and how it ends."""

import asyncio
import json
import signal
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from support_agent.api.serving import WorkerEnded, serve
from support_agent.container import open_container
from support_agent.services.workers import Stop
from tests.kit import copy_database, open_shop, settings_for
from tests.queue_kit import eventually, post
from tests.serving_kit import Served, customer_for, scripted, served, serving_environment

HELLO = {"text": "Xin chào shop"}


@pytest.fixture(scope="module")
def url(template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return copy_database(template, tmp_path_factory.mktemp("served") / "shop.db")


@pytest.fixture(scope="module")
def server(url: str, tmp_path_factory: pytest.TempPathFactory):
    """One for all who only ask."""
    env = serving_environment(url, API__BODY_SECONDS="0.5")
    with served(tmp_path_factory.mktemp("server"), env) as one:
        yield one


async def test_it_answers_where_it_says_that_it_does(server: Served):
    async with server.client() as client:
        response = await client.get("/healthz")

    assert (response.status_code, response.json()) == (200, {"status": "alive"})
    assert "server" not in response.headers
    assert response.headers["x-request-id"]


async def test_an_answer_does_not_wait_for_word_that_its_head_arrived(server: Served):
    """40 ms on every request of a kept connection, if Nagle's algorithm is left on."""
    took_s = []
    async with server.client() as client:
        for _ in range(30):
            began = time.perf_counter()
            await client.get("/healthz")
            took_s.append(time.perf_counter() - began)

    assert min(took_s[5:]) < 0.035


async def test_it_says_so_when_it_can_serve(server: Served):
    async with server.client() as client:
        assert (await client.get("/readyz")).json() == {"status": "ready"}


@pytest.mark.parametrize(
    "junk",
    [
        b"what is this\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 40_000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
    ],
)
def test_what_is_no_request_is_refused_as_a_problem(server: Served, junk):
    head, _, body = server.said(junk).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "BAD_REQUEST"


@pytest.mark.parametrize(
    "begun", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: x\r\n"]
)
def test_who_does_not_say_what_he_wants_is_let_go(server: Served, begun):
    assert server.said(begun) == b""


async def test_who_sends_wrong_keys_is_known_by_his_connection_and_not_by_what_he_says(
    server: Served,
):
    """Else he would have as many tries as there are addresses to make up."""
    statuses = []
    async with server.client() as client:
        for number in range(40):
            wrong = {
                "Authorization": f"Bearer sak_{number}_wrong",
                "X-Forwarded-For": f"10.0.0.{number}",
                "Forwarded": f"for=10.0.0.{number}",
            }
            statuses.append((await client.get("/v1/tasks", headers=wrong)).status_code)

    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_the_worker_beside_it_answers_what_another_process_posted(server: Served, url):
    async with open_shop(url) as shop:
        posted = await post(shop)
        answer = await eventually(lambda: shop.container.agent().answer_to(posted))

    assert answer.status == "done"


async def test_killed_in_the_middle_of_a_turn_the_next_one_goes_on(shop_url, tmp_path):
    slow = scripted(
        tmp_path / "script.jsonl",
        {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
        {"answer": "Đơn A100 đã giao.", "delay_s": 60},
    )
    quick = scripted(
        tmp_path / "again.jsonl",
        {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
        {"answer": "Đơn A100 đã giao."},
    )
    # Its lease is what the next one waits for.
    lease = {"LIMITS__RUN_SECONDS": "4", "QUEUE__LEASE_GRACE_SECONDS": "0.1"}
    headers = await customer_for(shop_url)
    with served(tmp_path, serving_environment(shop_url, **slow, **lease)) as one:
        async with one.client() as client:
            posted = await client.post(
                "/v1/conversations", json={"text": "Đơn A100 đâu?"}, headers=headers
            )
            run = f"/v1/runs/{posted.json()['run_id']}"

            async def looked_up():
                steps = (await client.get(f"{run}/steps", headers=headers)).json()
                return steps["data"]

            await eventually(looked_up)
            one.process.kill()
            one.ended()
    with served(tmp_path, serving_environment(shop_url, **quick)) as two:
        async with two.client() as client:
            found = await ended_run(client, run, headers)
            assert found["status"] == "done"
            assert "Đơn A100 đã giao." in found["answer"]


SLOW = {"answer": "Vâng.", "delay_s": 60}


async def test_told_to_stop_it_ends_streams_and_leaves_turns_to_the_next_one(shop_url, tmp_path):
    """What takes longer than it may is let go at once, and goes on in the next process."""
    slow = scripted(tmp_path / "slow.jsonl", SLOW)
    quick = scripted(tmp_path / "quick.jsonl", {"answer": "Vâng."})
    headers = await customer_for(shop_url)
    env = serving_environment(shop_url, **slow, QUEUE__SHUTDOWN_SECONDS="0.5")
    with served(tmp_path, env) as one:
        async with one.client() as client:
            run = await begun_run(client, headers)
            async with client.stream("GET", f"{run}/events", headers=headers) as stream:
                waiting = asyncio.create_task(
                    client.post(
                        "/v1/conversations", json=HELLO, headers=headers | {"Prefer": "wait=30"}
                    )
                )
                await under_way(shop_url, 2)
                one.process.terminate()
                assert [line async for line in stream.aiter_lines()][-1] == ""  # a whole event
            assert (await waiting).status_code == 202  # it need not wait for the answer here
        code, log = one.ended()
    assert (code, "Traceback" in log) == (0, False), log
    with served(tmp_path, serving_environment(shop_url, **quick)) as two:
        async with two.client() as client:
            assert (await ended_run(client, run, headers))["status"] == "done"


async def test_told_twice_it_stops_at_once(shop_url, tmp_path):
    headers = await customer_for(shop_url)
    env = serving_environment(
        shop_url, **scripted(tmp_path / "slow.jsonl", SLOW), QUEUE__SHUTDOWN_SECONDS="60"
    )
    with served(tmp_path, env) as one:
        async with one.client() as client:
            await begun_run(client, headers)
        one.process.terminate()
        await eventually(lambda: not listens(one.port))
        code, log = one.stop(signal.SIGINT)

    assert (code, "Traceback" in log) == (0, False), log


async def test_without_a_worker_it_answers_only_what_it_took(shop_url, tmp_path):
    headers = await customer_for(shop_url)
    with served(tmp_path, serving_environment(shop_url), "--no-worker") as one:
        async with open_shop(shop_url) as shop:
            posted = await post(shop)
            async with one.client() as client:
                taken = await client.post(
                    "/v1/conversations", json=HELLO, headers=headers | {"Prefer": "wait=20"}
                )
            left = await shop.container.agent().answer_to(posted)

    assert (taken.status_code, left) == (200, None)


class Ends:
    """A worker that nobody asked to end."""

    async def run(self, stop: Stop) -> None:
        """At once."""


async def test_a_process_whose_worker_is_gone_does_not_serve_on(shop_url):
    """It would take messages in that nobody pays or delivers anything of."""
    async with open_container(settings_for(shop_url), overrides={"worker": Ends()}) as container:
        with pytest.raises(WorkerEnded):
            await serve(
                container,
                host="127.0.0.1",
                port=0,
                work=True,
                stop=Stop(),
                listening=print,
            )


async def begun_run(client, headers) -> str:
    """A turn that is under way; its address."""
    posted = await client.post("/v1/conversations", json=HELLO, headers=headers)
    assert posted.status_code == 202, posted.text
    return f"/v1/runs/{posted.json()['run_id']}"


async def ended_run(client, run: str, headers):
    async def look():
        found = (await client.get(run, headers=headers)).json()
        return found if found["status"] != "running" else None

    return await eventually(look)


async def under_way(url: str, many: int) -> None:
    """So many turns are."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:

        def look() -> bool:
            [(found,)] = connection.execute(
                "SELECT count(*) FROM runs WHERE status = 'running'"
            ).fetchall()
            return found == many

        await eventually(look)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

"""Real processes: a terminal with Ctrl-C, two at once on a fresh file, and what gets imported."""

import asyncio
import json
import re
import shlex
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support_agent.adapters.db.schema import SCHEMA_REVISION
from support_agent.domain.people import Principal, PrincipalKind, Proof
from tests.cli.terminal import COMMAND, CTRL_C, PATIENCE_S, environment_of
from tests.kit import open_shop


def test_ctrl_c_at_the_prompt_leaves_politely_and_keeps_the_state(shop_url, sit_down):
    seat = sit_down("chat", "--customer", "C001", env=environment_of(shop_url))
    seat.wait_for("> ")
    seat.type("hoàn tiền đơn A100\n".encode())
    seat.wait_for("Hiệu lực đến")
    seat.wait_for("> ")
    seat.interrupt()

    assert seat.exit_code() == 0
    talk = re.search(r"--customer C001 --conversation (con_\w+)", seat.seen)
    assert talk
    assert "Traceback" not in seat.seen
    filed = run(("ask", "đồng ý", "--customer", "C001", "--conversation", talk[1]), shop_url)
    assert len(filed["pending_approvals"]) == 1


def test_ctrl_c_in_the_middle_of_an_answer_stops_the_run_where_it_is(
    shop_url, sit_down, tmp_path: Path
):
    script = tmp_path / "script.jsonl"
    script.write_text(
        '{"tool": "lookup_order", "arguments": {"order_id": "A100"}}\n'
        '{"answer": "chậm", "delay_s": 50}\n'
    )
    env = environment_of(shop_url, MODEL__KIND="scripted", MODEL__SCRIPT=str(script))
    seat = sit_down("chat", "--customer", "C001", env=env)
    seat.wait_for("> ")
    seat.type("Đơn A100 đâu?\n".encode())
    wait_until(shop_url, "SELECT count(*) FROM tool_calls WHERE ok")
    seat.type(CTRL_C)

    assert seat.exit_code() == 130
    assert "--conversation con_" in seat.seen
    [(run_id, status, reason)] = query(shop_url, "SELECT id, status, stop_reason FROM runs")
    assert (status, reason) == ("stopped", "cancelled")
    resumed = run(("runs", "resume", run_id), shop_url)  # by the offline model
    assert resumed["steps"][0]["tool"] == "lookup_order"
    assert resumed["status"] == "done"


def test_a_token_is_asked_for_at_a_terminal_and_not_shown(shop_url, sit_down):
    request = asyncio.run(filed_with_token(shop_url, "tok-1234"))
    words = ("approvals", "approve", request, "--as", "lan")
    seat = sit_down(*words, env=environment_of(shop_url))
    seat.wait_for("token of lan: ")
    seat.type(b"tok-1234\n")

    assert seat.exit_code() == 0
    assert f"request {request} is REFUNDED" in seat.seen
    assert "tok-1234" not in seat.seen


async def filed_with_token(url: str, token: str) -> str:
    async with open_shop(url) as shop:
        by = Principal(
            kind=PrincipalKind.STAFF, id="test", person_id=None, proof=Proof.SYSTEM, via="test"
        )
        await shop.container.approvers().set_token("lan", token, by=by)
        return (await shop.filed("A100")).id


@pytest.mark.parametrize("words", [("--help",), ("ask", "xin chào", "--customer", "C001")])
def test_a_reader_that_goes_away_ends_the_command_quietly(shop_url, words):
    process = subprocess.Popen(  # noqa: S603 - our own command
        (*COMMAND, *words),
        env=dict(environment_of(shop_url)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    with process.stderr as stderr:
        told = stderr.read()

    assert (process.wait(PATIENCE_S), told) == (141, b"")
    if words[0] == "ask":
        assert query(shop_url, "SELECT status FROM runs") == [("done",)]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"), [("approvals list", 0), ("approvals show req_no", 4), ("tasks list", 0)]
)
def test_a_stream_that_was_closed_before_the_start_changes_no_exit_code(
    shop_url, closed, words, code
):
    command = shlex.join(COMMAND)
    ended = subprocess.run(  # noqa: S602 - only a shell closes streams
        f"{command} {words} {closed}",
        shell=True,
        env=dict(environment_of(shop_url)),
        check=False,
        timeout=PATIENCE_S,
    )

    assert ended.returncode == code


def test_a_database_that_is_away_for_a_moment_does_not_end_the_talk(shop_url):
    process = subprocess.Popen(  # noqa: S603 - our own command
        (*COMMAND, "chat", "--customer", "C001"),
        env=dict(environment_of(shop_url, DATABASE__BUSY_SECONDS="0.05")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(shop_url, "SELECT count(*) FROM conversations")
    with closing(sqlite3.connect(shop_url.removeprefix("sqlite:///"))) as other:
        other.execute("BEGIN IMMEDIATE")
        process.stdin.write("xin chào\n")
        process.stdin.flush()
        told = process.stderr.readline()
        other.rollback()
    answer, _ = process.communicate("Đơn A100 thế nào?\n", timeout=PATIENCE_S)

    assert "did not answer" in told
    assert "A100" in answer
    assert process.returncode == 0


def test_two_processes_at_once_on_a_fresh_file(tmp_path: Path):
    env = {**environment_of(f"sqlite:///{tmp_path}/var/shop.db")}
    del env["SUPPORT_AGENT_SECURITY__KEYS"]  # the key file is made by either, once

    made = at_once(("db", "upgrade"), env, times=2)
    assert sorted(str(one["from_revision"]) for one in made) == [SCHEMA_REVISION, "None"]

    at_once(("db", "seed"), env, times=1)
    question = ("ask", "Đơn A100 có được hoàn tiền không?", "--customer", "C001")
    answers = at_once(question, env, times=2)

    assert len({one["conversation_id"] for one in answers}) == 2
    assert all("250.000" in one["answer"] for one in answers)


def test_commands_of_the_queue_import_nothing_they_do_not_need(shop_url, tmp_path: Path):
    heavy = {"openai", "anthropic", "stripe", "mcp", "uvicorn", "alembic"}
    code = (
        "import sys\n"
        "from support_agent.cli.app import app\n"
        "light = sorted({'sqlalchemy', 'pydantic', 'dependency_injector'} & {*sys.modules})\n"
        "for words in (['approvals', 'list'], ['refunds', 'list'], ['tasks', 'list'],\n"
        "              ['approvers', 'list'], ['audit', 'verify'], ['tick']):\n"
        "    try:\n"
        "        app(words)\n"
        "    except SystemExit as done:\n"
        "        assert done.code == 0, words\n"
        f"print(light, sorted({heavy!r} & {{*sys.modules}}), file=sys.stderr)\n"
    )

    result = subprocess.run(  # noqa: S603 - our own command
        (sys.executable, "-c", code),
        env=dict(environment_of(shop_url)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert result.stderr.splitlines()[-1] == "[] []"


def run(words: tuple[str, ...], url: str) -> dict[str, object]:
    [answer] = at_once(words, environment_of(url), times=1)
    return answer


def at_once(
    words: tuple[str, ...], env: Mapping[str, str], *, times: int
) -> list[dict[str, object]]:
    """The same command in several processes at once; each must end well."""
    with many((*COMMAND, *words, "--json"), env, times) as processes:
        ended = [process.communicate(timeout=PATIENCE_S) for process in processes]
    codes = [process.returncode for process in processes]
    assert codes == [0] * times, [stderr for _, stderr in ended]
    return [json.loads(stdout) for stdout, _ in ended]


@contextmanager
def many(
    command: tuple[str, ...], env: Mapping[str, str], times: int
) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [
        subprocess.Popen(  # noqa: S603 - our own command
            command, env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(times)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait(PATIENCE_S)


def query(url: str, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return connection.execute(sql).fetchall()


def wait_until(url: str, count: str) -> None:
    """Until the count is not 0: the other process got that far."""
    give_up = time.monotonic() + PATIENCE_S
    while query(url, count) == [(0,)]:
        assert time.monotonic() < give_up, count
        time.sleep(0.01)

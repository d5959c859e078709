"""Messages that come twice, at once, to a person, or meanwhile: what `ask` and `chat` make of them."""

import asyncio
import json
import subprocess
import time
from pathlib import Path

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import RequestFilter
from tests.cli.terminal import COMMAND, PATIENCE_S, environment_of
from tests.kit import open_shop

TALK = ("--customer", "C001", "--conversation")
CTRL_D = b"\x04"
HAND_OFF = {"tool": "hand_off", "arguments": {"reason": "khách muốn gặp người"}}


class TestTheSameMessageTwice:
    def test_it_is_answered_once_with_the_same_answer(self, cli):
        words = ("ask", "hoàn tiền đơn A100", "--customer", "C001", "--message-id", "m-1")
        first = cli.json(*words)

        with cli.untouched():
            second = cli.json(*words)

        assert second == first

    def test_in_a_conversation_that_is_named(self, cli):
        talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]
        words = ("ask", "hoàn tiền đơn A102", *TALK, talk, "--message-id", "m-1")
        first = cli.json(*words)
        cli.json("ask", "đồng ý", *TALK, talk, "--message-id", "m-2")
        again = cli.json(*words)

        assert (again["run_id"], again["answer"]) == (first["run_id"], first["answer"])
        assert len(cli.json("runs", "list")["data"]) == 3

    def test_another_id_is_another_message(self, cli):
        talk = cli.json("ask", "một", "--customer", "C001", "--message-id", "m-1")
        words = ("ask", "một", *TALK, talk["conversation_id"])

        assert cli.json(*words, "--message-id", "m-2")["run_id"] != talk["run_id"]
        assert cli.json(*words)["run_id"] != talk["run_id"]

    def test_the_id_of_another_customer_is_their_own(self, cli):
        one = cli.json("ask", "xin chào", "--customer", "C001", "--message-id", "m-1")
        other = cli.json("ask", "xin chào", "--customer", "C002", "--message-id", "m-1")

        assert other["conversation_id"] != one["conversation_id"]

    def test_one_that_became_a_dead_letter_is_exit_code_3_with_what_the_customer_was_told(
        self, cli
    ):
        words = ("ask", "xin chào", "--customer", "C001", "--message-id", "m-1")
        first = cli.json(*words)
        cli.tamper("UPDATE runs SET status = 'dead', stop_reason = 'repeated_errors'")

        again = cli.json(*words, code=3)

        assert (again["status"], again["answer"]) == ("dead", first["answer"])

    @pytest.mark.parametrize("message_id", ["", " ", "x" * 201, "a\nb"])
    def test_an_id_that_is_none_is_refused_and_changes_nothing(self, cli, message_id):
        with cli.untouched():
            error = cli.error(
                "ask", "xin chào", "--customer", "C001", "--message-id", message_id, code=2
            )
        assert error["field"] == "message_id"


class TestWithAPerson:
    @pytest.fixture
    def handed_off(self, cli, scripted):
        scripted(HAND_OFF, {"answer": "một"}, {"answer": "hai"})
        return cli.json("ask", "cho tôi gặp nhân viên", "--customer", "C001")["conversation_id"]

    def test_the_agent_is_silent_and_the_operator_is_told(self, cli, handed_off):
        result = cli("ask", "alo?", *TALK, handed_off)

        assert result.stdout == ""
        assert result.stderr.startswith("(a person has this conversation; the message is kept")
        messages = cli.json("conversations", "show", handed_off)["messages"]
        assert (messages[-1]["author"], messages[-1]["text"]) == ("customer", "alo?")

    def test_the_object_has_no_answer(self, cli, handed_off):
        turn = cli.json("ask", "alo?", *TALK, handed_off)

        assert (turn["status"], turn["stop_reason"], turn["answer"]) == (
            "handed_off",
            "handed_off",
            "",
        )

    def test_what_the_person_answers_is_shown_in_the_chat_once(self, cli, handed_off):
        cli("ask", "alo?", *TALK, handed_off)
        cli("conversations", "answer", handed_off, "Chào bạn, mình là Thu.", "--operator", "thu")

        result = cli("chat", *TALK, handed_off, stdin="cảm ơn\nnhé\n")

        assert result.stdout.splitlines() == ["[staff] Chào bạn, mình là Thu."]
        assert result.stderr.count("a person has this conversation") == 2


class TestMeanwhile:
    def test_a_decision_is_shown_before_the_next_message_and_in_the_object(self, cli):
        talk = cli.json("chat", "--customer", "C001", stdin="hoàn tiền đơn A100\nđồng ý\n")
        [request] = cli.json("approvals", "list")["data"]
        cli("approvals", "approve", request["id"], "--as", "lan", "--expect", "1")

        shown = cli("chat", *TALK, talk["conversation_id"], stdin="").stdout
        assert shown.startswith("[notice] ")
        assert "250.000" in shown

        later = cli.json("chat", *TALK, talk["conversation_id"], stdin="cảm ơn\n")
        assert {one["author"] for one in later["meanwhile"]} == {"notice"}
        assert cli.json("chat", *TALK, talk["conversation_id"], stdin="")["meanwhile"] == []

    def test_what_was_said_before_is_not_said_again(self, cli):
        first = cli.json("chat", "--customer", "C001", stdin="xin chào\nA100?\n")

        assert first["meanwhile"] == []
        again = cli.json("chat", *TALK, first["conversation_id"], stdin="xin chào\n")
        assert again["meanwhile"] == []

    def test_at_the_prompt_it_comes_before_the_next_one(self, shop_url, sit_down):
        seat = sit_down("chat", "--customer", "C001", env=environment_of(shop_url))
        seat.wait_for("> ")
        seat.type("hoàn tiền đơn A100\n".encode())
        seat.wait_for("Hiệu lực đến")
        seat.wait_for("> ")
        seat.type("đồng ý\n".encode())
        seat.wait_for("đang chờ nhân viên duyệt")
        seat.wait_for("> ")
        asyncio.run(approve_all(shop_url))
        seat.type("còn gì nữa không?\n".encode())
        seat.wait_for("[notice] ")
        seat.wait_for("> ")
        seat.type(CTRL_D)

        assert seat.exit_code() == 0
        assert seat.seen.count("[notice] ") == 1


async def approve_all(url: str) -> None:
    async with open_shop(url) as shop:
        approvals = shop.container.approvals()
        waiting = RequestFilter(status=RequestStatus.PENDING_APPROVAL)
        for request in (await shop.read(lambda tx: tx.requests.list(waiting, limit=9))).data:
            await approvals.approve(request.id, by=await shop.approver())
            await shop.container.payouts().pay(request.id)


class TestAtOnce:
    def test_two_processes_in_one_conversation_are_both_answered_in_order(
        self, cli, shop_url, tmp_path: Path
    ):
        talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]
        script = tmp_path / "slow.jsonl"
        lines = [{"answer": f"câu {n}", "delay_s": 1.0} for n in range(9)]
        script.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        env = environment_of(shop_url, MODEL__KIND="scripted", MODEL__SCRIPT=str(script))
        processes = [
            subprocess.Popen(  # noqa: S603 - our own command
                (*COMMAND, "ask", text, *TALK, talk, "--json"),
                env=dict(env),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for text in ("một", "hai")
        ]
        ended = [process.communicate(timeout=PATIENCE_S) for process in processes]

        assert [process.returncode for process in processes] == [0, 0], ended
        turns = [json.loads(stdout) for stdout, _ in ended]
        assert len({turn["run_id"] for turn in turns}) == 2
        said = cli.rows("SELECT author, run_id, text FROM messages WHERE seq > 2 ORDER BY seq")
        asked = [run for author, run, _ in said if author == "customer"]
        answered = [run for author, run, _ in said if author == "agent"]
        assert asked == answered
        texts = {run: text for author, run, text in said if author == "agent"}
        assert [texts[turn["run_id"]] for turn in turns] == [turn["answer"] for turn in turns]

    def test_who_waits_too_long_is_told_that_the_message_is_kept(self, cli, environment):
        environment(QUEUE__WAIT_SECONDS="0.1")
        talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]
        cli.tamper("UPDATE conversations SET lease_until = 1e12")

        error = cli.error("ask", "còn đó không?", *TALK, talk, "--message-id", "m-1", code=5)
        assert error["code"] == "CONVERSATION_BUSY"
        assert error["conversation_id"] == talk
        assert "is kept and answered after it" in error["message"]

        cli.tamper("UPDATE conversations SET lease_until = NULL")
        turn = cli.json("ask", "còn đó không?", *TALK, talk, "--message-id", "m-1")
        assert turn["answer"]
        assert cli.rows("SELECT count(*) FROM messages WHERE author = 'customer'") == [(2,)]


class TestKilled:
    def test_a_process_that_was_killed_in_the_middle_is_gone_on_with(
        self, cli, shop_url, tmp_path: Path
    ):
        script = tmp_path / "slow.jsonl"
        lines = [
            {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
            {"answer": "chậm", "delay_s": 60},
        ]
        script.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        env = environment_of(shop_url, MODEL__KIND="scripted", MODEL__SCRIPT=str(script))
        process = subprocess.Popen(  # noqa: S603 - our own command
            (*COMMAND, "ask", "Đơn A100 đâu?", "--customer", "C001", "--message-id", "m-1"),
            env=dict(env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(cli, "SELECT count(*) FROM tool_calls WHERE ok")
        finally:
            process.kill()
            process.wait(PATIENCE_S)

        [run] = cli.json("runs", "list", "--status", "running")["data"]
        assert cli.json("runs", "show", run["id"])["lease_s"] > 0
        with cli.untouched():
            assert cli.error("runs", "resume", run["id"], code=5)["code"] == "RUN_BUSY"

        cli.tamper("UPDATE conversations SET lease_until = 1")  # as time would
        resumed = cli.json("runs", "resume", run["id"])  # by the offline model
        assert resumed["status"] == "done"
        assert [step["tool"] for step in resumed["steps"]].count("lookup_order") == 1
        # Whoever sends the message again is told what it came to.
        words = ("ask", "Đơn A100 đâu?", "--customer", "C001", "--message-id", "m-1")
        assert cli.json(*words)["answer"] == resumed["answer"]


def wait_for(cli, count: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while cli.rows(count) == [(0,)]:
        assert time.monotonic() < give_up, count
        time.sleep(0.01)

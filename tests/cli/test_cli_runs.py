"""`runs list|show|resume`: found by state, shown with who has them, and gone on with."""

import pytest

from tests.agent_kit import call

ELIGIBLE = "Đơn A100 của tôi có được hoàn tiền không?"
LEASE_OVER = "UPDATE conversations SET lease_until = 1"
RUNNING = "UPDATE runs SET status = 'running', stop_reason = NULL, answer_seq = NULL"
DEAD = "UPDATE runs SET status = 'dead', stop_reason = 'repeated_errors', attempts = 4"
WITH_A_PERSON = "UPDATE conversations SET handed_off_at = 1"
NEWER = "UPDATE steps SET schema_version = 2 WHERE run_id = "


@pytest.fixture
def stopped(cli, environment):
    """A turn that a limit stopped after its first step; there is no limit any more."""
    environment(LIMITS__MAX_STEPS="1")
    turn = cli.json("ask", ELIGIBLE, "--customer", "C001", code=3)
    environment(LIMITS__MAX_STEPS="8")
    return turn


@pytest.fixture
def orphan(cli, stopped):
    """A run whose owner died behind its first step, and nobody has it."""
    cli.tamper(RUNNING)
    cli.tamper(LEASE_OVER)
    return stopped


class TestList:
    def test_it_is_filtered_by_state(self, cli, stopped):
        done = cli.json("ask", "xin chào", "--customer", "C001")
        waiting = cli.json("ask", "hoàn tiền đơn A100", "--customer", "C001")

        for status, turn in (
            ("stopped", stopped),
            ("done", done),
            ("waiting_customer", waiting),
        ):
            rows = cli.json("runs", "list", "--status", status)["data"]
            assert [row["id"] for row in rows] == [turn["run_id"]]
        assert cli.json("runs", "list", "--status", "dead")["data"] == []
        assert len(cli.json("runs", "list")["data"]) == 3

    def test_pages_stay_within_the_state(self, cli):
        ids = [cli.json("ask", "xin chào", "--customer", "C001")["run_id"] for _ in range(3)]
        cli.tamper(f"{DEAD} WHERE id <> '{ids[1]}'")

        first = cli.json("runs", "list", "--status", "dead", "--limit", "1")
        rest = cli.json("runs", "list", "--status", "dead", "--cursor", first["next_cursor"])

        assert [row["id"] for row in first["data"] + rest["data"]] == [ids[2], ids[0]]
        assert not rest["has_more"]

    def test_state_and_conversation_go_together(self, cli, stopped):
        talk = stopped["conversation_id"]
        other = cli.json("ask", "xin chào", "--customer", "C001")

        of_it = cli.json("runs", "list", "--conversation", talk, "--status", "stopped")["data"]
        assert [row["id"] for row in of_it] == [stopped["run_id"]]
        words = ("--conversation", other["conversation_id"], "--status", "stopped")
        assert cli.json("runs", "list", *words)["data"] == []

    def test_a_state_that_there_is_not_is_a_usage_error_that_names_them(self, cli):
        error = cli.error("runs", "list", "--status", "lost", code=2)

        assert "waiting_customer" in error["message"]


class TestShow:
    def test_the_answer_is_shown_as_the_customer_got_it(self, cli):
        turn = cli.json("ask", "hoàn tiền đơn A100", "--customer", "C001")

        assert cli.json("runs", "show", turn["run_id"])["answer"] == turn["answer"]
        shown = cli("runs", "show", turn["run_id"]).stdout
        assert "Báo giá" in shown.split("Sent to the customer\n")[1]

    def test_of_one_that_is_running_who_has_it(self, cli, orphan):
        cli.tamper("UPDATE runs SET attempts = 2")
        cli.tamper("UPDATE conversations SET lease_until = unixepoch() + 90")

        shown = cli.json("runs", "show", orphan["run_id"])
        assert (shown["status"], shown["attempts"]) == ("running", 2)
        assert 80 < shown["lease_s"] <= 90
        assert shown["answer"] is None
        assert "attempt 2, its owner has it for" in cli("runs", "show", orphan["run_id"]).stdout

    def test_of_one_whose_owner_is_gone_how_to_go_on(self, cli, orphan):
        assert cli.json("runs", "show", orphan["run_id"])["lease_s"] == 0
        shown = cli("runs", "show", orphan["run_id"]).stdout

        assert "its owner is gone" in shown
        assert f"support-agent runs resume {orphan['run_id']}" in shown

    def test_of_one_that_was_erased_that_there_is_no_text(self, cli):
        turn = cli.json("ask", ELIGIBLE, "--customer", "C001")
        cli("privacy", "erase", "C001", "--yes")

        shown = cli("runs", "show", turn["run_id"]).stdout
        assert "its texts were erased" in shown
        assert "A100" not in shown
        assert cli.json("runs", "show", turn["run_id"])["erased"] is True
        error = cli.error("runs", "replay", turn["run_id"], code=5)
        assert "were erased: there is nothing to read again" in error["message"]

    def test_of_one_that_has_ended_no_lease(self, cli, stopped):
        assert cli.json("runs", "show", stopped["run_id"])["lease_s"] is None
        assert "attempt" not in cli("runs", "show", stopped["run_id"]).stdout


class TestResume:
    def test_one_whose_owner_is_gone_is_taken_over_where_it_stands(self, cli, orphan):
        resumed = cli.json("runs", "resume", orphan["run_id"])

        assert resumed["run_id"] == orphan["run_id"]
        assert resumed["status"] == "done"
        assert resumed["steps"][0] == orphan["steps"][0]
        assert resumed["usage"]["requests"] == 3  # the first was asked before, and not again
        assert cli.json("runs", "show", orphan["run_id"])["attempts"] == 2

    def test_one_that_somebody_has_says_until_when_and_changes_nothing(self, cli, orphan):
        cli.tamper("UPDATE conversations SET lease_until = unixepoch() + 90")

        with cli.untouched():
            error = cli.error("runs", "resume", orphan["run_id"], code=5)
        assert error["code"] == "RUN_BUSY"
        assert 80 < error["left_s"] <= 90
        assert "is going on" in error["message"]

    def test_a_dead_letter_goes_on_when_the_person_gave_it_back(self, cli, stopped):
        cli.tamper(DEAD)
        cli.tamper(WITH_A_PERSON)
        talk = stopped["conversation_id"]

        with cli.untouched():
            error = cli.error("runs", "resume", stopped["run_id"], code=5)
        assert f"support-agent conversations return {talk}" in error["message"]

        cli("conversations", "return", talk, "--operator", "thu")
        resumed = cli.json("runs", "resume", stopped["run_id"])
        assert resumed["status"] == "done"
        assert cli.json("runs", "show", stopped["run_id"])["attempts"] == 1

    def test_a_stopped_one_does_not_talk_over_a_person(self, cli, stopped):
        talk = stopped["conversation_id"]
        cli("conversations", "take", talk)

        with cli.untouched():
            error = cli.error("runs", "resume", stopped["run_id"], code=5)
        assert f"support-agent conversations return {talk}" in error["message"]

        cli("conversations", "return", talk)
        assert cli.json("runs", "resume", stopped["run_id"])["status"] == "done"

    @pytest.mark.parametrize(
        ("text", "status"),
        [
            ("xin chào", "done"),
            ("hoàn tiền đơn A100", "waiting_customer"),
            ("cho tôi gặp nhân viên", "handed_off"),
        ],
    )
    def test_one_that_has_ended_has_nothing_to_resume(self, cli, text, status):
        turn = cli.json("ask", text, "--customer", "C001")
        assert turn["status"] == status

        with cli.untouched():
            error = cli.error("runs", "resume", turn["run_id"], code=5)
        assert f"ended as {status}: there is nothing to resume" in error["message"]

    def test_one_that_was_overtaken_by_a_later_message_is_not(self, cli, stopped):
        cli.json(
            "ask",
            "còn đó không?",
            "--customer",
            "C001",
            "--conversation",
            stopped["conversation_id"],
        )

        with cli.untouched():
            error = cli.error("runs", "resume", stopped["run_id"], code=5)
        assert "was overtaken" in error["message"]

    def test_one_that_dies_again_is_exit_code_3(self, cli, stopped, scripted):
        scripted({"answer": "x"}, call("lookup_order", order_id="A100"))
        cli.tamper(RUNNING)
        cli.tamper(LEASE_OVER)
        cli.tamper("UPDATE runs SET attempts = 3")
        words = ("--customer", "C001", "--conversation", stopped["conversation_id"])

        # A new message finds the orphan first: a fourth owner is one too many.
        turn = cli.json("ask", "alo?", *words)

        assert (turn["status"], turn["answer"]) == ("handed_off", "")
        assert cli.json("runs", "show", stopped["run_id"])["status"] == "dead"
        [task] = cli.json("tasks", "list")["data"]
        assert task["kind"] == "dead_run"


class TestStateOfANewerProgram:
    @pytest.fixture
    def newer(self, cli, stopped):
        cli.tamper(f"{NEWER}'{stopped['run_id']}'")
        return stopped

    @pytest.mark.parametrize("command", ["show", "resume", "replay"])
    def test_it_is_refused_and_left_as_it_is(self, cli, newer, command):
        with cli.untouched():
            error = cli.error("runs", command, newer["run_id"], code=2)

        assert error["code"] == "NEWER_STATE"
        assert error["run_id"] == newer["run_id"]
        assert "use the version of support-agent that recorded it" in error["message"]

    def test_the_next_message_of_its_conversation_is_refused_as_well(self, cli, newer):
        words = ("--customer", "C001", "--conversation", newer["conversation_id"])

        with cli.untouched():
            assert cli.error("ask", "alo?", *words, code=2)["code"] == "NEWER_STATE"

    def test_a_run_whose_owner_is_gone_is_not_taken_over(self, cli, newer):
        cli.tamper(RUNNING)
        cli.tamper(LEASE_OVER)

        with cli.untouched():
            assert cli.error("runs", "resume", newer["run_id"], code=2)["code"] == "NEWER_STATE"

    def test_other_conversations_go_on_and_it_is_still_listed(self, cli, newer):
        assert cli.json("ask", ELIGIBLE, "--customer", "C001")["status"] == "done"

        rows = cli.json("runs", "list", "--status", "stopped")["data"]
        assert [row["id"] for row in rows] == [newer["run_id"]]

"""`refunds request|retry|resolve|check`, `tasks done`, `policies check|activate`: staff's money."""

from pathlib import Path

import pytest
import yaml

from support_agent.resources import resource_dir

STANDARD = resource_dir() / "data" / "policies" / "standard.yaml"


@pytest.fixture
def policy_file(tmp_path: Path):
    """A file with the sample policy's next version, changed."""

    def write(*, newer: int = 1, **vnd: object) -> str:
        body = yaml.safe_load(STANDARD.read_text(encoding="utf-8"))
        body["version"] += newer
        body["limits"]["VND"] |= vnd
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump(body, allow_unicode=True), encoding="utf-8")
        return str(path)

    return write


def requested(cli, *words: str) -> str:
    [request] = cli.json("refunds", "request", *words, "--as", "huong")["data"]
    return request["id"]


class TestRequest:
    def test_it_says_who_has_to_approve(self, cli):
        told = cli("refunds", "request", "--order", "A100", "--as", "huong").stdout

        assert "250.000\u00a0₫ is PENDING_APPROVAL, level 1" in told
        assert "another person than huong has to approve" in told

    def test_the_same_reference_again_names_who_filed_it(self, cli):
        words = ("refunds", "request", "--order", "A100", "--reference", "T-1", "--as")
        cli(*words, "lan")

        assert "another person than lan has to approve" in cli(*words, "minh").stdout

    def test_the_brief_does_not_claim_that_the_customer_answered(self, cli):
        request = requested(cli, "--order", "A100")

        shown = cli("approvals", "show", request, "--lang", "en").stdout

        assert "filed         2026-10-13 09:00, the customer was not asked" in shown

    def test_another_person_approves_it(self, cli):
        request = requested(cli, "--order", "A100", "--amount", "100.000", "--reference", "T-1")

        error = cli.error("approvals", "approve", request, "--as", "huong", "--expect", "1", code=1)
        assert error["code"] == "SELF_APPROVAL"
        paid = cli.json("approvals", "approve", request, "--as", "lan", "--expect", "1")
        assert (paid["status"], paid["amount_minor"]) == ("REFUNDED", 100_000)

    def test_units_of_lines_are_asked_for_one_by_one(self, cli):
        request = requested(cli, "--order", "A401", "--line", "A401-1:2")

        assert cli.json("refunds", "show", request)["amount_minor"] == 60_000

    @pytest.mark.parametrize(
        ("words", "field"),
        [
            (("--line", "A401-1"), "line"),
            (("--line", "A401-1:"), "line"),
            (("--line", ":2"), "line"),
            (("--line", "A401-1:-1"), "line"),
            (("--line", "A401-1:1,5"), "line"),
            (("--line", "A401-1:1", "--line", "A401-1:2"), "line"),
            (("--line", "A401-1:1", "--amount", "5"), "amount"),
            (("--amount", "1,5"), "amount"),
            (("--amount", "-1"), "amount"),
            (("--reference", "a b"), "reference"),
        ],
    )
    def test_what_makes_no_sense_files_nothing(self, cli, words, field):
        error = cli.error("refunds", "request", "--order", "A401", *words, "--as", "huong", code=2)

        assert error["field"] == field
        assert cli.rows("SELECT count(*) FROM refund_requests") == [(0,)]

    def test_no_units_of_a_line_are_told_as_units(self, cli):
        words = ("--order", "A401", "--line", "A401-1:0", "--as", "huong")
        error = cli.error("refunds", "request", *words, code=1)

        assert error["reason"] == "QUANTITY_INVALID"
        assert "units to refund of line A401-1 must be" in error["message"]

    def test_without_an_account_to_pay_to_it_says_how_to_add_one(self, cli):
        [(customer,)] = cli.rows("SELECT customer_id FROM shop_orders WHERE id = 'A602'")
        error = cli.error("refunds", "request", "--order", "A602", "--as", "huong", code=1)

        assert error["reason"] == "DESTINATION_MISSING"
        assert f"support-agent destinations add --customer {customer}" in error["message"]
        assert "ask for a member of staff" not in error["message"]

    def test_an_unknown_order_or_person_is_not_found(self, cli):
        words = ("refunds", "request", "--order")
        assert cli.error(*words, "A999", "--as", "lan", code=4)["code"] == "ORDER_NOT_FOUND"
        assert cli.error(*words, "A100", "--as", "nobody", code=4)["code"] == "APPROVER_NOT_FOUND"

    def test_a_name_has_to_be_proved(self, cli, environment):
        environment(APPROVALS__PROOF="token")

        error = cli.error("refunds", "request", "--order", "A100", "--as", "huong", code=1)

        assert error["code"] == "NOT_PROVED"


class TestRetryAndResolve:
    def test_one_that_has_not_failed_is_not_retried(self, cli):
        request = cli.filed("A102")

        error = cli.error("refunds", "retry", request, "--as", "huong", code=5)

        assert (error["code"], error["current"]) == ("ILLEGAL_TRANSITION", "REFUNDED")

    def test_one_that_is_not_in_review_is_not_resolved(self, cli):
        words = ("--paid", "--evidence", "FT-123", "--as", "huong")
        error = cli.error("refunds", "resolve", cli.filed("A102"), *words, code=5)

        assert (error["code"], error["current"]) == ("ILLEGAL_TRANSITION", "REFUNDED")

    @pytest.mark.parametrize("evidence", ["", "  ", "ab", "a\u202eb c"])
    def test_evidence_that_is_none_is_a_usage_error(self, cli, evidence):
        words = ("--paid", "--evidence", evidence, "--as", "huong")

        assert cli.error("refunds", "resolve", "req_x", *words, code=2)["field"] == "evidence"

    def test_whether_it_was_paid_has_to_be_said(self, cli):
        words = ("--evidence", "FT-123", "--as", "huong")

        assert "--not-paid" in cli.error("refunds", "resolve", "req_x", *words, code=2)["message"]

    @pytest.mark.parametrize(
        "words", [("retry", "req_no"), ("resolve", "req_no", "--paid", "--evidence", "FT-1")]
    )
    def test_an_unknown_request_is_not_found(self, cli, words):
        error = cli.error("refunds", *words, "--as", "huong", code=4)

        assert error["code"] == "REQUEST_NOT_FOUND"

    def test_cash_is_paid_by_hand_with_a_proof_and_can_fail_and_be_tried_again(self, cli):
        account = ("--bank", "VCB", "--account", "0123456789", "--holder", "NGUYEN THI MAI")
        [(customer,)] = cli.rows("SELECT customer_id FROM shop_orders WHERE id = 'A602'")
        cli("destinations", "add", "--customer", customer, *account)
        request = cli.filed("A602", customer=customer)
        told = cli("approvals", "approve", request, "--as", "huong", "--expect", "1").stdout
        assert "another person ends it with `refunds resolve`" in told
        assert cli.json("refunds", "show", request)["status"] == "MANUAL_REVIEW"
        proof = ("refunds", "resolve", request, "--evidence")

        error = cli.error(*proof, "FT-1", "--paid", "--as", "huong", code=1)
        assert error["reason"] == "SECOND_PERSON_NEEDED"
        [task] = cli.json("tasks", "list")["data"]
        assert task["kind"] == "pay_by_hand"
        assert cli.json(*proof, "FT-1", "--not-paid", "--as", "tuan")["status"] == "FAILED"
        assert cli.json("tasks", "list")["data"] == []  # nobody is told to pay it any more
        again = cli.json("refunds", "retry", request, "--as", "tuan")
        assert (again["status"], again["round"]) == ("PENDING_APPROVAL", 2)
        version = str(again["version"])
        cli("approvals", "approve", request, "--as", "huong", "--expect", version)
        error = cli.error(*proof, "FT-2", "--paid", "--as", "tuan", code=1)
        assert error["code"] == "SELF_APPROVAL"
        cli(
            "approvers", "add", "ba", "--person", "P-BA", "--level", "2", "--limit", "VND=9.000.000"
        )
        error = cli.error(*proof, "FT-1", "--paid", "--as", "ba", code=1)
        assert error["reason"] == "EVIDENCE_USED"
        assert cli.json(*proof, "FT-2", "--paid", "--as", "ba")["status"] == "REFUNDED"
        assert cli.json("tasks", "list")["data"] == []
        done = [row["done_by"] for row in cli.json("tasks", "list", "--all")["data"]]
        assert done == ["tuan", "ba"]
        shown = cli("refunds", "show", request).stdout
        assert "decided: not_paid by tuan at 2026-10-13 09:00 with FT-1" in shown
        assert "payout 2 was asked for by person P-TUAN" in shown
        assert cli.json("refunds", "show", request)["decisions"][-1]["evidence"] == "FT-2"
        assert cli.json("refunds", "check")["ok"] is True
        assert cli.json("audit", "verify")["ok"] is True


class TestTasks:
    def test_one_is_done_once_and_its_conversation_is_the_agents_again(self, cli, environment):
        talk = cli.json("ask", "cho tôi gặp nhân viên", "--customer", "C001")["conversation_id"]
        [task] = cli.json("tasks", "list")["data"]

        told = cli("tasks", "done", task["id"], "--operator", "thu").stdout

        assert f"conversation {talk} is the agent's again" in told
        assert cli("tasks", "list").stdout == "nothing to do\n"
        [row] = cli.json("tasks", "list", "--all")["data"]
        assert (row["done_by"], row["overdue"]) == ("thu", False)
        assert cli.json("conversations", "show", talk)["handed_off"] is False
        error = cli.error("tasks", "done", task["id"], code=5)
        assert (error["code"], error["by"]) == ("TASK_ALREADY_DONE", "thu")
        assert "2026-10-13" in error["message"]

    def test_an_unknown_one_is_not_found(self, cli):
        assert cli.error("tasks", "done", "task_no", code=4)["code"] == "TASK_NOT_FOUND"

    def test_the_list_shows_what_is_due_and_what_is_late(self, cli, environment):
        cli("ask", "cho tôi gặp nhân viên", "--customer", "C001")
        cli.tamper("UPDATE tasks SET due_at = '2026-10-14 00:00:00.000000'")
        assert "  in " in cli("tasks", "list").stdout
        environment(CLOCK__NOW="2026-10-17")

        assert "overdue 3d" in cli("tasks", "list").stdout
        assert cli.json("tasks", "list")["data"][0]["overdue"] is True


class TestCheck:
    def test_what_is_in_doubt_for_too_long_is_found_and_left_as_it_is(self, cli):
        request = cli.filed("A100")
        assert cli.json("refunds", "check")["ok"] is True
        since = "moved_at = '2026-01-01 00:00:00.000000'"
        cli.tamper(f"UPDATE refund_requests SET status = 'IN_DOUBT', {since}")  # noqa: S608

        checked = cli.json("refunds", "check", code=1)

        assert checked["mismatches"] == []
        assert checked["overdue"] == [{"id": request, "status": "IN_DOUBT", "longer_than_hours": 1}]
        assert "IN_DOUBT for more than 1 h" in cli("refunds", "check", code=1).stdout
        assert cli.json("refunds", "show", request)["status"] == "IN_DOUBT"
        assert [cli.json("tick")["overdue"] for _ in range(2)] == [{"TASKS": 1}, {}]
        due = {task["kind"]: task["due_at"] for task in cli.json("tasks", "list")["data"]}
        assert due["still_in_doubt"] == "2026-10-14T02:00:00Z"


class TestPolicies:
    def test_checking_shows_what_would_change_and_changes_nothing(self, cli, policy_file):
        request = cli.filed("A100")
        file = policy_file(auto=300_000)

        checked = cli.json("policies", "check", file)

        [row] = checked["data"]
        assert (row["id"], row["before"]["level"], row["after"]["level"]) == (request, 1, 0)
        assert (checked["checked"], checked["changed"], checked["complete"]) == (1, 1, True)
        told = cli("policies", "check", file).stdout
        assert "raises a limit: VND automatic" in told
        assert "1 -> 0" in told
        assert len(cli.json("policies", "list")["data"]) == 1

    def test_a_changed_file_that_kept_its_version_is_told_before_it_is_activated(
        self, cli, policy_file
    ):
        cli("policies", "activate", policy_file(auto=100_000))
        changed = policy_file(auto=90_000)

        for word in ("check", "activate"):
            error = cli.error("policies", word, changed, code=2)
            assert "give the changed file a new version number" in error["message"]

    def test_a_file_that_changes_nothing_is_no_failure(self, cli, policy_file):
        assert "0 of 0 requests" in cli("policies", "check", policy_file()).stdout

    def test_a_limit_is_raised_by_two(self, cli, policy_file):
        file = policy_file(auto=300_000)

        assert cli.error("policies", "activate", file, code=1)["code"] == "NOT_PROVED"
        first = cli("policies", "activate", file, "--as", "huong").stdout
        assert "is proposed and not in force yet" in first
        assert "run the same command with --as: tuan" in first
        error = cli.error("policies", "activate", file, "--as", "huong", code=1)
        assert error["reason"] == "SECOND_PERSON_NEEDED"
        second = cli.json("policies", "activate", file, "--as", "tuan")
        assert (second["step"], second["activated"]) == ("activated", True)
        assert "was in force already" in cli("policies", "activate", file).stdout

    def test_a_limit_is_lowered_by_one(self, cli, policy_file):
        assert cli.json("policies", "activate", policy_file(auto=100_000))["activated"] is True

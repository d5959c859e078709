"""`approvers`, `refunds`, `tasks`, `tick`: what the shop's staff runs."""

import pytest


def audit_actions(cli) -> list[str]:
    return [action for (action,) in cli.rows("SELECT action FROM audit_events ORDER BY seq")]


class TestApprovers:
    def test_the_list_shows_limits_and_states_but_no_hash(self, cli):
        token = cli.json("approvers", "token", "lan")["token"]
        listed = cli.json("approvers", "list")

        by_name = {row["id"]: row for row in listed["data"]}
        assert by_name["minh"] == {
            "id": "minh",
            "person_id": "P-MINH",
            "level": 1,
            "limits": {"VND": 2_000_000},
            "customer_ids": ["C003"],
            "disabled": False,
            "has_token": False,
        }
        assert by_name["lan"]["has_token"] is True
        assert (listed["has_more"], listed["next_cursor"]) == (False, None)

        shown = cli("approvers", "list").stdout
        assert "2.000.000\u00a0₫" in shown
        [(stored,)] = cli.rows("SELECT token_hash FROM approvers WHERE name = 'lan'")
        assert stored not in shown
        assert token != stored

    def test_one_who_is_added_can_decide(self, cli):
        words = ("--person", "P-HOA", "--level", "1", "--limit", "VND=1.000.000")
        added = cli.json("approvers", "add", "hoa", *words, "--customer", "C002")

        assert added["limits"] == {"VND": 1_000_000}
        assert added["customer_ids"] == ["C002"]
        request = cli.filed("A100")
        assert (
            cli.json("approvals", "approve", request, "--expect", "1", "--as", "hoa")["status"]
            == "REFUNDED"
        )

    def test_limits_change_one_currency_and_leave_the_others(self, cli):
        changed = cli.json("approvers", "limit", "huong", "VND=5,000,000")

        assert changed["limits"] == {"VND": 5_000_000, "USD": 50_000}

    def test_one_who_is_disabled_decides_nothing_until_enabled(self, cli):
        request = cli.filed("A100")

        assert "disabled" in cli("approvers", "disable", "lan").stdout
        cli("approvals", "approve", request, "--expect", "1", "--as", "lan", code=1)
        assert cli.json("approvers", "enable", "lan")["disabled"] is False
        cli("approvals", "approve", request, "--expect", "1", "--as", "lan")

    def test_every_change_is_audited_once(self, cli):
        before = len(audit_actions(cli))
        cli("approvers", "limit", "lan", "VND=1000000")
        cli("approvers", "limit", "lan", "VND=1000000")  # changes nothing
        cli("approvers", "disable", "lan")
        cli("approvers", "token", "lan")

        assert audit_actions(cli)[before:] == [
            "approver.changed",
            "approver.changed",
            "approver.token_set",
        ]
        cli("audit", "verify")

    @pytest.mark.parametrize(
        ("words", "code", "error"),
        [
            (("add", "lan", "--limit", "VND=1"), 5, "CONFLICT"),
            (("add", "ho a", "--limit", "VND=1"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "VND"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "VND=1,5"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "VND=-5"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "USD=10.555"), 2, "INVALID_INPUT"),
            (("add", "h" * 65, "--limit", "VND=1"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "XYZ=5"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "VND=1", "--limit", "VND=2"), 2, "INVALID_INPUT"),
            (("add", "hoa", "--limit", "VND=1", "--customer", "C999"), 4, "CUSTOMER_NOT_FOUND"),
        ],
    )
    def test_a_bad_approver_is_not_added(self, cli, words, code, error):
        known = cli.json("approvers", "list")

        person = ("--person", "P-HOA", "--level", "1")
        assert cli.error("approvers", *words, *person, code=code)["code"] == error

        assert cli.json("approvers", "list") == known

    @pytest.mark.parametrize(
        "words",
        [("limit", "hoa", "VND=1"), ("disable", "hoa"), ("enable", "hoa"), ("token", "hoa")],
    )
    def test_an_unknown_approver_is_not_found(self, cli, words):
        assert cli.error("approvers", *words, code=4)["code"] == "APPROVER_NOT_FOUND"


class TestRefunds:
    def test_the_list_filters(self, cli):
        waiting, paid = cli.filed("A100"), cli.filed("A102")

        assert [r["id"] for r in cli.json("refunds", "list")["data"]] == [paid, waiting]
        only = cli.json("refunds", "list", "--status", "refunded", "--order", "A102")
        assert [r["id"] for r in only["data"]] == [paid]
        assert cli.json("refunds", "list", "--customer", "C002")["data"] == []
        cli("refunds", "list", "--status", "SOLD", code=2)
        assert waiting in cli("refunds", "list").stdout

    def test_one_is_shown_with_its_decisions_and_payouts(self, cli):
        request = cli.filed("A102")

        shown = cli.json("refunds", "show", request)
        assert [d["choice"] for d in shown["decisions"]] == ["auto"]
        assert [(a["number"], a["status"]) for a in shown["attempts"]] == [(1, "SUCCEEDED")]
        assert "payout 1: SUCCEEDED" in cli("refunds", "show", request).stdout

    def test_staff_takes_one_back_and_the_customer_is_told(self, cli):
        request = cli.filed("A100")

        assert cli.json("refunds", "cancel", request, "--operator", "hoa")["status"] == "CANCELLED"

        conversation = cli.json("refunds", "show", request)["conversation_id"]
        last = cli.json("conversations", "show", conversation)["messages"][-1]
        assert last["author"] == "notice"
        assert "đã được huỷ" in last["text"]
        assert cli.error("refunds", "cancel", request, code=5)["code"] == "ALREADY_DECIDED"

    def test_what_is_paid_cannot_be_taken_back(self, cli):
        assert cli.error("refunds", "cancel", cli.filed("A102"), code=5)["status"] == "REFUNDED"

    @pytest.mark.parametrize("command", ["show", "cancel"])
    def test_an_unknown_one_is_not_found(self, cli, command):
        assert cli.error("refunds", command, "req_no", code=4)["code"] == "REQUEST_NOT_FOUND"

    def test_books_that_balance_pass_and_books_that_do_not_fail(self, cli):
        cli.filed("A102")
        checked = cli.json("refunds", "check")
        assert (checked["ok"], checked["mismatches"]) == (True, [])
        assert [total["refunded_minor"] for total in checked["totals"]] == [120_000]
        assert "refunded 120.000\u00a0₫" in cli("refunds", "check").stdout
        cli("db", "check")

        cli.tamper("UPDATE payment_balances SET refunded_minor = 1 WHERE order_id = 'A102'")

        [mismatch] = cli.json("refunds", "check", code=1)["mismatches"]
        assert (mismatch["counter"], mismatch["stored"]) == ("refunded_minor", 1)
        assert "do not balance" in cli("refunds", "check", code=1).stdout
        assert cli.json("db", "check", code=1)["ok"] is False

    def test_reconciling_when_nothing_is_unclear(self, cli):
        assert cli("refunds", "reconcile").stdout == "no payout is unclear\n"
        assert cli.json("refunds", "reconcile")["data"] == []


class TestTick:
    def test_what_waited_too_long_expires_and_the_head_is_told(self, cli, environment):
        request = cli.filed("A100")
        environment(CLOCK__NOW="2026-10-20")

        ticked = cli.json("tick")

        assert ticked["expired"] == {"EXPIRED": 1}
        assert ticked["problems"] == {}
        assert cli.json("refunds", "show", request)["status"] == "EXPIRED"
        assert cli.json("audit", "verify", "--head", ticked["audit_head"])["ok"] is True

    def test_nothing_to_do_is_done(self, cli):
        lines = cli("tick").stdout.splitlines()

        assert lines[:4] == [
            "expired: nothing",
            "escalated: nothing",
            "paid: nothing",
            "reconciled: nothing",
        ]
        assert lines[-1].startswith("audit head ")

    def test_what_is_refused_does_not_count_as_paid(self, cli, environment):
        real, forged = cli.filed("A100"), cli.filed("A300", customer="C003")
        environment(PAYMENTS__TIMEOUT_SECONDS="0.000001")
        cli("approvals", "approve", real, "--expect", "1", "--as", "lan")
        environment(PAYMENTS__TIMEOUT_SECONDS="15")
        cli.tamper("UPDATE refund_requests SET status = 'APPROVED' WHERE order_id = 'A300'")

        ticked = cli.json("tick")
        lines = cli("tick").stdout.splitlines()

        assert (ticked["paid"], ticked["not_paid"]) == ({"REFUNDED": 1}, {"APPROVED": 1})
        assert lines[2] == "paid: nothing"
        assert "not paid (see `tasks list`): 1 APPROVED" in lines
        [task] = cli.json("tasks", "list")["data"]
        assert (task["kind"], task["subject"]) == ("payout_refused", forged)


class TestTasks:
    def test_a_hand_off_makes_a_task_until_somebody_does_it(self, cli):
        talks = [
            cli.json("ask", "cho tôi gặp nhân viên", "--customer", who)["conversation_id"]
            for who in ("C001", "C002")
        ]

        first = cli.json("tasks", "list", "--limit", "1")
        second = cli.json("tasks", "list", "--limit", "1", "--cursor", first["next_cursor"])

        rows = first["data"] + second["data"]
        assert {row["subject"] for row in rows} == set(talks)
        assert {row["kind"] for row in rows} == {"hand_off"}
        assert second["has_more"] is False
        assert rows[0]["id"] in cli("tasks", "list").stdout

    def test_a_cursor_of_another_list_is_refused(self, cli):
        assert cli.error("tasks", "list", "--cursor", "bogus", code=2)["field"] == "cursor"

    def test_no_task_is_nothing_to_do(self, cli):
        assert cli("tasks", "list").stdout == "nothing to do\n"

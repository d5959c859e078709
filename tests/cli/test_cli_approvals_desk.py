"""The approver's desk: filters, both languages, the version that was seen, reduce, ask, report."""

import json

import pytest

from tests.cli.test_cli_output import HOSTILE, HOSTILE_NAME, acted_on

HOSTILE_TEXT = "[red]đỏ[/red] \x1b[2J\x1b]0;x\x07 \u202egpj.exe \u200b\u2066 =HYPERLINK('x')"

# Which of the three below a filter leaves, in the order of the queue.
FILTERS = [
    ((), [0, 1, 2]),
    (("--older-than", "24h"), [0]),
    (("--older-than", "47h"), [0]),
    (("--older-than", "3d"), []),
    (("--older-than", "0m"), [0, 1]),
    (("--min", "250.000"), [0, 1]),
    (("--min", "250001"), [1]),
    (("--max", "250,000"), [0]),
    (("--min", "250.000", "--max", "250.000"), [0]),
    (("--currency", "USD"), [2]),
    (("--min", "0.01", "--currency", "USD"), [2]),
    (("--level", "1"), [0]),
    (("--level", "2"), [1, 2]),
    (("--customer", "C003"), [1]),
    (("--customer", "C999"), []),
    (("--customer", "C003", "--level", "1"), []),
]
LABELS = {
    "vi": ("trạng thái", "điều khoản", "thời hạn", "số dư", "ai duyệt được", "chờ duyệt"),
    "en": ("status", "clause", "window", "balance", "may decide", "pending approval"),
}


def ids(page) -> list[str]:
    return [row["id"] for row in page["data"]]


class TestList:
    @pytest.fixture
    def queue(self, cli, environment):
        """Three requests, filed a day apart: 250,000 and 2,000,001 in VND, and one in USD."""
        requests = []
        filings = (("A100", "C001", "10-13"), ("A301", "C003", "10-14"), ("A600", "C006", "10-15"))
        for order, customer, day in filings:
            environment(CLOCK__NOW=f"2026-{day}")
            talk = ("--customer", customer)
            quoted = cli.json("ask", f"hoàn tiền đơn {order}", *talk)["conversation_id"]
            answered = cli.json("ask", "đồng ý", *talk, "--conversation", quoted)
            requests += answered["pending_approvals"]
        return requests

    def test_filters_leave_what_fits_in_the_order_of_the_queue(self, cli, queue):
        left = {options: ids(cli.json("approvals", "list", *options)) for options, _ in FILTERS}

        assert left == {options: [queue[i] for i in those] for options, those in FILTERS}

    def test_a_filtered_list_is_paged_too(self, cli, queue):
        words = ("approvals", "list", "--min", "1", "--limit", "1")
        first = cli.json(*words)
        second = cli.json(*words, "--cursor", first["next_cursor"])

        assert ids(first) + ids(second) == queue[:2]
        assert (first["has_more"], second["has_more"]) == (True, False)

    @pytest.mark.parametrize(
        ("options", "field"),
        [
            (("--older-than", "2w"), "older-than"),
            (("--older-than", "-1h"), "older-than"),
            (("--older-than", "99999d"), "older-than"),
            (("--min", "250.00"), "min"),
            (("--max", "nhiều"), "max"),
            (("--min", "2", "--max", "1"), "min"),
            (("--min", "1", "--currency", "XYZ"), "currency"),
            (("--currency", "vnd"), "currency"),
            (("--currency", ""), "currency"),
        ],
    )
    def test_a_filter_that_makes_no_sense_is_named(self, cli, options, field):
        assert cli.error("approvals", "list", *options, code=2)["field"] == field

    def test_a_level_no_policy_can_name_is_a_usage_error(self, cli):
        error = cli.error("approvals", "list", "--level", "9" * 20, code=2)

        assert error["code"] == "USAGE"

    def test_what_is_late_escalated_or_held_shows(self, cli, environment):
        request = cli.filed("A100")
        ask = ("--as", "lan", "--question", "Bạn gửi ảnh nhé?", "--expect", "1")
        cli("approvals", "ask", request, *ask)
        environment(CLOCK__NOW="2026-10-14T09:00:00+07:00")
        cli("tick")
        row = cli("approvals", "list", "--lang", "en").stdout.splitlines()[1]
        assert "held" in row
        environment(CLOCK__NOW="2026-10-14T12:00:00+07:00")
        assert "3h late" in cli("approvals", "list", "--lang", "en").stdout

        assert cli.json("tick")["escalated"] == {"PENDING_APPROVAL": 1}

        row = cli("approvals", "list", "--lang", "en").stdout.splitlines()[1]
        assert "held, escalated 1" in row
        assert "chờ khách trả lời, chuyển cấp 1 lần" in cli("approvals", "list").stdout
        [listed] = cli.json("approvals", "list")["data"]
        assert (listed["required_level"], listed["escalations"], listed["held"]) == (2, 1, True)


class TestShow:
    @pytest.mark.parametrize("language", ["vi", "en"])
    def test_it_is_in_the_readers_language(self, cli, language):
        request = cli.filed("A100")

        facts = cli("approvals", "show", request, "--lang", language).stdout

        for label in LABELS[language]:
            assert label in facts
        other = "en" if language == "vi" else "vi"
        assert not [label for label in LABELS[other] if f"\n{label}  " in facts]

    def test_the_shops_language_is_the_default(self, cli, environment):
        request = cli.filed("A100")
        assert cli("approvals", "show", request).stdout.startswith("yêu cầu")
        environment(SHOP__LANGUAGE="en")
        assert cli("approvals", "show", request).stdout.startswith("request")

    def test_the_clauses_behind_the_verdict_are_named(self, cli):
        request = cli.filed("A303", customer="C003")

        brief = cli.json("approvals", "show", request)

        assert brief["clauses"] == [
            "window_days: 30",
            "limits.VND.auto: 200000",
            "limits.VND.levels: [2000000, 20000000]",
            "limits.VND.four_eyes_from: 10000000",
        ]

    def test_the_models_reason_stands_in_a_box_of_its_own_after_the_conversation(self, cli):
        request = cli.filed("A100")

        shown = cli("approvals", "show", request, "--lang", "en").stdout
        facts, foreign = shown.split("written by others")
        words, reason = foreign.split("the model's reason")

        assert "quote_refund" not in facts + words
        assert 'quote_refund {"order_id":"A100"}' in reason
        model = cli.json("approvals", "show", request)["untrusted"]["model"]
        assert [call["tool"] for call in model] == ["quote_refund", "request_refund"]

    def test_earlier_requests_and_decisions_are_told(self, cli):
        rejected, waiting = cli.filed("A100"), None
        cli("approvals", "reject", rejected, "--as", "lan", "--expect", "1", "--note", "đã mặc")
        waiting = cli.filed("A100")

        shown = cli("approvals", "show", waiting, "--lang", "en").stdout

        assert f"earlier: {rejected} 250.000\u00a0₫ for order A100: rejected" in shown
        told = cli("approvals", "show", rejected).stdout
        assert "đã quyết định: từ chối, lan, lúc 2026-10-13 09:00 (xác thực: asserted)" in told
        assert "  | ghi chú của lan: đã mặc" in told.splitlines()

    def test_a_bank_account_is_masked_and_its_holder_is_foreign_text(self, cli):
        account = ("--customer", "C006", "--bank", "VCB", "--account", "0123456789")
        cli("destinations", "add", *account, "--holder", "=[red]NGUYEN VAN A[/]")
        request = cli.filed("A602", customer="C006")

        shown = cli("approvals", "show", request, "--lang", "en").stdout
        facts, foreign = shown.split("written by others")

        assert "180.000\u00a0₫ to VCB ••••6789" in facts
        assert "0123456789" not in shown
        assert "NGUYEN" not in facts
        assert "  | account holder: =[red]NGUYEN VAN A[/]" in foreign.splitlines()


DECISIONS = {
    "approve": (),
    "reject": (),
    "reduce": ("--amount", "100.000"),
    "ask": ("--question", "Bạn gửi ảnh nhé?"),
}


@pytest.mark.parametrize("word", DECISIONS)
class TestEveryDecision:
    def test_without_a_terminal_it_needs_the_version_that_was_seen(self, cli, word):
        request = cli.filed("A100")
        words = ("approvals", word, request, "--as", "lan", *DECISIONS[word])

        error = cli.error(*words, code=2)

        assert error["field"] == "expect"
        assert "--expect VERSION" in error["message"]
        assert cli.json("refunds", "show", request)["version"] == 1

    def test_another_version_is_a_conflict_and_changes_nothing(self, cli, word):
        request = cli.filed("A100")
        words = ("approvals", word, request, "--as", "lan", *DECISIONS[word], "--expect", "2")

        assert cli.error(*words, code=5)["code"] == "STALE"
        assert cli.json("refunds", "show", request)["version"] == 1

    def test_who_may_instead_is_told(self, cli, word):
        request = cli.filed("A301", customer="C003")
        words = ("approvals", word, request, "--as", "lan", *DECISIONS[word], "--expect", "1")

        error = cli.error(*words, code=1)

        assert (error["code"], error["others"]) == ("INSUFFICIENT_AUTHORITY", ["huong", "tuan"])
        assert "huong, tuan may decide" in error["message"]


class TestReduce:
    def test_it_waits_for_an_approval_of_the_new_version(self, cli):
        request = cli.filed("A100")

        lowered = cli(
            "approvals", "reduce", request, "--as", "lan", "--amount", "100.000", "--expect", "1"
        ).stdout.splitlines()

        assert lowered[0].startswith("reduced by lan")
        assert lowered[1].startswith("100.000\u00a0₫ for order A100")
        assert lowered[2].endswith("it has to be approved now, at version 2")
        shown = cli("approvals", "show", request, "--lang", "en").stdout
        assert "reduced       filed with 250.000\u00a0₫" in shown
        paid = cli.json("approvals", "approve", request, "--as", "huong", "--expect", "2")
        assert (paid["status"], paid["amount_minor"]) == ("REFUNDED", 100_000)

    def test_what_is_no_longer_above_the_automatic_limit_is_not_called_so(self, cli):
        request = cli.filed("A100")
        assert "above the automatic" in cli("approvals", "show", request, "--lang", "en").stdout
        lower = ("--as", "lan", "--amount", "100.000", "--expect", "1")
        cli("approvals", "reduce", request, *lower)

        for end in ((), ("approvals", "reject", request, "--as", "lan", "--expect", "2")):
            if end:
                cli(*end)
            shown = cli("approvals", "show", request, "--lang", "en").stdout
            assert "above the automatic" not in shown
            assert "An approver lowered the amount" in shown

    @pytest.mark.parametrize("amount", ["250.000", "0", "-5", "1e3", "999999999", "A100"])
    def test_anything_but_a_lower_amount_is_refused(self, cli, amount):
        request = cli.filed("A100")
        words = ("--as", "lan", f"--amount={amount}", "--expect", "1")
        code = 2 if amount in {"-5", "1e3", "A100"} else 1

        error = cli.error("approvals", "reduce", request, *words, code=code)

        assert error["code"] == ("INVALID_INPUT" if code == 2 else "DECISION_REFUSED")
        assert cli.json("refunds", "show", request)["amount_minor"] == 250_000


class TestAsk:
    def test_the_question_is_in_the_conversation_and_the_answer_in_the_brief(self, cli):
        request = cli.filed("A100")
        question = ("--question", "Bạn gửi ảnh nhé?", "--expect", "1")

        asked = cli.json("approvals", "ask", request, "--as", "lan", *question)
        conversation = cli.json("approvals", "show", request)["conversation_id"]
        waits = cli("approvals", "show", request, "--lang", "en").stdout
        cli("ask", "Ảnh đây ạ", "--customer", "C001", "--conversation", conversation)
        answered = cli("approvals", "show", request, "--lang", "en").stdout

        assert (asked["status"], asked["version"]) == ("PENDING_APPROVAL", 2)
        assert "asked         2026-10-13 09:00: no answer yet" in waits
        assert "  | staff, 2026-10-13 09:00: Bạn gửi ảnh nhé?" in waits.splitlines()
        assert "the customer has written since" in answered
        assert "  | customer, 2026-10-13 09:00: Ảnh đây ạ" in answered.splitlines()
        assert "answered" in cli("approvals", "list", "--lang", "en").stdout
        assert cli.json("approvals", "list")["data"][0]["held"] is False


class TestGroup:
    def test_all_parts_are_decided_and_paid_by_one_command(self, cli):
        cli.filed("A605", customer="C006")
        listed = ids(cli.json("approvals", "list"))

        decided = cli.json("approvals", "approve", listed[1], "--as", "lan", "--expect", "1")

        assert [decided["id"], decided["group"][0]["id"]] == [listed[1], listed[0]]
        assert [decided["status"], decided["group"][0]["status"]] == ["REFUNDED", "REFUNDED"]
        assert ids(cli.json("approvals", "list")) == []


class TestReport:
    def test_shares_by_approver_pair_and_destination(self, cli):
        approved, rejected = cli.filed("A100"), cli.filed("A205", customer="C002")
        cli("approvals", "approve", approved, "--as", "lan", "--expect", "1")
        cli("approvals", "reject", rejected, "--as", "lan", "--expect", "1")

        report = cli.json("approvals", "report", "--days", "7")

        [approver] = report["approvers"]
        assert (approver["approver"], approver["decided"], approver["approved"]) == ("lan", 2, 1)
        assert (approver["approved_minor"], approver["paid_minor"]) == (250_000, 250_000)
        assert approver["share"] == 1.0
        assert {pair["customer_id"] for pair in report["pairs"]} == {"C001", "C002"}
        assert report["destinations"][0]["destination"].startswith("ledger:shop-main:led_A")
        assert report["second_looks"] == []
        assert "By approver and customer:" in cli("approvals", "report", "--lang", "en").stdout
        assert "Theo người duyệt và khách:" in cli("approvals", "report").stdout

    @pytest.mark.parametrize("days", ["0", "-1", "4000", "x"])
    def test_days_are_a_number_of_days(self, cli, days):
        assert cli.error("approvals", "report", f"--days={days}", code=2)["code"] == "USAGE"


class TestHostileTexts:
    """Controls, markup and right-to-left marks in all that an approver sees."""

    @pytest.fixture
    def decided(self, cli, scripted):
        """A703 is full of them; so are what the customer, the model and an approver write."""
        talk = ("--customer", "C007", "--operator", HOSTILE_NAME)
        scripted(
            {
                "tool": "quote_refund",
                "arguments": {"order_id": "A703"},
                "thought": HOSTILE_TEXT,
            },
            {"answer": HOSTILE_TEXT},
            {
                "tool": "request_refund",
                "arguments": {"quote_id": "{{quote_refund.quote_id}}"},
                "thought": HOSTILE,
            },
            {"answer": HOSTILE_TEXT},
        )
        quoted = cli.json("ask", f"hoàn tiền A703 {HOSTILE_TEXT}", *talk)["conversation_id"]
        answer = cli.json("ask", "đồng ý", *talk, "--conversation", quoted)
        [request] = answer["pending_approvals"]
        words = ("--as", "lan", "--question", HOSTILE_TEXT, "--expect", "1")
        cli("approvals", "ask", request, *words)
        words = ("--as", "lan", "--amount", "210.000", "--note", HOSTILE_TEXT, "--expect", "2")
        cli("approvals", "reduce", request, *words)
        return request

    @pytest.mark.parametrize("as_json", [False, True])
    def test_nothing_reaches_the_terminal_raw(self, cli, decided, as_json):
        commands = [
            ("approvals", "list"),
            ("approvals", "list", "--lang", "en"),
            ("approvals", "show", decided),
            ("approvals", "show", decided, "--lang", "en"),
            ("approvals", "approve", decided, "--as", "lan", "--expect", "3", "--note", HOSTILE),
            ("approvals", "report"),
        ]
        for command in commands:
            result = cli(*command, *(["--json"] if as_json else []))
            assert acted_on(result.output) == set(), command

    def test_markup_is_shown_and_not_played(self, cli, decided):
        shown = cli("approvals", "show", decided, "--lang", "en").stdout
        facts, foreign = shown.split("written by others")

        assert "[red]" not in facts
        assert foreign.count(r"[red]đỏ[/red] \x1b[2J") >= 2  # the model's answer, the note
        assert r"\u202egpj.exe \u200b\u2066" in foreign

    def test_a_forged_box_or_fact_is_one_line_of_a_box(self, cli):
        forged = "ok\nmay decide    C001\nwritten by others: nothing"
        quoted = cli.json("ask", f"hoàn tiền đơn A100 {forged}", "--customer", "C001")
        answer = ("--customer", "C001", "--conversation", quoted["conversation_id"])
        [request] = cli.json("ask", "đồng ý", *answer)["pending_approvals"]

        lines = cli("approvals", "show", request, "--lang", "en").stdout.splitlines()

        assert [line for line in lines if line.startswith("written by others")] == [
            "written by others: not checked, changes no rule"
        ]
        assert [line for line in lines if line.startswith("may decide")] == [
            "may decide    lan, minh, huong, tuan"
        ]

    def test_json_is_one_line_that_reads_back(self, cli, decided):
        brief = json.loads(cli("approvals", "show", decided, "--json").stdout)

        assert brief["untrusted"]["decision_notes"] == [HOSTILE_TEXT]


def test_an_approval_while_payouts_are_paused_says_that_nothing_is_paid_yet(cli):
    request = cli.filed("A100")
    cli("payouts", "pause")

    told = cli("approvals", "approve", request, "--as", "lan", "--expect", "1").stdout

    assert "is APPROVED" in told
    assert "not paid yet" in told
    assert cli.json("refunds", "show", request)["status"] == "APPROVED"

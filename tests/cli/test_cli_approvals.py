"""`approvals`: the queue, the brief, and decisions that stand whatever follows them."""

import re

import pytest


def test_the_queue_shows_what_waits_and_nothing_else(cli):
    waiting, _ = cli.filed("A100"), cli.filed("A102")  # A102 is small: paid at once

    [row] = cli.json("approvals", "list")["data"]
    assert row == {
        "id": waiting,
        "order_id": "A100",
        "customer_id": "C001",
        "amount_minor": 250_000,
        "currency": "VND",
        "status": "PENDING_APPROVAL",
        "version": 1,
        "required_level": 1,
        "approvals_needed": 1,
        "created_at": "2026-10-13T02:00:00Z",
        "expires_at": "2026-10-16T02:00:00Z",
        "due_at": "2026-10-14T02:00:00Z",
        "escalations": 0,
        "asked_at": None,
        "held": False,
    }
    header, line = cli("approvals", "list", "--lang", "en").stdout.splitlines()
    titles = ["ID", "ORDER", "CUSTOMER", "AMOUNT", "LEVEL", "AGE", "DUE", "STATE", "VERSION"]
    assert header.split() == titles
    assert line.split()[1:] == ["A100", "C001", "250.000", "₫", "1", "0m", "in", "24h", "-", "1"]


def test_the_queue_is_paged_by_cursor(cli):
    ids = [cli.filed(order, customer="C003") for order in ("A300", "A302")]

    first = cli.json("approvals", "list", "--limit", "1")
    second = cli.json("approvals", "list", "--limit", "1", "--cursor", first["next_cursor"])

    assert [row["id"] for page in (first, second) for row in page["data"]] == ids
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert second["next_cursor"] is None
    assert cli.error("approvals", "list", "--cursor", "made-up", code=2)["field"] == "cursor"


def test_an_empty_queue_says_so(cli):
    assert cli("approvals", "list").stdout == "không có gì chờ duyệt\n"
    assert cli("approvals", "list", "--lang", "en").stdout == "nothing waits for a person\n"
    assert cli.json("approvals", "list") == {"data": [], "has_more": False, "next_cursor": None}


def test_the_brief_gives_facts_first_and_foreign_words_last(cli):
    request = cli.filed("A100")

    shown = cli("approvals", "show", request, "--lang", "en").stdout

    facts, foreign = shown.split("written by others")
    assert "day 12 of 30, last day 2026-10-31" in facts
    assert "above the automatic 200.000\u00a0₫" in facts
    assert "may decide    lan, minh, huong, tuan" in facts
    assert "đồng ý" not in facts
    assert "  | customer, 2026-10-13 09:00: đồng ý" in foreign.splitlines()


def test_the_brief_as_json_keeps_foreign_words_apart(cli):
    request = cli.filed("A300", customer="C003")

    brief = cli.json("approvals", "show", request)

    assert brief["may_decide"] == ["lan", "huong", "tuan"]  # minh buys with this account
    assert brief["assessment"]["verdict"] == "ELIGIBLE"
    assert brief["cumulative_minor"] == 2_000_000
    assert [m["text"] for m in brief["untrusted"]["customer_messages"]] == [
        "hoàn tiền đơn A300",
        "đồng ý",
    ]


def test_an_approval_is_paid_at_once_and_shows_how_it_was_proved(cli):
    request = cli.filed("A100")

    first, second = cli(
        "approvals", "approve", request, "--expect", "1", "--as", "lan"
    ).stdout.splitlines()

    assert first == f"approved by lan (proof: asserted): request {request} is REFUNDED"
    assert second == "250.000\u00a0₫ for order A100 of customer C001"
    assert cli.json("refunds", "show", request)["status"] == "REFUNDED"


def test_a_second_approval_is_a_conflict_that_names_the_first(cli):
    request = cli.filed("A100")
    cli("approvals", "approve", request, "--expect", "1", "--as", "lan")

    error = cli.error("approvals", "approve", request, "--expect", "1", "--as", "huong", code=5)

    assert error["code"] == "ALREADY_DECIDED"
    assert (error["by"], error["at"]) == ("lan", "2026-10-13T02:00:00Z")
    told = cli("approvals", "approve", request, "--expect", "1", "--as", "huong", code=5).stderr
    assert "decided by lan at 2026-10-13 09:00\n" in told  # the shop's clock


def test_a_rejection_releases_the_amount_and_keeps_the_note(cli):
    request = cli.filed("A100")

    decided = cli.json(
        "approvals", "reject", request, "--expect", "1", "--as", "lan", "--note", "đã mặc"
    )

    assert (decided["status"], decided["decision"], decided["by"]) == ("REJECTED", "reject", "lan")
    assert cli.json("refunds", "show", request)["decisions"][0]["note"] == "đã mặc"
    assert cli.filed("A100") != request


def test_four_eyes_need_a_second_person(cli):
    request = cli.filed("A303", customer="C003")

    first = cli("approvals", "approve", request, "--expect", "1", "--as", "huong").stdout
    assert "is PENDING_APPROVAL" in first
    assert "2 persons must approve: another approver is needed" in first
    assert cli.json("approvals", "show", request)["may_decide"] == ["tuan"]

    error = cli.error("approvals", "approve", request, "--expect", "1", "--as", "huong", code=5)
    assert (error["code"], error["by"]) == ("SECOND_PERSON_NEEDED", "huong")
    assert "another person with enough authority has to decide" in error["message"]
    assert (
        cli.json("approvals", "approve", request, "--expect", "1", "--as", "tuan")["status"]
        == "REFUNDED"
    )


@pytest.mark.parametrize(
    ("order", "customer", "options", "code", "error"),
    [
        ("A100", "C001", ("--as", "nobody"), 4, "APPROVER_NOT_FOUND"),
        ("A100", "C001", ("--as", "dung"), 1, "APPROVER_DISABLED"),
        ("A100", "C001", ("--as", "lan", "--expect", "7"), 5, "STALE"),
        ("A300", "C003", ("--as", "minh"), 1, "SELF_APPROVAL"),
        ("A301", "C003", ("--as", "lan"), 1, "INSUFFICIENT_AUTHORITY"),
    ],
)
def test_who_may_not_decide_changes_nothing(cli, order, customer, options, code, error):
    request = cli.filed(order, customer=customer)

    assert (
        cli.error("approvals", "approve", request, "--expect", "1", *options, code=code)["code"]
        == error
    )

    assert cli.json("refunds", "show", request)["status"] == "PENDING_APPROVAL"
    assert cli.json("refunds", "show", request)["decisions"] == []


def test_the_operator_of_a_request_may_not_approve_it(cli):
    talk = ("--customer", "C001", "--operator", "lan")
    quoted = cli.json("ask", "hoàn tiền đơn A100", *talk)["conversation_id"]
    [request] = cli.json("ask", "đồng ý", *talk, "--conversation", quoted)["pending_approvals"]

    assert cli.error("approvals", "approve", request, "--expect", "1", "--as", "lan", code=1)[
        "code"
    ] == ("SELF_APPROVAL")


@pytest.mark.parametrize("command", ["show", "approve", "reject"])
def test_an_unknown_request_is_not_found(cli, command):
    options = () if command == "show" else ("--as", "lan", "--expect", "1")

    error = cli.error("approvals", command, "req_unknown", *options, code=4)

    assert error["code"] == "REQUEST_NOT_FOUND"


def test_an_expired_request_is_a_conflict(cli, environment):
    request = cli.filed("A100")
    environment(CLOCK__NOW="2026-10-20")

    assert (
        cli.error("approvals", "approve", request, "--expect", "1", "--as", "lan", code=5)["code"]
        == "EXPIRED"
    )
    told = cli("approvals", "approve", request, "--expect", "1", "--as", "lan", code=5).stderr
    assert re.search(r"expired at 2026-10-\d\d 09:00; ", told)


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("note", "x" * 1001, "is longer than 1000 characters"),
        ("note", "a\0b", "must not contain NUL"),
        ("as", "x" * 65, "is longer than 64 characters"),
    ],
)
def test_a_text_that_is_too_long_or_broken_decides_nothing(cli, option, text, problem):
    request = cli.filed("A100")
    options = {"as": "lan", "note": "ok"} | {option: text}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]

    error = cli.error("approvals", "approve", request, "--expect", "1", *words, code=2)

    assert (error["code"], error["field"]) == ("INVALID_INPUT", option)
    assert problem in error["message"]
    assert cli.json("refunds", "show", request)["status"] == "PENDING_APPROVAL"


def test_a_note_is_kept_composed_and_may_be_as_long_as_the_limit(cli):
    request = cli.filed("A100")

    cli("approvals", "reject", request, "--expect", "1", "--as", "lan", "--note", "a\u0301" * 1000)

    assert cli.json("refunds", "show", request)["decisions"][0]["note"] == "á" * 1000


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "xin chào", "--customer", "C001"),
        ("chat", "--customer", "C001"),
        ("runs", "resume", "run_1"),
        ("refunds", "cancel", "req_1"),
        ("policies", "activate", "standard.yaml"),
    ],
)
def test_an_operator_has_a_name_of_at_most_64_characters(cli, words):
    assert cli.error(*words, "--operator", "x" * 65, code=2)["field"] == "operator"


class TestToken:
    """Under token proof a name alone decides nothing."""

    @pytest.fixture(autouse=True)
    def token_proof(self, cli, environment):
        environment(APPROVALS__PROOF="token")

    def test_without_a_token_and_a_terminal_nothing_is_asked_and_nothing_decided(self, cli):
        request = cli.filed("A100")

        result = cli(
            "approvals", "approve", request, "--expect", "1", "--as", "lan", code=1, stdin="guess\n"
        )

        assert result.stdout == ""
        assert "SUPPORT_AGENT_APPROVER_TOKEN" in result.stderr
        assert "approvers token NAME" in result.stderr

    def test_only_the_newest_token_of_that_approver_proves(self, cli, environment):
        request = cli.filed("A100")
        old = cli("approvers", "token", "lan").stdout.strip()
        new = cli("approvers", "token", "lan").stdout.strip()

        for wrong in (old, "guess", cli("approvers", "token", "huong").stdout.strip()):
            environment(APPROVER_TOKEN=wrong)
            error = cli.error(
                "approvals", "approve", request, "--expect", "1", "--as", "lan", code=1
            )
            assert error["code"] == "NOT_PROVED"

        environment(APPROVER_TOKEN=new)
        result = cli("approvals", "approve", request, "--expect", "1", "--as", "lan")
        assert "is REFUNDED" in result.stdout
        assert "asserted" not in result.stdout


def test_a_payout_that_cannot_start_does_not_undo_the_approval(cli, environment):
    request = cli.filed("A100")
    environment(PAYMENTS__TIMEOUT_SECONDS="0.000001")

    decided = cli("approvals", "approve", request, "--expect", "1", "--as", "lan")
    assert "is APPROVED" in decided.stdout
    assert "will be tried again by tick" in decided.stdout

    environment(PAYMENTS__TIMEOUT_SECONDS="15")
    assert cli.json("tick")["paid"] == {"REFUNDED": 1}

"""`ask`: the answer, the trace, the JSON contract, and what is refused before anything changes."""

import json

import pytest

from support_agent.testing.model_server import ModelServer, failure

ELIGIBLE = "Đơn A100 của tôi có được hoàn tiền không?"


def test_the_trace_has_the_form_of_the_articles(cli):
    lines = cli("ask", ELIGIBLE, "--customer", "C001", "--trace").stdout.splitlines()

    assert lines[0] == (
        "[1] lookup_order(A100) -> status=DELIVERED, total=250000, deliveredAt=2026-10-01"
    )
    assert lines[1].startswith(
        "[2] refund_policy() -> Hoàn tiền trong vòng 30 ngày kể từ ngày giao"
    )
    assert "12 ngày" in lines[2]
    assert "250.000\u00a0₫" in lines[2]
    assert "2026-10-31" in lines[2]


def test_without_trace_only_the_answer_is_printed(cli):
    traced = cli("ask", ELIGIBLE, "--customer", "C001", "--trace").stdout.splitlines()
    result = cli("ask", ELIGIBLE, "--customer", "C001")

    assert result.stdout.splitlines() == traced[2:]
    assert result.stderr == ""


def test_the_json_object_is_the_contract(cli):
    result = cli("ask", ELIGIBLE, "--customer", "C001", "--json")
    turn = json.loads(result.stdout)

    assert list(turn) == [
        "conversation_id",
        "run_id",
        "status",
        "stop_reason",
        "answer",
        "steps",
        "quotes",
        "usage",
        "pending_approvals",
    ]
    assert (turn["status"], turn["stop_reason"]) == ("done", "answered")
    assert turn["steps"][0]["n"] == 1
    assert turn["steps"][0]["tool"] == "lookup_order"
    assert turn["steps"][0]["arguments"] == {"order_id": "A100"}
    assert turn["steps"][0]["ok"] is True
    assert json.loads(turn["steps"][0]["observation"])["total"] == 250_000
    assert turn["usage"] == {"requests": 3, "input_tokens": 0, "output_tokens": 0}
    assert "Đơn A100 đã giao" in result.stdout  # not escaped


def test_a_refund_goes_from_quote_to_the_queue(cli):
    quoted = cli.json("ask", "hoàn tiền đơn A100 cho tôi", "--customer", "C001")
    [quote] = quoted["quotes"]

    assert quoted["status"] == "waiting_customer"
    assert quote["order_id"] == "A100"
    assert (quote["amount_minor"], quote["currency"]) == (250_000, "VND")
    assert quote["needs_person"] is True
    assert quote["expires_at"] == "2026-10-13T02:30:00Z"

    talk = ("--customer", "C001", "--conversation", quoted["conversation_id"])
    filed = cli.json("ask", "đồng ý", *talk)

    assert filed["conversation_id"] == quoted["conversation_id"]
    assert filed["pending_approvals"] == [cli.json("approvals", "list")["data"][0]["id"]]


def test_a_refusal_inside_the_answer_is_not_a_failure_of_the_command(cli):
    turn = cli.json("ask", "Đơn A200 của tôi sao rồi?", "--customer", "C001")

    assert turn["steps"][0]["ok"] is False
    assert turn["steps"][0]["observation"].startswith("ERROR ORDER_NOT_FOUND")


def test_arguments_that_are_not_an_object_are_shown_as_they_came(cli, scripted):
    scripted(
        {"tool": "lookup_order", "raw_arguments": '{"order_id": '},
        {"tool": "quote_refund", "arguments": {"order_id": "A100", "amount": 5}},
        {"answer": "xong"},
    )
    lines = cli("ask", "?a", "--customer", "C001", "--trace").stdout.splitlines()

    assert lines[0].startswith('[1] lookup_order({"order_id": ) -> ERROR INVALID_ARGUMENTS')
    assert lines[1].startswith("[2] quote_refund(A100, 5) -> quote_id=quo_")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (" \u200b\n", "is empty"),
        ("x" * 100_000, "is longer than 4000 characters"),
        ("a\0b", "must not contain NUL"),
        ("\udcff", "is not valid UTF-8"),
    ],
)
def test_bad_text_is_refused_and_changes_nothing(cli, text, problem):
    error = cli.error("ask", text, "--customer", "C001", code=2)

    assert error["code"] == "INVALID_INPUT"
    assert problem in error["message"]
    assert cli.rows("SELECT count(*) FROM conversations") == [(0,)]


def test_an_unknown_customer_is_not_found(cli):
    error = cli.error("ask", "xin chào", "--customer", "C999", code=4)

    assert error["code"] == "CUSTOMER_NOT_FOUND"
    assert error["identifier"] == "C999"
    assert cli.rows("SELECT count(*) FROM conversations") == [(0,)]


def test_another_customers_conversation_is_like_a_missing_one(cli):
    theirs = cli.json("ask", "xin chào", "--customer", "C002")["conversation_id"]

    foreign = cli.error("ask", "a", "--customer", "C001", "--conversation", theirs, code=4)
    missing = cli.error("ask", "a", "--customer", "C001", "--conversation", "con_no", code=4)

    assert foreign["message"].replace(theirs, "X") == missing["message"].replace("con_no", "X")
    assert cli.rows("SELECT count(*) FROM messages") == [(2,)]


@pytest.mark.parametrize(
    "arguments", ['{"order_id": NaN}', '{"order_id": 1e999}', '{"a":' * 3000 + "1" + "}" * 3000]
)
def test_arguments_that_json_cannot_carry_are_still_one_json_object(cli, scripted, arguments):
    scripted({"tool": "lookup_order", "raw_arguments": arguments}, {"answer": "xong"})

    turn = cli.json("ask", "xin chào", "--customer", "C001")

    assert turn["steps"][0]["arguments"] == arguments
    run = cli.json("runs", "show", turn["run_id"])
    assert run["steps"][0]["arguments"] == arguments


def test_a_limit_that_stops_the_run_is_exit_code_3_and_the_run_can_be_resumed(cli, environment):
    environment(LIMITS__MAX_STEPS="1")
    stopped = cli.json("ask", ELIGIBLE, "--customer", "C001", code=3)
    assert (stopped["status"], stopped["stop_reason"]) == ("stopped", "max_steps")

    environment(LIMITS__MAX_STEPS="8")
    resumed = cli.json("runs", "resume", stopped["run_id"])

    assert resumed["run_id"] == stopped["run_id"]
    assert resumed["stop_reason"] == "answered"
    assert cli.error("runs", "resume", stopped["run_id"], code=5)["code"] == "CONFLICT"


def test_a_model_that_does_not_answer_is_a_foreign_system_that_is_down(cli, scripted):
    scripted({"error": "503"})

    turn = cli.json("ask", "xin chào", "--customer", "C001", code=6)

    assert turn["stop_reason"] == "model_unavailable"


@pytest.mark.parametrize(
    ("status", "setting"), [(401, "OPENAI_API_KEY"), (404, "SUPPORT_AGENT_MODEL__NAME")]
)
def test_a_wrong_key_or_model_is_a_configuration_error_without_a_traceback(
    cli, environment, monkeypatch, status, setting
):
    environment(MODEL__KIND="openai")
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with ModelServer([failure(status)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        result = cli("ask", "xin chào", "--customer", "C001", code=2)

    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    assert setting in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("content", [None, "not json\n", '{"unknown": 1}\n'])
def test_a_script_that_is_missing_or_malformed_is_a_configuration_error(
    cli, environment, tmp_path, content
):
    script = tmp_path / "script.jsonl"
    if content is not None:
        script.write_text(content, encoding="utf-8")
    environment(MODEL__KIND="scripted", MODEL__SCRIPT=str(script))

    error = cli.error("ask", "xin chào", "--customer", "C001", code=2)

    assert error["code"] == "CONFIGURATION"
    assert cli.rows("SELECT count(*) FROM conversations") == [(0,)]


def test_a_missing_option_is_a_usage_error_on_stderr(cli):
    error = cli.error("ask", "xin chào", code=2)
    assert error["code"] == "USAGE"
    assert "--customer" in error["message"]

    plain = cli("ask", "xin chào", code=2)
    assert plain.stdout == ""
    assert "Usage: support-agent ask" in plain.stderr
    assert "--customer" in plain.stderr


def test_who_types_is_recorded(cli):
    run = cli.json("ask", "xin chào", "--customer", "C001", "--operator", "hoa")["run_id"]

    assert cli.json("runs", "show", run)["operator"] == "hoa"

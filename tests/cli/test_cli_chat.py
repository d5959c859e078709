"""`chat` with piped input: a line is a message, and nothing is lost by leaving."""

import json


def test_each_line_is_a_message_of_one_conversation(cli):
    result = cli("chat", "--customer", "C001", stdin="hoàn tiền đơn A100\n\nđồng ý\n")

    assert "250.000\u00a0₫" in result.stdout
    assert "đang chờ nhân viên duyệt" in result.stdout
    assert "> " not in result.output  # a prompt is for terminals
    [talk] = cli.json("conversations", "list")["data"]
    assert f"chat --customer C001 --conversation {talk['id']}" in result.stderr
    assert len(cli.json("conversations", "show", talk["id"])["messages"]) == 4


def test_a_conversation_is_gone_on_with(cli):
    first = cli.json("chat", "--customer", "C001", stdin="hoàn tiền đơn A100\n")
    talk = first["conversation_id"]

    second = cli.json("chat", "--customer", "C001", "--conversation", talk, stdin="đồng ý\ncảm ơn")

    assert second["conversation_id"] == talk
    assert len(first["turns"]) == 1
    assert len(second["turns"]) == 2
    assert len(second["turns"][0]["pending_approvals"]) == 1


def test_a_message_that_is_refused_does_not_end_the_talk(cli):
    result = cli("chat", "--customer", "C001", stdin="x" * 5000 + "\na\0b\nxin chào\n")

    assert result.stderr.count("Error: text ") == 2
    assert len(result.stdout.splitlines()) >= 1


def test_a_conversation_that_is_busy_does_not_end_the_talk_and_keeps_the_messages(cli, environment):
    environment(QUEUE__WAIT_SECONDS="0.1")
    talk = cli.json("ask", "xin chào", "--customer", "C001")["conversation_id"]
    cli.tamper("UPDATE conversations SET lease_until = 1e12")
    words = ("chat", "--customer", "C001", "--conversation", talk)

    busy = cli(*words, code=5, stdin="một\nhai\n")
    assert busy.stderr.count("is answering another message") == 2
    assert busy.stderr.count("is kept and answered after it") == 2
    cli(*words, code=2, stdin="ba\n" + "x" * 5000 + "\n")

    cli.tamper("UPDATE conversations SET lease_until = NULL")
    cli(*words, stdin="bốn\n")
    assert cli.rows("SELECT count(*) FROM messages WHERE run_id IS NULL") == [(0,)]
    texts = cli.rows("SELECT text FROM messages WHERE author = 'customer' ORDER BY seq")
    assert texts == [("xin chào",), ("một",), ("hai",), ("ba",), ("bốn",)]


def test_the_exit_code_is_that_of_the_last_message(cli, environment):
    environment(LIMITS__MAX_STEPS="1")

    cli("chat", "--customer", "C001", code=3, stdin="Đơn A100 thế nào?\n")
    cli("chat", "--customer", "C001", code=0, stdin="Đơn A100 thế nào?\nxin chào\n")
    cli("chat", "--customer", "C001", code=2, stdin="x" * 5000 + "\n")


def test_the_trace_is_shown_with_each_answer(cli):
    result = cli("chat", "--customer", "C001", "--trace", stdin="Đơn A101 thế nào?\n")

    assert result.stdout.startswith("[1] lookup_order(A101) -> status=SHIPPING, total=480000\n")


def test_a_wrong_customer_or_conversation_is_told_before_the_first_message(cli):
    theirs = cli.json("ask", "xin chào", "--customer", "C002")["conversation_id"]

    assert cli.error("chat", "--customer", "C999", code=4)["code"] == "CUSTOMER_NOT_FOUND"
    error = cli.error("chat", "--customer", "C001", "--conversation", theirs, code=4)
    assert error["code"] == "CONVERSATION_NOT_FOUND"


def test_an_input_that_ends_at_once_is_no_error(cli):
    result = cli("chat", "--customer", "C001", "--json", stdin="")

    assert json.loads(result.stdout)["turns"] == []

"""`runs replay`: what would differ today, call by call, for people and as one object."""

import pytest

from tests.agent_kit import call

ELIGIBLE = "Đơn A100 của tôi có được hoàn tiền không?"


@pytest.fixture
def asked(cli):
    return cli.json("ask", ELIGIBLE, "--customer", "C001")


def test_a_run_that_would_be_the_same_is_exit_code_0(cli, asked):
    lines = cli("runs", "replay", asked["run_id"]).stdout.splitlines()

    assert lines[0] == f"{asked['run_id']}: done (answered)"
    assert lines[1] == "began 2026-10-13 09:00, read again as of 2026-10-13 09:00"
    assert '  [1] lookup_order({"order_id": "A100"}): the same' in lines
    assert "Answer: the same" in lines
    assert lines[-1] == (
        "0 of 2 calls would differ today, the answer would not; "
        "nothing was written and no gateway was reached"
    )


def test_what_would_differ_is_shown_field_by_field_with_exit_code_1(cli, asked, environment):
    environment(CLOCK__NOW="2026-12-01")

    shown = cli("runs", "replay", asked["run_id"], code=1).stdout

    assert '  [1] lookup_order({"order_id": "A100"}): would differ' in shown
    field = shown.split("      refund.days_since_delivery\n")[1].splitlines()
    assert field[:2] == ["        recorded: 12", "        now:      61"]
    assert "1 of 2 calls would differ today" in shown


def test_the_object_is_a_contract(cli, scripted, environment):
    scripted(
        {"thought": "xem đơn", **call("lookup_order", order_id="A100")},
        call("quote_refund", order_id="A100"),
        {"answer": "Bạn đồng ý không?"},
    )
    turn = cli.json("ask", "hoàn tiền", "--customer", "C001")
    environment(CLOCK__NOW="2026-12-01")

    replayed = cli.json("runs", "replay", turn["run_id"], code=1)

    assert list(replayed) == [
        "id",
        "conversation_id",
        "status",
        "stop_reason",
        "started_at",
        "read_again_at",
        "differs",
        "decisions",
        "calls",
        "answer",
    ]
    assert replayed["differs"] is True
    assert [(one["kind"], one["thought"]) for one in replayed["decisions"]] == [
        ("call", "xem đơn"),
        ("call", ""),
        ("answer", ""),
    ]
    assert replayed["read_again_at"] == "2026-12-01T02:00:00Z"
    looked, quoted = replayed["calls"]
    assert list(looked) == [
        "n",
        "step",
        "tool",
        "arguments",
        "verdict",
        "accepted",
        "recorded",
        "now",
        "differences",
    ]
    assert (looked["n"], looked["step"], looked["tool"]) == (1, 1, "lookup_order")
    assert looked["accepted"] is True
    assert {"field": "refund.verdict", "recorded": "ELIGIBLE", "now": "INELIGIBLE"} in looked[
        "differences"
    ]
    assert quoted["recorded"]["ok"] is True
    assert quoted["now"]["error_code"] == "WINDOW_EXPIRED"
    assert replayed["answer"]["differs"] is True
    assert "Báo giá" in replayed["answer"]["recorded"]
    assert "Báo giá" not in replayed["answer"]["now"]


def test_a_setting_that_was_changed(cli, asked, environment):
    environment(SHOP__LINK_HOSTS="shop.example")

    assert cli.json("runs", "replay", asked["run_id"])["differs"] is False


def test_it_writes_nothing_and_needs_no_model(cli, scripted, environment, monkeypatch):
    scripted(call("quote_refund", order_id="A200"), call("hand_off", reason="khác"))
    turn = cli.json("ask", "đơn của người khác", "--customer", "C001")
    environment(MODEL__KIND="openai")  # without a key: asked for one, it would stop

    with cli.untouched():
        replayed = cli.json("runs", "replay", turn["run_id"])

    assert [one["verdict"] for one in replayed["calls"]] == ["same", "same"]


def test_a_foreign_text_cannot_move_the_terminal(cli, scripted):
    scripted(
        {"thought": "\x1b[2J", "tool": "lookup_order", "arguments": {"order_id": "\x1b]0;x\x07"}},
        {"answer": "x"},
    )
    turn = cli.json("ask", "a", "--customer", "C001")

    assert "\x1b" not in cli("runs", "replay", turn["run_id"]).stdout


def test_an_unknown_run_is_not_found(cli):
    assert cli.error("runs", "replay", "run_no", code=4)["code"] == "RUN_NOT_FOUND"


def test_a_run_that_goes_on_is_read_as_far_as_it_is(cli, asked):
    cli.tamper("UPDATE runs SET status = 'running', stop_reason = NULL, answer_seq = NULL")

    replayed = cli.json("runs", "replay", asked["run_id"])

    assert len(replayed["calls"]) == 2
    assert replayed["answer"] is None

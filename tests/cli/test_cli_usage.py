"""`usage`: what was used, page by page, and who is far above the usual."""

import sqlite3
from contextlib import closing

import pytest

ELIGIBLE = "Đơn A100 của tôi có được hoàn tiền không?"


def use(cli, *rows: tuple[str, str, str, int, int, int, int]) -> None:
    """Counters as other processes left them: scope, subject, day, requests, in, out, cost."""
    statement = "INSERT INTO usage_counters VALUES (?, ?, ?, ?, ?, ?, ?)"
    with closing(sqlite3.connect(cli.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executemany(statement, rows)


@pytest.fixture
def used(cli):
    """Three customers on two days."""
    use(
        cli,
        ("installation", "installation", "2026-10-12", 9, 900, 90, 5),
        ("installation", "installation", "2026-10-13", 1200, 1_500_000, 70_000, 3_250_001),
        ("channel", "cli", "2026-10-13", 12, 9000, 700, 3),
        ("customer", "C001", "2026-10-12", 4, 400, 40, 2),
        ("customer", "C001", "2026-10-13", 61, 2000, 10, 4),
        ("customer", "C002", "2026-10-13", 5, 290_000, 10_001, 1),
        ("customer", "C003", "2026-10-13", 60, 200_000, 100_000, 2),
        ("conversation", "con_1", "", 7, 70, 8, 9),
    )
    return cli


def test_what_an_answer_took_is_counted(cli):
    turn = cli.json("ask", ELIGIBLE, "--customer", "C001")
    [row] = cli.json("usage", "show", "--conversation", turn["conversation_id"])["data"]

    assert row == {
        "id": f"conversation:{turn['conversation_id']}",
        "scope": "conversation",
        "subject": turn["conversation_id"],
        "day": None,
        "requests": turn["usage"]["requests"],
        "input_tokens": 0,  # the offline model has no tokens
        "output_tokens": 0,
        "cost_micros": 0,
        "limits": {"requests": 500, "tokens": 2_000_000, "cost_micros": None},
    }
    for option, name in (("--customer", "C001"), ("--channel", "cli")):
        [row] = cli.json("usage", "show", option, name)["data"]
        assert (row["day"], row["requests"]) == ("2026-10-13", turn["usage"]["requests"])


def test_the_whole_shop_is_shown_by_day_the_newest_first(used):
    assert used("usage", "show").stdout.splitlines() == [
        "DAY         INSTALLATION  REQUESTS  TOKENS IN  TOKENS OUT  COST USD",
        "2026-10-13  installation     1,200  1,500,000      70,000  3.250001",
        "2026-10-12  installation         9        900          90  0.000005",
    ]


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("--customer", "C001"), ["customer:C001:2026-10-13", "customer:C001:2026-10-12"]),
        (("--customer", "C001", "--day", "2026-10-12"), ["customer:C001:2026-10-12"]),
        (("--channel", "cli"), ["channel:cli:2026-10-13"]),
        (("--conversation", "con_1"), ["conversation:con_1"]),
        (("--day", "2026-10-12"), ["installation:installation:2026-10-12"]),
        (("--customer", "C999"), []),
        (("--customer", "x\0y"), []),
    ],
)
def test_it_shows_whom_it_is_asked_for(used, words, ids):
    assert [row["id"] for row in used.json("usage", "show", *words)["data"]] == ids


def test_pages_follow_one_another(used):
    first = used.json("usage", "show", "--limit", "1")
    second = used.json("usage", "show", "--limit", "1", "--cursor", first["next_cursor"])

    assert (first["has_more"], second["has_more"]) == (True, False)
    assert [page["data"][0]["day"] for page in (first, second)] == ["2026-10-13", "2026-10-12"]


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("tokens", ["C002", "C003", "C001"]),
        ("cost", ["C001", "C003", "C002"]),
        ("requests", ["C001", "C003", "C002"]),
    ],
)
def test_the_top_is_ordered_by_what_is_asked_for(used, by, order):
    assert [row["subject"] for row in used.json("usage", "top", "--by", by)["data"]] == order


def test_the_top_flags_who_is_above_the_usual_and_above_the_floor(used):
    lines = used("usage", "top").stdout.splitlines()

    assert lines[0].split() == [
        "CUSTOMER",
        "REQUESTS",
        "TOKENS",
        "IN",
        "TOKENS",
        "OUT",
        "COST",
        "USD",
        "FLAG",
    ]
    assert [line.split()[0] for line in lines[1:] if line.endswith("unusual")] == ["C002", "C001"]


def test_the_top_of_a_day_without_use_says_so(cli):
    said = cli("usage", "top", "--day", "2026-09-01").stdout
    assert said == "no customer used anything on 2026-09-01\n"


@pytest.mark.parametrize(
    "words",
    [
        ("show", "--customer", "C001", "--channel", "cli"),
        ("show", "--conversation", "con_1", "--day", "2026-10-13"),
        ("show", "--day", "2026-02-30"),
        ("show", "--day", "13.10.2026"),
        ("show", "--day", "２０２６-10-13"),
        ("show", "--cursor", "rubbish"),
        ("top", "--by", "beauty"),
        ("top", "--limit", "0"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(cli, words):
    assert cli.error("usage", *words, code=2)["message"]


def test_the_tick_makes_one_task_a_customer_and_day_and_blocks_nothing(used):
    assert [used.json("tick")["unusual"] for _ in range(2)] == [{"TASKS": 2}, {}]

    tasks = used.json("tasks", "list")["data"]
    assert [(task["kind"], task["subject"]) for task in tasks] == [
        ("usage.unusual", "C001"),
        ("usage.unusual", "C002"),
    ]
    assert used.json("ask", ELIGIBLE, "--customer", "C001")["status"] == "done"


def test_a_budget_that_is_used_up_is_exit_code_3_and_a_task(cli, environment):
    environment(BUDGETS__CUSTOMER_DAY_REQUESTS="1")
    turn = cli.json("ask", "Xin chào", "--customer", "C001")
    over = cli.json("ask", "Xin chào", "--customer", "C001", code=3)

    assert turn["status"] == "done"
    assert (over["status"], over["stop_reason"]) == ("stopped", "token_budget")
    assert "ngày mai" in over["answer"]
    [task] = cli.json("tasks", "list")["data"]
    assert (task["kind"], task["subject"]) == ("usage.limit", "customer C001")

    environment(BUDGETS__CUSTOMER_DAY_REQUESTS="9")
    assert cli.json("runs", "resume", over["run_id"])["status"] == "done"


@pytest.mark.parametrize("value", ["-1", "0", "1.5", "many", "99999999999999999999"])
def test_a_senseless_budget_names_its_variable(cli, environment, value):
    environment(BUDGETS__CONVERSATION_TOKENS=value)

    error = cli.error("ask", "Xin chào", "--customer", "C001", code=2)

    assert "SUPPORT_AGENT_BUDGETS__CONVERSATION_TOKENS" in error["message"]


def test_a_budget_below_one_call_names_its_variable(cli, environment):
    environment(BUDGETS__CONVERSATION_TOKENS="1000")

    error = cli.error("ask", "Xin chào", "--customer", "C001", code=2)

    assert "SUPPORT_AGENT_BUDGETS__CONVERSATION_TOKENS: 1000 is too small" in error["message"]
    [problem] = [c for c in cli.json("doctor", code=2)["checks"] if not c["ok"]]
    assert problem == {
        "name": "budgets",
        "ok": False,
        "level": "fail",
        "detail": error["message"],
    }

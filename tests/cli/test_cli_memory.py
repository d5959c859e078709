"""`memory`: what is remembered of a customer, from the terminal."""

import pytest


@pytest.fixture
def remembered(cli, scripted) -> str:
    """C001 said how they want to be served; the conversation."""
    scripted({"answer": "Of course."})
    said = "Please answer in English. Cứ gọi chị là chị nhé."
    return cli.json("ask", said, "--customer", "C001")["conversation_id"]


def test_it_is_shown_with_where_it_was_said(cli, remembered):
    page = cli.json("memory", "show", "C001")
    table = cli("memory", "show", "C001").stdout

    assert [(row["id"], row["value"]) for row in page["data"]] == [
        ("language", "en"),
        ("address", "chi"),
    ]
    assert {row["conversation_id"] for row in page["data"]} == {remembered}
    assert page["has_more"] is False
    assert "English" in table
    assert "addressed as chị" in table


def test_nobody_elses_is_shown(cli, remembered):
    assert cli.json("memory", "show", "C002")["data"] == []
    assert "nothing is remembered" in cli("memory", "show", "C002").stdout


def test_one_kind_is_forgotten_or_all(cli, remembered):
    assert "language" in cli("memory", "forget", "C001", "language", "--operator", "thu").stdout
    assert [row["id"] for row in cli.json("memory", "show", "C001")["data"]] == ["address"]

    assert cli.json("memory", "forget", "C001") == {
        "customer_id": "C001",
        "forgotten": ["address"],
    }
    assert "nothing to forget" in cli("memory", "forget", "C001").stdout
    told = cli.rows("SELECT actor_id, data FROM audit_events WHERE action = 'memory.forgotten'")
    assert told[0] == ("thu", '{"kinds":"language"}')
    assert len(told) == 2


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("show", "C999"), 4, "CUSTOMER_NOT_FOUND"),
        (("forget", "C999"), 4, "CUSTOMER_NOT_FOUND"),
        (("forget", "C001", "shoe_size"), 2, "USAGE"),
        (("show",), 2, "USAGE"),
    ],
)
def test_bad_input_says_what_is_wrong(cli, words, code, error):
    assert cli.error("memory", *words, code=code)["code"] == error

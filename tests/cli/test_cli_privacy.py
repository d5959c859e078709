"""`privacy`: export and erasure from the terminal."""

import pytest

from tests.cli.terminal import environment_of

SAID = "Mật khẩu nhà tôi là hoa mai"


@pytest.fixture
def told(cli, scripted) -> str:
    """C001 told something; the conversation."""
    scripted({"answer": "Vâng."})
    return cli.json("ask", SAID, "--customer", "C001")["conversation_id"]


def test_an_export_is_one_object_of_the_documented_shape(cli, told):
    made = cli.json("privacy", "export", "C001", "--operator", "thu")

    assert made.keys() == {
        *("format", "customer_id", "exported_at", "installation_id", "audit_head"),
        *("not_here", "claimed_conversations", "data"),
    }
    assert (made["format"], made["customer_id"]) == (1, "C001")
    assert [row["text"] for row in made["data"]["messages"]] == [SAID, "Vâng."]
    assert cli("privacy", "export", "C001").stdout.startswith('{"format":1,')
    assert cli.rows("SELECT actor_id FROM audit_events WHERE action = 'privacy.exported'")[0] == (
        "thu",
    )


def test_erasing_says_what_went_and_what_is_not_here(cli, told):
    said = cli("privacy", "erase", "C001", "--yes", "--operator", "thu").stdout

    assert "erased: 2 messages" in said
    assert "the shop's own system" in said
    assert SAID not in str(cli.json("privacy", "export", "C001"))
    assert cli.json("audit", "verify")["ok"]
    again = cli.json("privacy", "erase", "C001", "--yes")
    assert (again["customer_id"], again["erased"]) == ("C001", {})
    assert "nothing personal" in cli("privacy", "erase", "C001", "--yes").stdout
    told_of = cli.rows("SELECT actor_id FROM audit_events WHERE action = 'privacy.erased'")
    assert told_of == [("thu",)]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_nobody_is_asked_without_a_terminal(cli, told, words):
    result = cli("privacy", "erase", "C001", *words, code=2, stdin="y\n")

    assert "--yes" in result.stderr
    assert result.stdout == ""
    assert cli.json("privacy", "export", "C001")["data"]["messages"][0]["text"] == SAID


@pytest.mark.parametrize(
    ("key", "code", "kept"), [(b"\r", 1, True), (b"n", 1, True), (b"y", 0, False)]
)
def test_at_a_terminal_only_y_erases(cli, told, sit_down, key, code, kept):
    seat = sit_down("privacy", "erase", "C001", env=environment_of(cli.url))

    seat.wait_for("[y/N]")
    seat.type(key)

    assert seat.exit_code() == code, seat.seen
    assert ("nothing was erased" in seat.seen) is kept
    texts = [row["text"] for row in cli.json("privacy", "export", "C001")["data"]["messages"]]
    assert (SAID in texts) is kept


def test_a_request_that_is_not_final_is_named(cli):
    request = cli.filed("A100")

    error = cli.error("privacy", "erase", "C001", "--yes", code=5)

    assert (error["code"], error["requests"]) == ("STILL_IN_USE", [request])
    assert request in error["message"]


@pytest.mark.parametrize("words", [("export", "C999"), ("erase", "C999", "--yes")])
def test_an_unknown_customer_is_not_found(cli, words):
    assert cli.error("privacy", *words, code=4)["code"] == "CUSTOMER_NOT_FOUND"


def test_an_erased_conversation_is_shown_as_one(cli, told):
    cli("privacy", "erase", "C001", "--yes")

    assert "its texts were erased" in cli("conversations", "show", told).stdout
    assert "erased" in cli("conversations", "list").stdout
    assert cli.json("conversations", "show", told)["erased"] is True


def test_who_only_claimed_to_be_the_customer_is_named_and_erased(cli, told):
    cli.tamper("UPDATE conversations SET assurance = 1")

    made = cli.json("privacy", "export", "C001")
    assert made["claimed_conversations"]["ids"] == [told]
    assert SAID not in str(made)

    said = cli("privacy", "erase", "C001", "--yes").stdout
    assert "of them 1 conversations whose writer only claimed to be this customer" in said
    assert cli.json("privacy", "export", "C001")["claimed_conversations"]["ids"] == []

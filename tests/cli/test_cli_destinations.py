"""`destinations`: bank accounts from the terminal; the number stays hidden until an approver asks."""

import pytest

NUMBER = "0123456789"


@pytest.fixture
def added(cli, environment) -> str:
    return add(cli)["id"]


def add(cli, **changes: str):
    options = {"customer": "C006", "bank": "VCB", "account": NUMBER, "holder": "TRAN VAN SAU"}
    words = [word for name, value in (options | changes).items() for word in (f"--{name}", value)]
    return cli.json("destinations", "add", *words)


def test_what_was_added_is_listed_masked_the_newest_first(cli, added):
    newer = add(cli, account="9876543210", bank="ACB")

    page = cli.json("destinations", "list", "--customer", "C006")
    table = cli("destinations", "list", "--customer", "C006").stdout

    assert [row["id"] for row in page["data"]] == [newer["id"], added]
    assert [row["account"] for row in page["data"]] == ["ACB ••••3210", "VCB ••••6789"]
    assert NUMBER not in table + str(page)
    assert "TRAN VAN SAU" in table


def test_nobody_elses_accounts_are_listed(cli, added):
    assert cli.json("destinations", "list", "--customer", "C001")["data"] == []
    assert "no account on file" in cli("destinations", "list", "--customer", "C001").stdout


def test_the_number_is_masked_unless_an_approver_asks(cli, environment, added):
    environment(APPROVALS__PROOF="asserted")

    masked = cli("destinations", "show", added).stdout
    whole = cli("destinations", "show", added, "--as", "lan").stdout
    as_json = cli.json("destinations", "show", added, "--as", "lan")

    assert "VCB ••••6789" in masked
    assert NUMBER not in masked + str(cli.json("destinations", "show", added))
    assert NUMBER in whole
    assert as_json["account_number"] == NUMBER
    looked = cli.rows("SELECT actor_id FROM audit_events WHERE action = 'account.shown'")
    assert looked == [("lan",), ("lan",)]


def test_without_a_token_the_number_stays_hidden(cli, environment, added):
    environment(APPROVALS__PROOF="token")

    error = cli.error("destinations", "show", added, "--as", "lan", code=1)

    assert error["code"] == "NOT_PROVED"
    assert NUMBER not in str(error)


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("account", "0123-456", "INVALID_INPUT"),
        ("account", "12345", "INVALID_INPUT"),
        ("holder", "A", "INVALID_INPUT"),
        ("bank", "V\u202eCB", "INVALID_INPUT"),
        ("customer", "C999", "CUSTOMER_NOT_FOUND"),
    ],
)
def test_a_bad_account_is_refused_and_nothing_stored(cli, environment, option, value, code):
    options = {"customer": "C006", "bank": "VCB", "account": NUMBER, "holder": "TRAN VAN SAU"}
    words = [w for name, given in (options | {option: value}).items() for w in (f"--{name}", given)]

    error = cli.error("destinations", "add", *words, code=4 if option == "customer" else 2)

    assert error["code"] == code
    assert cli.rows("SELECT id FROM payout_destinations") == []


def test_an_unknown_account_is_not_found(cli, environment):
    assert cli.error("destinations", "show", "dst_none", code=4)["code"] == "DESTINATION_NOT_FOUND"

"""`keys`: made and shown once, listed, rotated, revoked; what makes no sense is refused."""

import pytest


def created(cli, *words: str) -> dict:
    return cli.json("keys", "create", *words, "--operator", "thu")


def test_a_key_is_printed_once_and_only_its_hash_is_stored(cli):
    shown = cli("keys", "create", "web", "--scope", "customers:act").stdout.strip()

    assert shown.startswith("sak_")
    secret = shown.split("_", 2)[2]
    assert all(secret not in str(row) for row in cli.rows("SELECT * FROM api_keys"))
    assert all(secret not in str(row) for row in cli.rows("SELECT * FROM audit_events"))
    assert secret not in cli("keys", "list").stdout


def test_as_an_object_it_says_what_it_may_do_and_until_when(cli):
    key = created(cli, "zalo", "--scope", "customers:act", "--channel", "zalo:oa_1")

    assert key["id"].startswith("key_")
    assert (key["name"], key["scopes"]) == ("zalo", ["customers:act"])
    assert (key["channel"], key["account"], key["assurance"]) == ("zalo", "oa_1", "claimed")
    assert key["created_by"] == "thu"
    assert key["expires_at"] > key["created_at"]


def test_without_an_end_only_when_that_is_asked_for(cli):
    assert created(cli, "web", "--scope", "tasks:read", "--days", "0")["expires_at"] is None
    assert created(cli, "ops", "--scope", "tasks:read")["expires_at"] is not None


def test_an_approvers_key_names_the_approver(cli):
    key = created(cli, "desk", "--scope", "approvals:decide", "--approver", "lan")

    assert key["approver"] == "lan"
    assert "lan" in cli("keys", "list").stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["web"], 2, "--scope"),
        (["web", "--scope", "everything"], 2, "customers:act"),
        (["w e b", "--scope", "tasks:read"], 2, "letters"),
        (["w" * 201, "--scope", "tasks:read"], 2, "200"),
        (["web", "--scope", "customers:act", "--scope", "approvals:decide"], 2, "does not decide"),
        (["web", "--scope", "approvals:decide"], 2, "approver"),
        (["web", "--scope", "tasks:read", "--approver", "lan"], 2, "approvals:decide"),
        (["web", "--scope", "approvals:decide", "--approver", "nobody"], 4, "nobody"),
        (["web", "--scope", "approvals:decide", "--approver", "dung"], 1, "disabled"),
        (["lan", "--scope", "tasks:read"], 5, "--approver lan"),
        (["lan", "--scope", "approvals:decide", "--approver", "minh"], 5, "--approver lan"),
        (["web", "--scope", "customers:act", "--channel", "zalo"], 2, "zalo:oa_1"),
        (["web", "--scope", "tasks:read", "--channel", "zalo:oa_1"], 2, "customers:act"),
        (["web", "--scope", "customers:act", "--channel", "api:web"], 2, "own"),
        (["web", "--scope", "customers:act", "--channel", "cli:local"], 2, "own"),
        (["web", "--scope", "customers:act", "--assurance", "verified"], 2, "channel"),
        (["web", "--scope", "customers:act", "--assurance", "none"], 2, "claimed, verified"),
        (["web", "--scope", "tasks:read", "--days", "-1"], 2, "days"),
        (["web", "--scope", "tasks:read", "--days", "4000"], 2, "days"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(cli, words, code, says):
    with cli.untouched():
        error = cli.error("keys", "create", *words, code=code)

    assert says in error["message"]


def test_a_name_stands_for_one_client(cli):
    first = created(cli, "web", "--scope", "tasks:read")
    created(cli, "web", "--scope", "tasks:read")  # the same client's second one

    assert cli.error("keys", "create", "web", "--scope", "tasks:write", code=5)

    for key in cli.json("keys", "list")["data"]:
        cli("keys", "revoke", key["id"])
    assert created(cli, "web", "--scope", "tasks:write")["id"] != first["id"]


def test_an_approver_cannot_take_the_name_of_a_client(cli):
    created(cli, "hoa", "--scope", "tasks:read")
    words = ("approvers", "add", "hoa", "--person", "P-HOA", "--level", "1", "--limit", "VND=1")

    assert "API key" in cli.error(*words, code=5)["message"]


def test_the_list_goes_page_by_page_and_tells_which_ended(cli):
    made = [created(cli, f"k{n}", "--scope", "tasks:read")["id"] for n in range(3)]
    cli("keys", "revoke", made[0])

    first = cli.json("keys", "list", "--limit", "2")
    rest = cli.json("keys", "list", "--limit", "2", "--cursor", first["next_cursor"])

    assert [key["id"] for key in (*first["data"], *rest["data"])] == made
    assert first["data"][0]["revoked_at"] is not None
    assert "revoked" in cli("keys", "list").stdout
    assert cli.error("keys", "list", "--cursor", "key_none", code=2)


def test_a_key_that_a_hand_changed_is_marked(cli):
    key = created(cli, "web", "--scope", "tasks:read")
    cli.tamper("UPDATE api_keys SET scopes = '[\"tasks:write\"]'")

    (listed,) = cli.json("keys", "list")["data"]
    assert (listed["id"], listed["genuine"]) == (key["id"], False)
    assert "changed by something else" in cli("keys", "list").stdout
    assert f"API key '{key['id']}'" in cli("audit", "verify", code=1).stdout


def test_no_keys_at_all_are_told_in_words(cli):
    assert "keys create" in cli("keys", "list").stdout
    assert cli.json("keys", "list") == {"data": [], "has_more": False, "next_cursor": None}


class TestRotation:
    def test_both_keys_work_during_the_overlap_and_have_one_name(self, cli):
        old = created(cli, "web", "--scope", "tasks:read")
        new = cli.json("keys", "rotate", old["id"], "--overlap-hours", "1")

        assert (new["name"], new["scopes"]) == (old["name"], old["scopes"])
        assert new["replaces"]["id"] == old["id"]
        assert new["replaces"]["expires_at"] < new["expires_at"]
        assert new["key"] != old["key"]

    def test_without_an_overlap_the_old_one_ends_at_once(self, cli):
        old = created(cli, "web", "--scope", "tasks:read")
        cli("keys", "rotate", old["id"], "--overlap-hours", "0")

        assert cli.error("keys", "rotate", old["id"], code=5)
        assert "ended" in cli("keys", "list").stdout

    def test_an_overlap_never_lengthens_the_old_ones_life(self, cli):
        old = created(cli, "web", "--scope", "tasks:read", "--days", "1")
        new = cli.json("keys", "rotate", old["id"], "--overlap-hours", "700")

        assert new["replaces"]["expires_at"] == old["expires_at"]

    def test_of_one_that_is_none_or_ended_it_is_refused(self, cli):
        key = created(cli, "web", "--scope", "tasks:read")
        cli("keys", "revoke", key["id"])

        assert cli.error("keys", "rotate", key["id"], code=5)
        assert cli.error("keys", "rotate", "key_none", code=4)


def test_revoking_twice_is_a_conflict_and_nobodys_is_not_found(cli):
    key = created(cli, "web", "--scope", "tasks:read")

    assert cli.json("keys", "revoke", key["id"])["revoked_at"] is not None
    assert cli.error("keys", "revoke", key["id"], code=5)
    assert cli.error("keys", "revoke", "key_none", code=4)


def test_doctor_tells_which_keys_end_soon_and_have_no_successor(cli):
    created(cli, "old", "--scope", "tasks:read", "--days", "3")
    kept = created(cli, "web", "--scope", "tasks:read")
    cli("keys", "rotate", kept["id"], "--overlap-hours", "24")

    (line,) = [one for one in cli("doctor").stdout.splitlines() if "api keys" in one]
    assert line.startswith("WARN")
    assert "old (key_" in line
    assert "web" not in line

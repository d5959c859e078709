"""`db` and `doctor`: making an installation, and being told what is wrong with one."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import parse_keys
from support_agent.domain.audit import AuditEvent
from support_agent.resources import resource_dir
from tests.history import attack, written_before_the_index
from tests.kit import KEYS
from tests.old_databases import bring_up, make_old_database


@pytest.fixture
def fresh(cli, environment, tmp_path: Path) -> Path:
    """Where a database may be made; no keys are set."""
    path = tmp_path / "var" / "shop.db"
    environment(DATABASE__URL=f"sqlite:///{path}")
    cli.url = f"sqlite:///{path}"
    return path


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch, cli) -> None:
    monkeypatch.delenv("SUPPORT_AGENT_SECURITY__KEYS")


@pytest.mark.usefixtures("without_keys")
def test_from_nothing_to_an_answer(cli, fresh):
    made = cli.json("db", "upgrade")
    assert made["from_revision"] is None
    assert (made["kind"], made["key_file"]) == ("demo", "shop.keys")
    assert fresh.with_suffix(".keys").stat().st_mode & 0o077 == 0

    seeded = cli.json("db", "seed")
    assert seeded["customers"] >= 6
    assert seeded["policy_activated"] is True

    turn = cli.json("ask", "Đơn A100 có được hoàn tiền không?", "--customer", "C001")
    assert "250.000\u00a0₫" in turn["answer"]


@pytest.mark.usefixtures("without_keys")
def test_a_lost_key_file_is_not_replaced_once_something_was_signed(cli, fresh):
    """A new key would make every decision and the whole audit chain look forged."""
    cli("db", "upgrade")
    keys = fresh.with_suffix(".keys")
    keys.unlink()
    cli("db", "upgrade")  # nothing was signed yet
    cli("db", "seed")
    keys.unlink()

    error = cli.error("db", "upgrade", code=2)

    assert error["code"] == "CONFIGURATION"
    assert "restore that file" in error["message"]
    assert not keys.exists()


def test_a_second_upgrade_and_a_second_seed_change_nothing(cli):
    again = cli.json("db", "upgrade")
    assert again["from_revision"] == again["to_revision"]
    assert again["key_file"] is None

    assert cli.json("db", "seed") == {
        "customers": 0,
        "orders": 0,
        "approvers": 0,
        "policy_activated": False,
        "policy_kept": None,
    }
    assert "already there" in cli("db", "upgrade").stdout
    assert "the policy stays as it is" in cli("db", "seed").stdout


def test_a_history_from_before_the_index_is_indexed_by_an_upgrade(cli):
    """Nothing of it counts before: who may write the database could have hidden its newest event."""
    keys = parse_keys(KEYS, source="the tests")

    async def chain() -> list[AuditEvent]:
        database = SqlDatabase(cli.url, keys)
        try:
            return await database.read(lambda tx: [row.event for row in tx.audit.rows()])
        finally:
            await database.aclose()

    events = asyncio.run(chain())
    written_before_the_index(cli.url, keys, *events)
    assert "db upgrade" in cli.error("approvals", "list", code=2)["message"]
    assert any("db upgrade" in one for one in cli.json("audit", "verify", code=1)["problems"])

    assert cli.json("db", "upgrade")["indexed_events"] == len(events)

    assert cli.json("audit", "verify")["ok"] is True
    assert cli.json("db", "upgrade")["indexed_events"] is None
    cli.tamper("DELETE FROM audit_entries")
    assert f"{len(events) + 1} events" in cli("db", "upgrade").stdout
    assert cli.json("audit", "verify")["ok"] is True


def test_a_broken_history_is_not_indexed(cli):
    attack(
        cli.url,
        sa.text("DELETE FROM audit_entries"),
        sa.text("DELETE FROM audit_events WHERE seq = 2"),
    )

    message = cli.error("db", "upgrade", code=2)["message"]

    assert "audit event 2 is missing" in message
    assert "audit verify" in message


def test_what_is_sound_passes_the_check(cli):
    checked = cli.json("db", "check")

    assert checked["ok"] is True
    assert "every reference holds" in cli("db", "check").stdout


def test_a_row_that_points_nowhere_fails_the_check(cli):
    cli.tamper(
        "INSERT INTO messages (conversation_id, seq, author, text, at) "
        "VALUES ('con_gone', 1, 'customer', 'x', '2026-10-13 02:00:00')"
    )

    assert cli.json("db", "check", code=1)["broken_references"] == ["messages"]


@pytest.mark.parametrize("words", [("db", "seed"), ("approvals", "list"), ("tick",)])
def test_a_missing_database_says_what_to_run(cli, fresh, words):
    error = cli.error(*words, code=2)

    assert error["code"] == "CONFIGURATION"
    assert "db upgrade" in error["message"]
    assert not fresh.exists()


@pytest.mark.parametrize(
    ("found", "advice"), [(None, "db upgrade"), ("9999", "older than the database")]
)
def test_an_empty_or_a_newer_database_is_refused(cli, found, advice):
    with closing(sqlite3.connect(cli.url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("DELETE FROM alembic_version")
        if found:
            connection.execute("INSERT INTO alembic_version VALUES (?)", (found,))

    assert advice in cli.error("approvals", "list", code=2)["message"]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://h/d",
        "sqlite://",
        "not a url",
        "sqlite:////proc/no/shop.db",
        "sqlite:////proc/shop.db",
    ],
)
def test_a_bad_or_unwritable_address_is_refused(cli, environment, url):
    environment(DATABASE__URL=url)

    error = cli.error("db", "upgrade", code=2)

    assert error["setting"] == "SUPPORT_AGENT_DATABASE__URL"
    assert "db upgrade" not in error["message"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("LIMIT__MAX_STEPS", "3"), ("LIMITS__MAX_STEP", "3"), ("LIMITS__MAX_STEPS", "many")],
)
def test_a_setting_that_does_not_exist_or_fit_is_named(cli, environment, name, value):
    environment(**{name: value})

    assert f"SUPPORT_AGENT_{name}" in cli.error("db", "check", code=2)["message"]


class TestLive:
    """A live database is stamped once and takes no shortcut."""

    @pytest.mark.usefixtures("without_keys", "fresh")
    @pytest.mark.parametrize("profile", ["dev", "prod"])
    def test_without_keys_nothing_is_made(self, cli, environment, fresh, profile):
        environment(PROFILE=profile)
        words = ("db", "upgrade") if profile == "prod" else ("db", "upgrade", "--live")

        assert cli.error(*words, code=2)["setting"] == "SUPPORT_AGENT_SECURITY__KEYS"
        assert not fresh.exists()

    @pytest.mark.usefixtures("fresh")
    def test_a_fixed_clock_and_asserted_names_are_refused(self, cli, environment, monkeypatch):
        assert cli.json("db", "upgrade", "--live")["kind"] == "live"

        message = cli.error("approvals", "list", code=2)["message"]
        assert "CLOCK__NOW" in message
        assert "APPROVALS__PROOF" in message

        monkeypatch.delenv("SUPPORT_AGENT_CLOCK__NOW")
        environment(APPROVALS__PROOF="token", PAYMENTS__LEDGER_IS_BOOKS_ONLY="true")
        cli("approvals", "list")
        assert "live" in cli.error("db", "seed", code=2)["message"]

    def test_a_demo_database_never_becomes_live(self, cli):
        assert "never becomes live" in cli.error("db", "upgrade", "--live", code=2)["message"]


class TestDoctor:
    def test_a_sound_installation_is_described(self, cli):
        found = cli.json("doctor")

        checks = {check["name"]: check["detail"] for check in found["checks"]}
        assert found["ok"] is True
        assert checks["clock"].startswith("fixed at 2026-10-13")
        assert checks["model"] == "offline"
        assert checks["policy"] == "standard version 2"
        assert checks["approvers"] == "4 active, 0 with a token"
        assert checks["schema"].endswith("a demo database")
        assert checks["audit head"] == cli.json("audit", "verify")["head"]

    def test_approvers_without_tokens_are_a_problem_under_token_proof(self, cli, environment):
        environment(APPROVALS__PROOF="token")
        assert "approvers token NAME" in cli("doctor", code=2).stdout

        cli("approvers", "token", "lan")
        assert cli.json("doctor")["ok"] is True

    def test_what_does_not_start_is_a_finding(self, cli, environment, tmp_path):
        environment(MODEL__KIND="scripted", MODEL__SCRIPT=str(tmp_path / "no.jsonl"))
        problems = [
            check["name"] for check in cli.json("doctor", code=2)["checks"] if not check["ok"]
        ]
        assert problems == ["model"]

        environment(DATABASE__URL=f"sqlite:///{tmp_path}/no.db")
        assert "db upgrade" in cli("doctor", code=2).stdout

    def test_the_models_that_are_set_are_described_without_asking_them(
        self, cli, environment, monkeypatch
    ):
        environment(
            MODEL__KIND="openai",
            MODEL__NAME="example-large",
            MODEL__FALLBACK_KIND="openai",
            MODEL__FALLBACK_NAME="own-7b",
            MODEL__FALLBACK_BASE_URL="http://127.0.0.1:1/v1",
            MODEL__SMALL_KIND="openai",
            MODEL__SMALL_NAME="example-small",
        )
        monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-print-me")

        found = cli.json("doctor")

        checks = {check["name"]: check["detail"] for check in found["checks"]}
        assert checks["model"] == (
            "openai example-large, with a key; "
            "then openai own-7b, without a key, no price: counted as free of charge"
        )
        assert checks["small model"] == "openai example-small, with a key"
        assert "do-not-print" not in json.dumps(found)

    @pytest.mark.parametrize(
        ("role", "name", "variable"),
        [
            ("", "model", "OPENAI_API_KEY"),
            ("FALLBACK_", "model", "MODEL__FALLBACK_API_KEY"),
            ("SMALL_", "small model", "MODEL__SMALL_API_KEY"),
        ],
    )
    def test_a_model_without_its_key_is_a_finding(self, cli, environment, role, name, variable):
        environment(**{f"MODEL__{role}KIND": "openai"})

        checks = cli.json("doctor", code=2)["checks"]

        (problem,) = [check for check in checks if not check["ok"]]
        assert problem["name"] == name
        assert variable in problem["detail"]

    def test_a_password_is_not_shown(self, cli, environment):
        environment(DATABASE__URL="postgresql://shop:hunter2@127.0.0.1:1/shop")

        result = cli("doctor", "--json", code=2)

        assert "hunter2" not in result.output
        assert "shop:***@127.0.0.1" in json.loads(result.stdout)["checks"][1]["detail"]

    def test_an_address_it_does_not_know_is_a_finding(self, cli, environment):
        environment(DATABASE__URL="mysql://u:hunter2@h/d")

        result = cli("doctor", code=2)

        assert "PROBLEM  database" in result.stdout
        assert "hunter2" not in result.output


def test_the_demo_profile_fixes_the_day_and_believes_names(monkeypatch: pytest.MonkeyPatch):
    from support_agent.resources import resource_dir  # noqa: PLC0415 - for this only
    from support_agent.settings import load_settings  # noqa: PLC0415

    monkeypatch.setenv("SUPPORT_AGENT_PROFILE", "demo")
    monkeypatch.setenv("SUPPORT_AGENT_SECURITY__KEYS", KEYS)
    settings = load_settings(folder=resource_dir())

    assert settings.clock.now.isoformat() == "2026-10-13T02:00:00+00:00"
    assert settings.approvals.proof == "asserted"


def test_a_seed_beside_an_older_policy_says_how_to_get_the_newer_one(cli, tmp_path, environment):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    make_old_database(url)
    asyncio.run(bring_up(url))
    environment(DATABASE__URL=url)

    seeded = cli.json("db", "seed")
    assert (seeded["policy_activated"], seeded["policy_kept"]) == (False, 1)
    said = cli("db", "seed").stdout
    assert "version 1 of it is in force, the file is newer" in said
    assert "policies activate data/policies/standard.yaml" in said

    standard = str(resource_dir() / "data" / "policies" / "standard.yaml")
    cli.json("policies", "activate", standard, "--as", "huong")
    assert cli.json("policies", "activate", standard, "--as", "tuan")["activated"] is True
    assert cli.json("db", "seed")["policy_kept"] is None

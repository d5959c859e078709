"""The documents of operation are true: names exist, commands parse, time-outs fit, nobody is root."""

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from dotenv import dotenv_values

from support_agent.cli.app import app
from support_agent.cli.exits import ExitCode
from support_agent.settings import Settings, known_names

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES = sorted(DEPLOY.glob("*.service"))
ENV_FILES = sorted(DEPLOY.glob("*.env.example"))
OURS = {name: service for name, service in COMPOSE["services"].items() if name != "db"}
SHARED_NAMES = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}


def accepts(words: list[str]) -> None:
    """Parse as the program would, without doing anything; a usage error fails."""
    command: Any = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        context = command.make_context(words[0], [], parent=context, resilient_parsing=True)
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, words, parent=context)


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


def env_of(name: str) -> dict[str, str | None]:
    return dotenv_values(DEPLOY / f"{name}.example", interpolate=False)


def seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)s?", text)
    assert found, text
    return int(found[1])


class TestEnvironment:
    @pytest.mark.parametrize("path", ENV_FILES, ids=lambda path: path.name)
    def test_every_name_is_a_setting(self, path):
        known = known_names() | SHARED_NAMES
        if path.name == "db.env.example":
            sql = (DEPLOY / "roles.sql").read_text(encoding="utf-8")
            known = {*re.findall(r"\\getenv \w+ (\w+)", sql), "POSTGRES_DB", "POSTGRES_PASSWORD"}
        names = set(dotenv_values(path, interpolate=False))

        assert names
        assert names <= known

    def test_every_name_in_the_operations_page_is_a_setting(self):
        sections = {name.removeprefix("SUPPORT_AGENT_") for name in known_names()}
        for name in re.findall(r"\b(?:SUPPORT_AGENT_)?([A-Z]+__[A-Z_]+[A-Z])\b", OPERATIONS):
            assert name in sections

    @pytest.mark.parametrize("name", ["app.env", "support-agent.env"])
    def test_values_fit_once_the_secrets_are_filled_in(self, name, monkeypatch, tmp_path):
        values = {key: value or "" for key, value in env_of(name).items()}
        values["SUPPORT_AGENT_SECURITY__KEYS"] = f"k1:{'5e' * 32}"
        monkeypatch.chdir(tmp_path)
        for key, value in values.items():
            monkeypatch.setenv(key, value)

        settings = Settings(_env_file=None)

        assert settings.profile == "prod"
        assert settings.database.migrate_url is None
        needs_key = settings.payouts.run == "here"
        assert (settings.payments.stripe_key is not None) == needs_key

    def test_each_secret_is_where_it_is_needed_and_nowhere_else(self):
        """The gateway's key with who pays, the owner's password with who upgrades."""
        files = {name: set(service["env_file"]) for name, service in OURS.items()}
        assert {name for name, used in files.items() if "payer.env" in used} == {"payer"}
        assert {name for name, used in files.items() if "migrate.env" in used} == {"migrate"}
        assert all("app.env" in used for used in files.values())
        assert set(env_of("payer.env")) == {"SUPPORT_AGENT_PAYMENTS__STRIPE_KEY"}
        assert set(env_of("migrate.env")) == {"SUPPORT_AGENT_DATABASE__MIGRATE_URL"}
        assert not {*env_of("payer.env"), *env_of("migrate.env")} & set(env_of("app.env"))

    def test_filled_in_copies_are_not_kept_with_the_code(self):
        ignored = (DEPLOY / ".gitignore").read_text(encoding="utf-8").split()
        assert "*.env" in ignored
        for path in ENV_FILES:
            assert "change" in path.read_text(encoding="utf-8"), "a real secret?"


class TestCompose:
    def test_it_names_only_files_that_are_here(self):
        for service in COMPOSE["services"].values():
            for name in service["env_file"]:
                assert (DEPLOY / f"{name}.example").is_file()
            for mounted in service.get("volumes", ()):
                source = mounted.split(":")[0]
                assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file()
        dockerfile = OURS["worker"]["build"]
        assert (DEPLOY / dockerfile["context"]).resolve() == ROOT
        assert (ROOT / dockerfile["dockerfile"]).is_file()

    def test_it_names_no_path_of_a_machine_and_no_registry(self):
        for service in COMPOSE["services"].values():
            assert "/" not in service["image"]
            for mounted in service.get("volumes", ()):
                assert not mounted.startswith(("/", "~"))

    @pytest.mark.parametrize("name", OURS)
    def test_every_command_is_one_of_ours(self, name):
        service = OURS[name]
        accepts(service["command"])
        if "healthcheck" in service:
            run, program, *words = service["healthcheck"]["test"]
            assert (run, program) == ("CMD", "support-agent")
            accepts(words)

    @pytest.mark.parametrize("name", OURS)
    def test_nobody_is_root_and_nothing_is_written_into_the_image(self, name):
        service = OURS[name]
        assert int(service["user"].split(":")[0]) > 0
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        dockerfile = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
        assert f"USER {service['user']}" in dockerfile

    def test_a_stopping_worker_has_more_time_than_it_gives_its_turns(self):
        shutdown = float(env_of("app.env")["SUPPORT_AGENT_QUEUE__SHUTDOWN_SECONDS"] or 0)
        for name in ("api", "worker", "payer"):
            assert seconds(OURS[name]["stop_grace_period"]) > shutdown
            assert OURS[name]["stop_signal"] == "SIGTERM"

    def test_workers_start_after_the_upgrade(self):
        for name in ("api", "worker", "payer"):
            waits = OURS[name]["depends_on"]
            assert waits["migrate"] == {"condition": "service_completed_successfully"}
        assert OURS["migrate"]["command"] == ["db", "upgrade"]
        assert OURS["migrate"]["restart"] == "no"

    def test_only_the_payer_pays(self):
        assert "--without-payouts" in OURS["worker"]["command"]
        assert "--without-payouts" not in OURS["payer"]["command"]
        assert env_of("app.env")["SUPPORT_AGENT_PAYOUTS__RUN"] == "worker"

    def test_the_addresses_are_two_roles_of_the_one_database_there(self):
        from support_agent.adapters.db.grants import check_roles  # noqa: PLC0415 - for this only

        owner = env_of("migrate.env")["SUPPORT_AGENT_DATABASE__MIGRATE_URL"] or ""
        worker = env_of("app.env")["SUPPORT_AGENT_DATABASE__URL"] or ""
        sql = (DEPLOY / "roles.sql").read_text(encoding="utf-8")
        assert f"CREATE ROLE {check_roles(owner, worker)} LOGIN" in sql
        database = env_of("db.env")["POSTGRES_DB"]
        assert worker.endswith(f"@db/{database}")
        passwords = env_of("db.env")
        assert f":{passwords['WORKER_PASSWORD']}@" in worker
        assert f":{passwords['OWNER_PASSWORD']}@" in owner


class TestUnits:
    @pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
    def test_its_command_is_one_of_ours_and_its_user_is_not_root(self, path):
        service = unit(path)["Service"]
        program, *words = shlex.split(service["ExecStart"])

        assert Path(program).name == "support-agent"
        accepts(words)
        assert service["User"] not in {"", "root", "0"}
        assert service["NoNewPrivileges"] == "yes"
        assert service["ProtectSystem"] == "strict"

    @pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
    def test_it_has_more_time_to_stop_than_it_gives_its_turns(self, path):
        shutdown = float(env_of("support-agent.env")["SUPPORT_AGENT_QUEUE__SHUTDOWN_SECONDS"] or 0)
        stop = seconds(unit(path)["Service"]["TimeoutStopSec"])
        assert stop > shutdown
        assert stop > Settings(_env_file=None).queue.shutdown_seconds

    @pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
    def test_its_database_is_in_its_own_folder(self, path):
        service = unit(path)["Service"]
        folder = f"/var/lib/{service['StateDirectory']}"
        assert service["WorkingDirectory"] == folder
        url = env_of("support-agent.env")["SUPPORT_AGENT_DATABASE__URL"] or ""
        assert url.startswith(f"sqlite:///{folder}/")
        assert service["EnvironmentFile"].endswith("/support-agent.env")

    def test_told_to_stop_a_tick_lets_go_of_what_it_has(self):
        """Only a worker listens to SIGTERM; any other command is ended by it where it is."""
        service = unit(DEPLOY / "support-agent-tick.service")["Service"]
        assert service["KillSignal"] == "SIGINT"
        assert int(service["SuccessExitStatus"]) == ExitCode.INTERRUPTED

    def test_the_timer_starts_the_service_of_its_name(self):
        [timer] = DEPLOY.glob("*.timer")
        assert timer.with_suffix(".service") in SERVICES
        assert "OnUnitInactiveSec" in unit(timer)["Timer"]


def commands_of_the_page() -> list[str]:
    """Each `support-agent …` in a block or between backticks."""
    blocks = re.findall(r"```sh\n(.*?)```", OPERATIONS, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(support-agent [^`]+)`", OPERATIONS)
    found = [line[line.index("support-agent ") :] for line in lines if "support-agent " in line]
    return sorted(set(found))


@pytest.mark.parametrize("line", commands_of_the_page())
def test_every_command_of_the_operations_page_is_one_of_ours(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepts(shlex.split(line)[1:])


def test_the_files_the_operations_page_names_are_there():
    for name in re.findall(r"`([a-z.-]+\.(?:service|timer|yaml|sql|env\.example))`", OPERATIONS):
        assert (DEPLOY / name).is_file(), name
    assert (ROOT / "support_agent" / "adapters/db/grants.py").is_file()


def test_the_limits_on_the_operations_page_are_those_of_the_doctor():
    from support_agent.cli import condition  # noqa: PLC0415 - for this only

    table = dict(re.findall(r"^\| `([a-z ]+)`[^|]*\| (.*) \|$", OPERATIONS, re.MULTILINE))
    told = {name: [*map(float, re.findall(r"\d+", cells))] for name, cells in table.items()}
    minute, hour = 60, 3600

    assert told["unread"] == [condition.UNREAD.warns / minute, condition.UNREAD.fails / minute]
    assert told["orphaned"] == [condition.ORPHANED.fails / minute]
    assert told["outbox"] == [
        condition.UNDELIVERED.warns / minute,
        condition.UNDELIVERED.fails / hour,
    ]
    assert told["jobs"] == [condition.STALLED.warns, condition.STALLED.fails]
    assert told["clock skew"] == [condition.SKEW.warns, condition.SKEW.fails]

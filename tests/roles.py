"""A PostgreSQL database whose tables one role owns, and where another one works."""

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import sqlalchemy as sa
import structlog
from sqlalchemy import event
from sqlalchemy.engine import make_url
from typer.testing import CliRunner, Result

from support_agent.cli.app import app
from support_agent.testing.postgres import drop_database, fresh_database
from tests.kit import KEYS

PREFIX = "SUPPORT_AGENT_"
PASSWORD = "synthetic"  # noqa: S105 - of a role that lives as long as a test


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Addresses of one database by who may do what."""

    superuser: str
    owner: str
    worker: str

    @property
    def worker_name(self) -> str:
        return str(make_url(self.worker).username)

    @property
    def owner_name(self) -> str:
        return str(make_url(self.owner).username)

    def as_superuser(self, *statements: str) -> None:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@contextmanager
def two_roles(server: str) -> Iterator[Roles]:
    """An empty database and its two roles; all of it is gone at the end."""
    url = fresh_database(server)
    mark = secrets.token_hex(4)
    owner, worker = f"owner_{mark}", f"worker_{mark}"
    address = make_url(url)
    owned = address.set(username=owner, password=PASSWORD).render_as_string(hide_password=False)
    worked = address.set(username=worker, password=PASSWORD).render_as_string(hide_password=False)
    roles = Roles(superuser=url, owner=owned, worker=worked)
    roles.as_superuser(
        f"CREATE ROLE {owner} LOGIN PASSWORD '{PASSWORD}'",
        f"CREATE ROLE {worker} LOGIN PASSWORD '{PASSWORD}'",
        f'ALTER DATABASE "{address.database}" OWNER TO {owner}',
    )
    try:
        yield roles
    finally:
        drop_database(url)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP ROLE {owner}".encode())
            connection.execute(f"DROP ROLE {worker}".encode())


@contextmanager
def copied(roles: Roles) -> Iterator[Roles]:
    """The same roles on a copy of their database, which nobody may have open meanwhile."""
    url = fresh_database(roles.superuser, template=roles.superuser)
    name = make_url(url).database

    def there(address: str) -> str:
        return make_url(address).set(database=name).render_as_string(hide_password=False)

    copy = Roles(superuser=url, owner=there(roles.owner), worker=there(roles.worker))
    copy.as_superuser(f'ALTER DATABASE "{name}" OWNER TO {roles.owner_name}')
    try:
        yield copy
    finally:
        drop_database(url)


@dataclass
class Installed:
    """A shop as an operator sets it up: upgraded and seeded by its owner, run by a worker."""

    roles: Roles
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, code: int = 0, **settings: str) -> Result:
        env = self.env | {f"{PREFIX}{name}": value for name, value in settings.items()}
        result = CliRunner().invoke(app, list(words), env=env, catch_exceptions=False)
        structlog.reset_defaults()  # it set logging up for a stderr that is closed now
        assert result.exit_code == code, (words, result.exit_code, result.stdout, result.stderr)
        return result

    def json(self, *words: str, code: int = 0, **settings: str) -> Any:
        return json.loads(self(*words, "--json", code=code, **settings).stdout)

    def error(self, *words: str, code: int = 2, **settings: str) -> Any:
        told = self(*words, "--json", code=code, **settings).stderr
        return json.loads(told.splitlines()[-1])["error"]

    def set_up(self) -> None:
        assert self.upgrade()["granted_to"] == self.roles.worker_name
        self("db", "seed", DATABASE__MIGRATE_URL=self.roles.owner)

    def upgrade(self, **settings: str) -> Any:
        return self.json("db", "upgrade", DATABASE__MIGRATE_URL=self.roles.owner, **settings)


def installed(roles: Roles) -> Installed:
    settings = {
        "DATABASE__URL": roles.worker,
        "SECURITY__KEYS": KEYS,
        "CLOCK__NOW": "2026-10-13",
        "APPROVALS__PROOF": "asserted",
    }
    return Installed(roles, {f"{PREFIX}{name}": value for name, value in settings.items()})


@contextmanager
def refusals() -> Iterator[list[str]]:
    """What the server refused for want of a right, also where the program went on without it."""
    seen: list[str] = []

    def note(context: Any) -> None:
        if getattr(context.original_exception, "sqlstate", None) == "42501":
            seen.append(f"{context.original_exception}: {context.statement}")

    event.listen(sa.Engine, "handle_error", note)
    try:
        yield seen
    finally:
        event.remove(sa.Engine, "handle_error", note)

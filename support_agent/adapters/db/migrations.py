"""`db upgrade`: bring a database to our schema and stamp it; only this makes a SQLite file.

Alembic is imported inside the functions: commands that only work must not pay for it.
"""

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, OperationalError

from support_agent.adapters.db.engines import postgres_engine, sqlite_engine
from support_agent.adapters.db.faults import SETTING, parse, understood
from support_agent.adapters.db.schema import (
    KNOWN_REVISIONS,
    broken_references,
    check_revision,
    current_revision,
)
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.people import InstallationRow
from support_agent.adapters.db.tables.trail import AuditHeadRow
from support_agent.domain.errors import ConfigurationError
from support_agent.resources import resource_dir

if TYPE_CHECKING:
    from alembic.config import Config

installation = table_of(InstallationRow)
audit_head = table_of(AuditHeadRow)

# Upgrades wait for one another this long; the longest one so far takes a second.
PATIENCE_S = 60.0
_ADVISORY_LOCK = 4_707_260_001  # any number, the same in every process


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeResult:
    """What an upgrade found and left; equal revisions mean that there was nothing to do."""

    from_revision: str | None
    to_revision: str
    kind: str  # demo or live, as stamped at the first upgrade
    signed: bool  # something in it was signed already, so its keys must not be lost


def upgrade(url: str, *, live: bool) -> UpgradeResult:
    """Bring the database to our schema; the first time, stamp it as `live` or as demo.

    All or nothing, and any number of processes may try at once.

    Raises:
        ConfigurationError: a bad address, a path that cannot be written, a database newer than
            this program, or `live` for one that was stamped demo: that never changes.
        DatabaseUnavailable: locked for longer than PATIENCE_S, or no server.
    """
    from alembic import command

    with exclusive(url, create=True) as connection:
        before = current_revision(connection)
        if before is not None and before not in KNOWN_REVISIONS:
            check_revision(connection)  # says that this program is the older one
        command.upgrade(_config(connection), "head")
        _stamp(connection, live=live)
        _check_references(connection)
        kind = connection.execute(sa.select(installation.c.kind)).scalar_one()
        if live and kind != "live":
            raise ConfigurationError(
                "this database was stamped as a demo and never becomes live; name a fresh one",
                setting=SETTING,
            )
        after = current_revision(connection) or ""
        signed = connection.execute(sa.select(audit_head.c.seq)).scalar_one() > 0
    return UpgradeResult(from_revision=before, to_revision=after, kind=kind, signed=signed)


def downgrade(url: str, revision: str) -> None:
    """Take the schema back to `revision`, `base` for none of it. Rows of what goes are lost."""
    from alembic import command

    with exclusive(url) as connection:
        command.downgrade(_config(connection), revision)
        _check_references(connection)


@contextlib.contextmanager
def exclusive(url: str, *, create: bool = False) -> Iterator[sa.Connection]:
    """One transaction that no other upgrade runs beside, foreign keys off on SQLite."""
    address = parse(url)
    on_file = address.get_backend_name() == "sqlite"
    try:
        engine = _sqlite(address, create=create) if on_file else _postgres(address)
        try:
            with _connect(engine) as connection, connection.begin():
                yield connection
        finally:
            engine.dispose()
    except DBAPIError as error:
        meaning = understood(error, address, reading=False, making=create)
        if meaning is error:
            raise
        raise meaning from error


def _sqlite(address: URL, *, create: bool) -> sa.Engine:
    if create:
        _make_folder(Path(address.database or ""))
    return sqlite_engine(
        address,
        begin="BEGIN IMMEDIATE",
        busy_timeout_s=PATIENCE_S,
        pragmas=("journal_mode=WAL", "foreign_keys=OFF"),  # the mode stays with the file
        create=create,
    )


def _make_folder(path: Path) -> None:
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"the folder of {str(path)!r} cannot be made ({error.strerror}); name another path",
            setting=SETTING,
        ) from error


def _connect(engine: sa.Engine) -> sa.Connection:
    """SQLite waits for a lock by itself, but not where it would change the journal's mode."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return engine.connect()
        except OperationalError as error:
            if not _busy(error.orig) or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def _busy(cause: BaseException | None) -> bool:
    return isinstance(cause, sqlite3.Error) and cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _postgres(address: URL) -> sa.Engine:
    engine = postgres_engine(address, busy_timeout_s=PATIENCE_S, size=1)

    @sa.event.listens_for(engine, "begin")
    def _alone(connection: sa.Connection) -> None:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))

    return engine


def _config(connection: sa.Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resource_dir() / "alembic").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _stamp(connection: sa.Connection, *, live: bool) -> None:
    if connection.execute(sa.select(installation.c.id)).first() is None:
        connection.execute(
            sa.insert(installation),
            {
                "id": 1,
                "installation_id": f"inst_{uuid.uuid4().hex}",
                "kind": "live" if live else "demo",
                "created_at": datetime.now(UTC),
            },
        )


def _check_references(connection: sa.Connection) -> None:
    """Foreign keys were off: nothing may point nowhere now."""
    tables = broken_references(connection)
    if tables:
        raise ConfigurationError(
            f"rows of {list(tables)} point to rows that are gone; restore a backup", setting=SETTING
        )

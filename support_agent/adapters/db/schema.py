"""Which schema this program works with, and whether a database has it."""

from collections.abc import Sequence

import sqlalchemy as sa

from support_agent.adapters.db.faults import SETTING, UPGRADE
from support_agent.domain.errors import ConfigurationError

SCHEMA_REVISION = "0005"

# Oldest first; a test compares it with the folder of migrations, which this file must not import.
KNOWN_REVISIONS = ("0001", "0002", "0003", "0004", SCHEMA_REVISION)

_VERSIONS = sa.table("alembic_version", sa.column("version_num", sa.Text))


def current_revision(connection: sa.Connection) -> str | None:
    """The revision the database is at; None when it was never upgraded."""
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        return None
    found: str | None = connection.execute(sa.select(_VERSIONS.c.version_num)).scalar()
    return found


def check_revision(connection: sa.Connection, known: Sequence[str] = KNOWN_REVISIONS) -> None:
    """Pass when the database has exactly our schema, the last of the `known` ones.

    Raises:
        ConfigurationError: it is empty, older or newer; the message says what to do.
    """
    found, ours = current_revision(connection), known[-1]
    if found == ours:
        return
    if found is None:
        raise ConfigurationError(f"the database has no tables yet; {UPGRADE}", setting=SETTING)
    if found in known:
        raise ConfigurationError(
            f"the database is at schema {found}, this program needs {ours}; {UPGRADE}",
            setting=SETTING,
        )
    raise ConfigurationError(
        f"this program (schema {ours}) is older than the database (schema {found}); "
        "install the version of support-agent that upgraded it, or a newer one",
        setting=SETTING,
    )


def broken_references(connection: sa.Connection) -> tuple[str, ...]:
    """Tables with rows that point nowhere; SQLite only, PostgreSQL lets none in."""
    if connection.dialect.name != "sqlite":
        return ()
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return tuple(sorted({str(row[0]) for row in broken}))

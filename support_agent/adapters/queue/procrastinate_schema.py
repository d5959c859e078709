"""The tables of procrastinate: made and brought up to date by `db upgrade`, checked by the rest.

Procrastinate keeps no account of which of its migrations were run, so `queue_schema` does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.faults import UPGRADE
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.prepared import told
from support_agent.adapters.db.statements import table_of
from support_agent.adapters.db.tables.queue import QueueSchemaRow
from support_agent.adapters.queue.procrastinate import SETTING, need_procrastinate
from support_agent.domain.errors import ConfigurationError

queue_schema = table_of(QueueSchemaRow)
NAME = "procrastinate"
_A_TABLE = "procrastinate_jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUpgrade:
    """The newest migration that had been run, and that is now; equal: nothing was to be done."""

    from_step: str | None
    to_step: str


def known_steps() -> tuple[str, ...]:
    """The migrations of the installed procrastinate, oldest first."""
    from procrastinate.schema import SchemaManager

    return tuple(
        sorted(path.stem for path in Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    )


def upgrade_queue(database_url: str) -> QueueUpgrade:
    """Bring the queue's tables to the installed procrastinate, one transaction a migration.

    A migration may use what an earlier one added to an enum, which PostgreSQL allows only after a
    commit. Cut off in between, the next call goes on.

    Raises:
        ConfigurationError: no PostgreSQL, the extra is missing, the tables are newer than it, or
            somebody else made them.
        DatabaseUnavailable: no server.
    """
    need_procrastinate(database_url)
    steps = known_steps()
    with exclusive(database_url) as connection:
        before = _install(connection, steps)
    now = before
    while now != steps[-1]:
        with exclusive(database_url) as connection:
            now = _go_on(connection, steps)
    return QueueUpgrade(from_step=before, to_step=steps[-1])


def check_queue(connection: sa.Connection) -> None:
    """Pass when the queue has the tables that the installed procrastinate works with.

    Raises:
        ConfigurationError: missing, older or newer; the message says what to do.
    """
    steps, found = known_steps(), _recorded(connection)
    if found == steps[-1]:
        return
    if found is None:
        raise ConfigurationError(f"its queue has no tables yet; {UPGRADE}", setting=SETTING)
    _check_known(found, steps)
    raise ConfigurationError(
        f"its queue is at {found}, the installed procrastinate needs {steps[-1]}; {UPGRADE}",
        setting=SETTING,
    )


def _check_known(found: str, steps: tuple[str, ...]) -> None:
    if found not in steps:
        raise ConfigurationError(
            f"the installed procrastinate (up to {steps[-1]}) is older than its queue ({found}); "
            "install the one that upgraded it, or a newer one",
            setting=SETTING,
        )


def _install(connection: sa.Connection, steps: tuple[str, ...]) -> str | None:
    """Make the tables if there are none; what was there before."""
    from procrastinate.schema import SchemaManager

    found = _recorded(connection)
    if found is not None:
        _check_known(found, steps)
        return found
    if sa.inspect(connection).has_table(_A_TABLE):
        raise ConfigurationError(
            f"there is a {_A_TABLE} that db upgrade did not make, so nobody knows its version; "
            "drop procrastinate's tables, types and functions, or use a database without them",
            setting=SETTING,
        )
    _run(connection, SchemaManager.get_schema())
    connection.execute(sa.insert(queue_schema), {"queue": NAME, "step": steps[-1]})
    return None


def _go_on(connection: sa.Connection, steps: tuple[str, ...]) -> str:
    """Run the migration after the newest that was run; another process may have, meanwhile."""
    from procrastinate.schema import SchemaManager

    found = _recorded(connection) or ""
    if found == steps[-1]:
        return found
    step = steps[steps.index(found) + 1]
    path = Path(SchemaManager.get_migrations_path()) / f"{step}.sql"
    _run(connection, path.read_text(encoding="utf-8"))
    connection.execute(
        sa.update(queue_schema).where(queue_schema.c.queue == NAME).values(step=step)
    )
    return step


def _recorded(connection: sa.Connection) -> str | None:
    found: str | None = connection.execute(
        sa.select(queue_schema.c.step).where(queue_schema.c.queue == NAME)
    ).scalar()
    return found


def _run(connection: sa.Connection, script: str) -> None:
    """Many statements at once, which only the driver itself takes, and only without parameters."""
    driver: Any = connection.connection.driver_connection
    try:
        driver.execute(script)
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(connection, "", None, error) from error

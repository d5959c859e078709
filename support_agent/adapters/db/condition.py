"""What a database tells of its own condition: who may do what in it, its files, its version."""

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres
from support_agent.adapters.db.faults import parse
from support_agent.adapters.db.grants import ALL, COLUMNS, RIGHTS, queue_tables
from support_agent.adapters.db.triggers import APPEND_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What the role of this connection may do beyond what the program needs, and what it lacks."""

    role: str
    is_superuser: bool
    owns: tuple[str, ...]
    too_much: tuple[str, ...]  # "UPDATE audit_events"
    missing: tuple[str, ...]
    may_create: bool

    @property
    def is_bound(self) -> bool:
        """Whether the tables that tell what happened are safe from this role."""
        return not (self.is_superuser or self.owns or self.too_much or self.may_create)


def held_rights(connection: sa.Connection) -> Held | None:
    """None on SQLite, where who can open the file can do anything."""
    if not is_postgres(connection):
        return None
    role, is_superuser = connection.execute(
        sa.text("SELECT rolname, rolsuper FROM pg_roles WHERE rolname = current_user")
    ).one()
    owned = connection.execute(
        sa.text(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() "
            "AND pg_has_role(tableowner, 'USAGE') ORDER BY 1"
        )
    )
    return Held(
        role=role,
        is_superuser=is_superuser,
        owns=tuple(owned.scalars()),
        too_much=_too_much(connection),
        missing=_missing(connection),
        may_create=connection.execute(
            sa.text("SELECT has_schema_privilege(current_schema(), 'CREATE')")
        ).scalar_one(),
    )


def _too_much(connection: sa.Connection) -> tuple[str, ...]:
    """Changes of append-only tables that nothing but their triggers would refuse."""
    found = []
    for table in APPEND_ONLY:
        erasable = COLUMNS.get(table, ())
        changed = connection.execute(
            sa.text(
                "SELECT has_table_privilege(:table, 'UPDATE') OR bool_or("
                "has_column_privilege(:table, column_name, 'UPDATE') "
                "AND column_name <> ALL(:erasable)) FROM information_schema.columns "
                "WHERE table_schema = current_schema() AND table_name = :table"
            ),
            {"table": table, "erasable": list(erasable)},
        ).scalar()
        if changed:
            found.append(f"UPDATE {table}")
        found += [
            f"{right} {table}" for right in ("DELETE", "TRUNCATE") if _has(connection, table, right)
        ]
    return tuple(found)


def _missing(connection: sa.Connection) -> tuple[str, ...]:
    needed = dict(RIGHTS) | dict.fromkeys(queue_tables(connection), ALL)
    return tuple(
        f"{right} {table}"
        for table, rights in needed.items()
        for right in rights
        if not _has(connection, table, right)
    )


def _has(connection: sa.Connection, table: str, right: str) -> bool:
    """Asked of the catalogue, so that a table that is not there is none that may be changed."""
    return bool(
        connection.execute(
            sa.text("SELECT has_table_privilege(to_regclass(:table), :right)"),
            {"table": table, "right": right},
        ).scalar()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a SQLite database and the room around them; sizes in bytes."""

    database: int
    wal: int
    free: int
    problem: str | None  # what a quick check found


def files(connection: sa.Connection, url: str) -> Files | None:
    """None for a server, whose disk is elsewhere."""
    if is_postgres(connection):
        return None
    path = Path(parse(url).database or "")
    return Files(
        database=path.stat().st_size,
        wal=_size(Path(f"{path}-wal")),
        free=shutil.disk_usage(path.absolute().parent).free,
        problem=_quick_check(connection),
    )


def _quick_check(connection: sa.Connection) -> str | None:
    try:
        found = list(connection.exec_driver_sql("PRAGMA quick_check(3)").scalars())
    except sa.exc.DatabaseError as error:
        return str(error.orig)
    return None if found == ["ok"] else "; ".join(found)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def server_version(connection: sa.Connection) -> tuple[str, int]:
    """The name and version of what keeps the data, and its number in full to compare."""
    if not is_postgres(connection):
        major, minor, patch = sqlite3.sqlite_version_info
        return f"SQLite {sqlite3.sqlite_version}", major * 10_000 + minor * 100 + patch
    words = connection.execute(sa.text("SHOW server_version")).scalar_one()
    number = connection.execute(sa.text("SHOW server_version_num")).scalar_one()
    return f"PostgreSQL {words}", int(number)

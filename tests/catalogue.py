"""What guards the rows of a database, and the rows, as the database itself tells them."""

from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive

Rows = dict[str, list[tuple[Any, ...]]]


def catalogue(url: str) -> dict[str, str]:
    """Every constraint, index, trigger and function by its name."""
    with exclusive(url) as connection:
        found = _sqlite(connection) if url.startswith("sqlite") else _postgres(connection)
    return {name: text for name, text in found.items() if "alembic_version" not in name}


def _postgres(connection: sa.Connection) -> dict[str, str]:
    return dict(
        connection.exec_driver_sql(
            """
            SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace
            UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
            UNION ALL SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
                WHERE NOT tgisinternal
            UNION ALL SELECT proname, prosrc FROM pg_proc
                WHERE pronamespace = 'public'::regnamespace
            """
        ).all()
    )


def _sqlite(connection: sa.Connection) -> dict[str, str]:
    found = {}
    inspector = sa.inspect(connection)
    for table in inspector.get_table_names():
        for kind, listed in (
            ("check", inspector.get_check_constraints(table)),
            ("unique", inspector.get_unique_constraints(table)),
            ("foreign key", inspector.get_foreign_keys(table)),
            ("key", [inspector.get_pk_constraint(table)]),
        ):
            for constraint in listed:
                found[f"{table} {kind} {constraint['name']}"] = str(constraint)
    made = "SELECT type || ' ' || name, sql FROM sqlite_master WHERE type IN ('index', 'trigger')"
    for name, sql in connection.exec_driver_sql(made):
        found[name] = " ".join(str(sql).split())
    return found


def reflected(connection: sa.Connection) -> sa.MetaData:
    """The tables as they are, whatever the program thinks of them."""
    found = sa.MetaData()
    found.reflect(connection)
    return found


def rows_of(url: str, like: Rows | None = None) -> Rows:
    """Every row of every table; the columns of `like` only, which was told by an older schema.

    The first row of a table is its columns.
    """
    with exclusive(url) as connection:
        tables = reflected(connection).tables
        return {
            name: _told(connection, table, like[name][0] if like else table.columns.keys())
            for name, table in tables.items()
            if name != "alembic_version" and (like is None or name in like)
        }


def _told(
    connection: sa.Connection, table: sa.Table, columns: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    wanted = sa.select(*(table.c[name] for name in columns)).order_by(*table.primary_key)
    return [tuple(columns), *(tuple(row) for row in connection.execute(wanted))]

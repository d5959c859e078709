"""What the role that runs the program may do on PostgreSQL, where another one owns the tables."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import sqlalchemy as sa
from sqlalchemy.engine import URL

from support_agent.adapters.db.faults import SETTING, parse
from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.triggers import ERASABLE
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable

OWNER_SETTING = "SUPPORT_AGENT_DATABASE__MIGRATE_URL"
_PORT = 5432

_READ = ("SELECT",)
_APPEND = (*_READ, "INSERT")
_CHANGE = (*_APPEND, "UPDATE")
ALL = (*_CHANGE, "DELETE")
_BY_RIGHTS: Mapping[tuple[str, ...], tuple[str, ...]] = MappingProxyType(
    {
        # The shop's own and what only an upgrade writes; `db seed` works as the owner.
        _READ: (
            *("alembic_version", "installation", "queue_schema"),
            *("shop_customers", "shop_orders", "shop_order_lines", "shop_payments"),
        ),
        _APPEND: (
            *("audit_events", "ledger_entries", "refund_decisions", "ledger_payouts"),
            *("policies", "policy_activations", "payout_destinations"),
        ),
        _CHANGE: (
            *("conversations", "messages", "runs", "steps", "tool_calls"),
            *("quotes", "refund_requests", "refund_attempts"),
            *("order_balances", "line_balances", "payment_balances", "cap_counters"),
            *("audit_entries", "audit_nodes", "audit_head"),
            *("approvers", "switches", "tasks"),
            "api_keys",
        ),
        # Kept for a time only, or until somebody takes it out.
        ALL: (
            *("preferences", "outbox", "provider_events", "usage_counters", "compactions"),
            *("idempotency_keys", "webhook_endpoints", "webhook_deliveries"),
        ),
    }
)
RIGHTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {table: rights for rights, tables in _BY_RIGHTS.items() for table in tables}
)
# Single columns that may be updated where the table may not. To lock a row, as the ledger gateway
# does with a payment's, PostgreSQL asks for the right to update some column of it.
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "shop_payments": ("position",),
        **{table: erasable.personal for table, erasable in ERASABLE.items()},
    }
)
# The queue's tables belong to procrastinate, and its functions work with the caller's rights.
_OF_QUEUE = sa.text(
    "SELECT tablename FROM pg_tables "
    "WHERE schemaname = current_schema() AND tablename LIKE 'procrastinate\\_%'"
)


def check_roles(owner_url: str, url: str) -> str:
    """The role that runs the program; asks no server.

    Raises:
        ConfigurationError: the two addresses are not two roles of one PostgreSQL database.
    """
    with _as_owner():
        owner = parse(owner_url)
    user = parse(url)
    if "sqlite" in {owner.get_backend_name(), user.get_backend_name()}:
        problem = "is for PostgreSQL, whose tables a role of their own may own; unset it"
        raise ConfigurationError(problem, setting=OWNER_SETTING)
    if _place(owner) != _place(user):
        raise ConfigurationError(
            f"names another server or database than {SETTING}; it is to be the same one, "
            "only by another role",
            setting=OWNER_SETTING,
        )
    if user.username is None:
        raise ConfigurationError(
            "must name the role the program works as: postgresql://ROLE@host/database",
            setting=SETTING,
        )
    if user.username == owner.username:
        raise ConfigurationError(
            f"is the role {user.username!r} as in {SETTING}; name the role that is to own the "
            "tables, or unset it",
            setting=OWNER_SETTING,
        )
    return user.username


def _place(url: URL) -> tuple[object, ...]:
    return url.host or url.query.get("host"), url.port or _PORT, url.database


@contextmanager
def owned(url: str) -> Iterator[sa.Connection]:
    """A transaction of the owner's, beside no upgrade; errors name the owner's setting."""
    with _as_owner(), exclusive(url) as connection:
        yield connection


@contextmanager
def _as_owner() -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        if error.setting != SETTING:
            raise
        problem = str(error).removeprefix(f"{SETTING}: ")
        raise ConfigurationError(problem, setting=OWNER_SETTING) from error
    except DatabaseUnavailable as error:
        raise DatabaseUnavailable(str(error).replace(SETTING, OWNER_SETTING)) from error


def check_role(connection: sa.Connection, role: str) -> None:
    """Pass when rights can bind the role at all; as the owner, before anything is changed.

    Raises:
        ConfigurationError: there is none, or it is above rights; says what to run.
    """
    owner, name = connection.execute(sa.text("SELECT current_user")).scalar_one(), _quoted(role)
    found = connection.execute(
        sa.text("SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = :role"),
        {"role": role},
    ).one_or_none()
    if found is None:
        raise _refused(f"there is no role {role!r}", f"CREATE ROLE {name} LOGIN PASSWORD '…'")
    if found.rolsuper or found.rolcreaterole:
        raise _refused(
            f"the role {role!r} may give itself any right",
            f"ALTER ROLE {name} NOSUPERUSER NOCREATEROLE",
        )
    if connection.execute(
        sa.text("SELECT pg_has_role(:role, current_user, 'MEMBER')"), {"role": role}
    ).scalar_one():
        raise _refused(
            f"the role {role!r} is a member of {owner!r}, which owns the tables",
            f"REVOKE {_quoted(owner)} FROM {name}",
        )
    if connection.execute(
        sa.text(
            "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tableowner = :role"
        ),
        {"role": role},
    ).first():
        raise _refused(
            f"the role {role!r} owns tables here, and an owner has every right",
            f"REASSIGN OWNED BY {name} TO {_quoted(owner)}",
        )


def grant(connection: sa.Connection, role: str) -> None:
    """Give the role what the program needs and take everything else; as the owner.

    Raises:
        ConfigurationError: it may make tables all the same; says what to run.
    """
    schema = connection.execute(sa.text("SELECT current_schema()")).scalar_one()
    name, here = _quoted(role), _quoted(schema)
    queue = queue_tables(connection)
    for table in (*RIGHTS, *queue):
        _run(connection, f"REVOKE ALL ON {_quoted(table)} FROM {name}, PUBLIC")
        rights = ", ".join(RIGHTS.get(table, ALL))
        _run(connection, f"GRANT {rights} ON {_quoted(table)} TO {name}")
    for table, columns in COLUMNS.items():
        listed = ", ".join(map(_quoted, columns))
        _run(connection, f"GRANT UPDATE ({listed}) ON {_quoted(table)} TO {name}")
    for sequence in _sequences(connection, (*RIGHTS, *queue)):
        _run(connection, f"GRANT USAGE ON SEQUENCE {_quoted(sequence)} TO {name}")
    _run(connection, f"GRANT USAGE ON SCHEMA {here} TO {name}")
    _run(connection, f"REVOKE CREATE ON SCHEMA {here} FROM {name}, PUBLIC")
    if connection.execute(
        sa.text("SELECT has_schema_privilege(:role, current_schema(), 'CREATE')"), {"role": role}
    ).scalar_one():
        raise _refused(
            f"the role {role!r} may make tables in the schema {schema!r}",
            f"REVOKE CREATE ON SCHEMA {here} FROM {name}, PUBLIC",
        )


def queue_tables(connection: sa.Connection) -> list[str]:
    """Those of procrastinate, where it is installed."""
    return list(connection.execute(_OF_QUEUE).scalars())


def _sequences(connection: sa.Connection, tables: Sequence[str]) -> list[str]:
    """The counters behind the tables' numbered columns."""
    return list(
        connection.execute(
            sa.text(
                "SELECT counter.relname FROM pg_class counter "
                "JOIN pg_depend of ON of.objid = counter.oid AND of.deptype IN ('a', 'i') "
                "JOIN pg_class held ON held.oid = of.refobjid "
                "WHERE counter.relkind = 'S' AND held.relname = ANY(:tables) "
                "AND held.relnamespace = current_schema()::regnamespace"
            ),
            {"tables": list(tables)},
        ).scalars()
    )


def _refused(problem: str, command: str) -> ConfigurationError:
    return ConfigurationError(f"{problem}; as a superuser run: {command}", setting=SETTING)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _run(connection: sa.Connection, statement: str) -> None:
    connection.exec_driver_sql(statement.replace("%", "%%"))

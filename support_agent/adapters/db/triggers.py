"""Triggers that keep tables append-only, as a fresh schema has them.

Migrations write them out again: what they did must not change when this does.
"""

from collections.abc import Mapping
from types import MappingProxyType

APPEND_ONLY = (
    "audit_events",
    "ledger_entries",
    "policies",
    "policy_activations",
    "refund_decisions",
    "installation",
)

# PostgreSQL runs a trigger through a function; ours answers like a broken constraint.
POSTGRES_FUNCTION = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""


def sqlite_triggers() -> Mapping[str, str]:
    """Name -> statement. `recursive_triggers=ON` lets the second also stop INSERT OR REPLACE."""
    return MappingProxyType(
        {
            f"{table}_no_{verb.lower()}": (
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
            for table in APPEND_ONLY
            for verb in ("UPDATE", "DELETE")
        }
    )


def postgres_triggers() -> Mapping[str, str]:
    """Name -> statement."""
    return MappingProxyType(
        {
            f"{table}_append_only": (
                f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
                f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )
            for table in APPEND_ONLY
        }
    )

"""Triggers that keep tables append-only, as a fresh schema has them.

Migrations write them out again: what they did must not change when this does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

APPEND_ONLY = (
    "audit_events",
    "ledger_entries",
    "policies",
    "policy_activations",
    "refund_decisions",
    "installation",
    "payout_destinations",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasable:
    """A row that stays as it is but for its personal columns, which privacy may empty together."""

    personal: tuple[str, ...]
    kept: tuple[str, ...]
    unless: str  # what is refused of the personal ones


ERASABLE: Mapping[str, Erasable] = MappingProxyType(
    {
        "refund_decisions": Erasable(
            personal=("note",),
            kept=(
                *("seq", "id", "request_id", "round", "choice", "level", "person_id", "name"),
                *(
                    "proof",
                    "fingerprint",
                    "amount_minor",
                    "currency",
                    "limit_minor",
                    "at",
                    "evidence",
                ),
                *("key_id", "mac"),
            ),
            unless="NEW.note IS NOT NULL",
        ),
        "payout_destinations": Erasable(
            personal=("account_number", "holder", "salt"),
            kept=("id", "customer_id", "bank", "created_at", "added_by"),
            unless="NEW.account_number <> '' OR NEW.holder <> '' OR NEW.salt IS NOT NULL",
        ),
    }
)


def sqlite_triggers() -> Mapping[str, str]:
    """Name -> statement. `recursive_triggers=ON` lets the second also stop INSERT OR REPLACE."""
    made = {}
    for table in APPEND_ONLY:
        refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        update = f"{table}_no_update"
        made[update] = f"CREATE TRIGGER {update} BEFORE {_update(table)} ON {table} {refuse}"
        delete = f"{table}_no_delete"
        made[delete] = f"CREATE TRIGGER {delete} BEFORE DELETE ON {table} {refuse}"
        if table in ERASABLE:
            name = f"{table}_only_erased"
            made[name] = (
                f"CREATE TRIGGER {name} BEFORE {_personal(table)} ON {table} "
                f"WHEN {ERASABLE[table].unless} {refuse}"
            )
    return MappingProxyType(made)


def postgres_triggers() -> Mapping[str, str]:
    """Name -> statement."""
    made = {}
    for table in APPEND_ONLY:
        name = f"{table}_append_only"
        made[name] = (
            f"CREATE TRIGGER {name} BEFORE {_update(table)} OR DELETE OR TRUNCATE "
            f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        if table in ERASABLE:
            name = f"{table}_only_erased"
            made[name] = (
                f"CREATE TRIGGER {name} BEFORE {_personal(table)} ON {table} FOR EACH ROW "
                f"WHEN ({ERASABLE[table].unless}) EXECUTE FUNCTION refuse_change()"
            )
    return MappingProxyType(made)


def _update(table: str) -> str:
    if table not in ERASABLE:
        return "UPDATE"
    return f"UPDATE OF {', '.join(ERASABLE[table].kept)}"


def _personal(table: str) -> str:
    return f"UPDATE OF {', '.join(ERASABLE[table].personal)}"

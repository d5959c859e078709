"""What somebody who can write the whole database does to its history, on either database."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.adapters.db.stores.audit_rows import event_values
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.triggers import postgres_triggers, sqlite_triggers
from support_agent.domain.audit import START, AuditEvent, AuditHead, link
from support_agent.domain.signing import KeyRing

EVENTS, HEAD, ENTRIES, NODES = (
    metadata.tables[name] for name in ("audit_events", "audit_head", "audit_entries", "audit_nodes")
)
TABLES = (EVENTS, HEAD, ENTRIES, NODES)
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def snapshot(url: str, *tables: sa.Table) -> Rows:
    """Everything of the history, and of other tables, as somebody may have copied it."""
    with exclusive(url) as raw:
        return {
            table.name: [dict(row._mapping) for row in raw.execute(sa.select(table))]
            for table in (*TABLES, *tables)
        }


def attack(url: str, *statements: sa.Executable) -> None:
    """Write the database as its owner can: triggers off, anything, triggers on again."""
    on_file = url.startswith("sqlite")
    triggers = sqlite_triggers() if on_file else postgres_triggers()
    with exclusive(url) as raw:
        for name, made in triggers.items():
            table = "" if on_file else f" ON {made.split(' ON ')[1].split()[0]}"
            raw.exec_driver_sql(f"DROP TRIGGER {name}{table}")
        for statement in statements:
            raw.execute(statement)
        for made in triggers.values():
            raw.exec_driver_sql(made)


def restore(url: str, rows: Rows, *tables: sa.Table) -> None:
    """Bring tables back to what they were."""
    attack(url, *(sa.delete(table) for table in tables))
    with exclusive(url) as raw:
        for table in tables:
            if rows[table.name]:
                raw.execute(sa.insert(table), [*rows[table.name]])


def written_before_the_index(url: str, keys: KeyRing, *events: AuditEvent) -> AuditHead:
    """A chain as the program wrote it that knew of no index."""
    head, rows = START, []
    for one in events:
        row = link(keys, head, one)
        head = AuditHead(seq=row.seq, mac=row.mac)
        rows.append(event_values(row))
    attack(url, *(sa.delete(table) for table in (EVENTS, ENTRIES, NODES)))
    with exclusive(url) as raw:
        raw.execute(sa.insert(EVENTS), rows)
        raw.execute(sa.update(HEAD).values(seq=head.seq, mac=head.mac))
    return head

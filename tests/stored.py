"""Everything a shop has stored, without what differs from one telling to the next: ids and clocks."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.types import UtcDateTime
from support_agent.services.second_look import SECOND_LOOK

# In the order in which ids are met first; each with what its rows are in order of.
TABLES = {
    "conversations": ("id",),
    "messages": ("conversation_id", "seq"),
    "runs": ("id",),
    "steps": ("run_id", "number"),
    "tool_calls": ("run_id", "step", "position"),
    "quotes": ("created_seq",),
    "refund_requests": ("created_seq",),
    "refund_decisions": ("seq",),
    "refund_attempts": ("id",),
    "ledger_entries": ("seq",),
    "ledger_payouts": ("seq",),
    "order_balances": ("order_id",),
    "line_balances": ("order_id", "line_id"),
    "payment_balances": ("order_id", "payment_id"),
    "cap_counters": ("scope", "subject", "day"),
    "audit_events": ("seq",),
    "outbox": ("seq",),
    "tasks": ("id",),
    "preferences": ("customer_id", "kind"),
    "compactions": ("conversation_id", "number"),
}
# Numbers with gaps where something was rolled back, seals over ids, and how often one began anew.
LEFT_OUT = {
    *("conversations.epoch", "runs.epoch", "runs.attempts", "outbox.attempts", "outbox.seq"),
    *("quotes.created_seq", "refund_requests.created_seq", "refund_requests.queue_rank"),
    *("refund_decisions.seq", "ledger_entries.seq", "ledger_payouts.seq"),
    *("refund_decisions.mac", "refund_decisions.fingerprint", "refund_requests.fingerprint"),
    *("audit_events.root", "audit_events.prev_mac", "audit_events.mac"),
}
Stored = dict[str, list[str]]
_ID = re.compile(r"(?<![a-z])([a-z]{2,8})_[0-9a-hjkmnp-tv-z]{26}\b")
_HASH = re.compile(r"(?<![0-9a-z])[0-9a-f]{24,}\b")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)?")


def everything(connection: sa.Connection) -> Stored:
    """Each table's rows as JSON; an id is its kind and how many of that kind were met before it."""
    met: dict[str, str] = {}
    kinds: dict[str, int] = {}

    def named(match: re.Match[str]) -> str:
        if match[0] not in met:
            kinds[match[1]] = kinds.get(match[1], 0) + 1
            met[match[0]] = f"{match[1]}_{kinds[match[1]]}"
        return met[match[0]]

    return {
        table: [
            _HASH.sub(
                "#",
                _MOMENT.sub(
                    "<then>", _ID.sub(named, json.dumps(row, ensure_ascii=False, default=str))
                ),
            )
            for row in _rows(connection, table, order)
        ]
        for table, order in TABLES.items()
    }


def _rows(
    connection: sa.Connection, table: str, order: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    known = metadata.tables[table]
    kept = [column for column in known.columns if not _left_out(column)]
    statement = sa.select(*kept).order_by(*(known.columns[name] for name in order))
    if table == "tasks":  # drawn by lot, from ids
        statement = statement.where(known.columns["kind"] != SECOND_LOOK)
    for row in connection.execute(statement).mappings():
        yield dict(row)


def _left_out(column: sa.Column[Any]) -> bool:
    of_a_clock = isinstance(column.type, UtcDateTime | sa.Double)
    return of_a_clock or f"{column.table.name}.{column.name}" in LEFT_OUT


def differences(one: Stored, other: Stored, *, but: Collection[str] = ()) -> list[str]:
    """Rows that are in one and not in the other, or elsewhere in the order; of most tables."""
    return [
        f"{table} {number}: {mine} -> {theirs}"
        for table in one
        if table not in but
        for number, (mine, theirs) in enumerate(_paired(one[table], other[table]), start=1)
        if mine != theirs
    ]


def _paired(one: list[str], other: list[str]) -> Iterator[tuple[str | None, str | None]]:
    for number in range(max(len(one), len(other))):
        yield (
            one[number] if number < len(one) else None,
            other[number] if number < len(other) else None,
        )

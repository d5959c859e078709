"""Signed decisions in SQL, insert-only."""

from collections.abc import Iterator

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Named, Prepared
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.stores.seen import Seen
from support_agent.adapters.db.tables.requests import RefundDecisionRow
from support_agent.domain.approvals import Choice, Decision
from support_agent.domain.errors import AlreadyDecided, DecisionRefused
from support_agent.domain.people import Proof
from support_agent.domain.reasons import Reason

DECISIONS = table_of(RefundDecisionRow)

_ROWS_AT_ONCE = 500
_ONCE = ("request_id", "round", "person_id")

_OF_REQUEST = Prepared(
    sa.select(DECISIONS)
    .where(DECISIONS.c.request_id == sa.bindparam("request_id"))
    .order_by(DECISIONS.c.seq)
)


class SqlDecisions:
    """One decision of a person per request and round, by a unique constraint."""

    def __init__(self, connection: sa.Connection, seen: Seen) -> None:
        self._connection = connection
        self._seen = seen

    def add(self, decision: Decision) -> None:
        """Insert the decision.

        Raises:
            AlreadyDecided: this person decided this round of the request before.
            DecisionRefused: EVIDENCE_USED; another decision rests on the same proof.
        """
        if self._is_used(decision.evidence):
            raise DecisionRefused(Reason.EVIDENCE_USED, evidence=decision.evidence)
        row = {name: getattr(decision, name) for name in Decision.__dataclass_fields__}
        if not insert_new(self._connection, DECISIONS, row):
            if self._is_used(decision.evidence):
                raise DecisionRefused(Reason.EVIDENCE_USED, evidence=decision.evidence)
            earlier = self._earlier(decision)
            raise AlreadyDecided(
                decision.request_id, status=earlier.choice, by=earlier.name, at=earlier.at
            )

    def of(self, request_id: str) -> tuple[Decision, ...]:
        return self._seen.once(("decisions", request_id), self._of, request_id)

    def _of(self, request_id: str) -> tuple[Decision, ...]:
        found = _OF_REQUEST.all_named(self._connection, {"request_id": request_id})
        return tuple(_from_row(row) for row in found)

    def all(self) -> Iterator[Decision]:
        found = self._connection.execute(
            sa.select(DECISIONS).order_by(DECISIONS.c.seq),
            execution_options={"yield_per": _ROWS_AT_ONCE},
        )
        return (_from_row(row) for row in found.mappings())

    def _is_used(self, evidence: str | None) -> bool:
        """A bank's clerk writes ft123 for FT123: in capitals or not, it is one transfer."""
        if evidence is None:
            return False
        found = sa.select(DECISIONS.c.id).where(
            DECISIONS.c.evidence.is_not(None),
            sa.func.lower(DECISIONS.c.evidence) == sa.func.lower(evidence),
        )
        return self._connection.execute(found).first() is not None

    def _earlier(self, decision: Decision) -> Decision:
        same = [DECISIONS.c[name] == getattr(decision, name) for name in _ONCE]
        found = self._connection.execute(sa.select(DECISIONS).where(*same))
        return _from_row(found.mappings().one())


def _from_row(row: Named) -> Decision:
    values = {name: row[name] for name in Decision.__dataclass_fields__}
    values |= {"choice": Choice(row["choice"]), "proof": Proof(row["proof"])}
    return Decision(**values)

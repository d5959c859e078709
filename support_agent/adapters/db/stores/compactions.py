"""Cuts of the view in SQL."""

import sqlalchemy as sa

from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.statements import insert_new, table_of
from support_agent.adapters.db.tables.compactions import CompactionRow
from support_agent.adapters.db.types import made_storable
from support_agent.ports.storage import Compaction, MadeBy

compactions = table_of(CompactionRow)

_NEWEST = Prepared(
    sa.select(compactions)
    .where(compactions.c.conversation_id == sa.bindparam("conversation"))
    .order_by(compactions.c.number.desc())
    .limit(sa.literal_column("1", sa.Integer))
)


class SqlCompactions:
    """Only ever inserted; read once at the start of a run."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def newest(self, conversation_id: str) -> Compaction | None:
        row = _NEWEST.first(self._connection, {"conversation": conversation_id})
        if row is None:
            return None
        return Compaction(
            conversation_id=row.conversation_id,
            number=row.number,
            at=row.at,
            through_seq=row.through_seq,
            digested_run_id=row.digested_run_id,
            digested_step=row.digested_step,
            facts=row.facts,
            masks=row.masks,
            summary=row.summary,
            made_by=MadeBy(row.made_by),
            model_calls=row.model_calls,
        )

    def add(self, compaction: Compaction) -> None:
        values = {
            "conversation_id": compaction.conversation_id,
            "number": compaction.number,
            "at": compaction.at,
            "through_seq": compaction.through_seq,
            "digested_run_id": compaction.digested_run_id,
            "digested_step": compaction.digested_step,
            "facts": compaction.facts,
            "masks": compaction.masks,
            "summary": made_storable(compaction.summary),
            "made_by": compaction.made_by,
            "model_calls": compaction.model_calls,
        }
        insert_new(self._connection, compactions, values, on=("conversation_id", "number"))

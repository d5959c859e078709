"""Texts of whoever was not proved to be a customer, within what is told to that customer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.personal import CALLS, COMPACTIONS, MESSAGES, STEPS, Reach
from support_agent.adapters.db.types import PERSONAL
from support_agent.domain.conversation import Assurance, Author

VERIFIED = int(Assurance.VERIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubtful:
    """In conversations that are the customer's: runs for, and conversations with, such a writer."""

    runs: frozenset[str]
    conversations: frozenset[str]

    def holds(self, row: Mapping[Any, Any], table: sa.Table) -> bool:
        """Whether the row's texts may be another person's, or an answer to one.

        A customer's message is judged by itself, and what the agent did by its run. Facts and
        summaries stand for all of a conversation.
        """
        if table is MESSAGES and row["author"] == Author.CUSTOMER:
            return row["assurance"] is not None and row["assurance"] < VERIFIED
        if table in (MESSAGES, STEPS, CALLS):
            return row["run_id"] in self.runs
        return table is COMPACTIONS and row["conversation_id"] in self.conversations


def withheld(row: Mapping[Any, Any], reach: Reach) -> Mapping[Any, Any]:
    """The row without its texts, and without all else that erasing takes out of it."""
    personal = (column.name for column in reach.table.columns if column.info == PERSONAL)
    return {**row, **dict.fromkeys((*personal, *reach.emptied))}

"""The table of cuts: what stands for the part of a conversation that is no longer shown."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import one_of
from support_agent.adapters.db.types import (
    PERSONAL,
    TECHNICAL,
    Table,
    counter,
    instant,
    json_column,
)
from support_agent.adapters.db.types import text as text_column
from support_agent.ports.storage import MadeBy


class CompactionRow(Table, table=True):
    """A cut; `masks` are the personal numbers that its placeholders stand for."""

    __tablename__ = "compactions"
    __table_args__ = (
        sa.PrimaryKeyConstraint("conversation_id", "number"),
        one_of("made_by", MadeBy),
        sa.CheckConstraint(
            "number >= 1 AND through_seq >= 0 AND digested_step >= 0 AND model_calls >= 0",
            name="counters",
        ),
    )

    conversation_id: str = Field(
        sa_column=text_column(sa.ForeignKey("conversations.id"), info=TECHNICAL)
    )
    number: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    at: datetime = Field(sa_column=instant())
    through_seq: int = Field(sa_column=counter())
    digested_run_id: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    digested_step: int = Field(sa_column=counter())
    facts: dict[str, Any] = Field(sa_column=json_column(info=PERSONAL))
    masks: dict[str, Any] = Field(sa_column=json_column(info=PERSONAL))
    summary: str = Field(sa_column=text_column(info=PERSONAL))
    made_by: str = Field(sa_column=text_column(info=TECHNICAL))
    model_calls: int = Field(sa_column=counter())

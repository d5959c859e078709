"""The table of what models were used for."""

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import not_negative, one_of
from support_agent.adapters.db.types import TECHNICAL, Table, counter, text
from support_agent.domain.usage import Scope


class UsageCounter(Table, table=True):
    """What one subject used on one civil day (ISO date); a conversation in all, on the day ''."""

    __tablename__ = "usage_counters"
    __table_args__ = (
        one_of("scope", Scope),
        sa.CheckConstraint("(scope = 'conversation') = (day = '')", name="day"),
        *not_negative("requests", "input_tokens", "output_tokens", "cost_micros"),
        sa.Index("ix_usage_counters_scope_day", "scope", "day"),
    )

    scope: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    subject: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    day: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    requests: int = Field(sa_column=counter())
    input_tokens: int = Field(sa_column=counter())
    output_tokens: int = Field(sa_column=counter())
    cost_micros: int = Field(sa_column=counter())

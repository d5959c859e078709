"""Table of what is remembered of a customer from one conversation to the next."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.types import PERSONAL, TECHNICAL, Table, instant, text


class PreferenceRow(Table, table=True):
    """A stated preference; the newest one of a kind is the one that counts."""

    __tablename__ = "preferences"
    __table_args__ = (sa.PrimaryKeyConstraint("customer_id", "kind"),)

    customer_id: str = Field(sa_column=text(info=TECHNICAL))
    kind: str = Field(sa_column=text(info=TECHNICAL))
    value: str = Field(sa_column=text(info=PERSONAL))
    conversation_id: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    at: datetime = Field(sa_column=instant())

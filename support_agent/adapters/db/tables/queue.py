"""The table of what the queue's own schema was made by; its other tables are the queue's."""

from sqlmodel import Field

from support_agent.adapters.db.types import TECHNICAL, Table, text


class QueueSchemaRow(Table, table=True):
    """`step` is the newest of the queue's own migrations that `db upgrade` has run."""

    __tablename__ = "queue_schema"

    queue: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    step: str = Field(sa_column=text(info=TECHNICAL))

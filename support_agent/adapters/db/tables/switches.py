"""Tables of what may happen at all, where money may go by hand, and which events came in."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import one_of
from support_agent.adapters.db.types import BOOKS, PERSONAL, TECHNICAL, Table, instant, text
from support_agent.ports.storage.switches import SwitchName


class SwitchRow(Table, table=True):
    """A kill switch that somebody touched."""

    __tablename__ = "switches"
    __table_args__ = (one_of("name", SwitchName),)

    name: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    on: bool = Field(sa_column=sa.Column("is_on", sa.Boolean, nullable=False))
    changed_at: datetime = Field(sa_column=instant())
    changed_by: str = Field(sa_column=text(info=BOOKS))


class PayoutDestinationRow(Table, table=True):
    """A bank account a customer gave. Insert-only by trigger, but that it may be erased.

    `salt` keeps its digest from being guessed; None in accounts from before there was one.
    """

    __tablename__ = "payout_destinations"
    __table_args__ = (sa.Index("ix_payout_destinations_customer", "customer_id", "created_at"),)

    id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    customer_id: str = Field(sa_column=text(info=BOOKS))
    bank: str = Field(sa_column=text(info=BOOKS))
    account_number: str = Field(sa_column=text(info=PERSONAL))
    holder: str = Field(sa_column=text(info=PERSONAL))
    created_at: datetime = Field(sa_column=instant())
    added_by: str = Field(sa_column=text(info=BOOKS))
    salt: str | None = Field(sa_column=text(info=PERSONAL, nullable=True))


class ProviderEventRow(Table, table=True):
    """The inbox: one row an accepted event, by the provider's own id."""

    __tablename__ = "provider_events"
    __table_args__ = (
        sa.PrimaryKeyConstraint("gateway", "event_id"),
        sa.Index("ix_provider_events_received_at", "received_at"),
    )

    gateway: str = Field(sa_column=text(info=TECHNICAL))
    event_id: str = Field(sa_column=text(info=TECHNICAL))
    kind: str = Field(sa_column=text(info=TECHNICAL))
    subject: str = Field(sa_column=text(info=TECHNICAL))
    created_at: datetime = Field(sa_column=instant())
    received_at: datetime = Field(sa_column=instant())
    outcome: str = Field(sa_column=text(info=TECHNICAL))

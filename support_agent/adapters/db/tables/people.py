"""Tables of who acts, by which rules, and which installation this is."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.types import (
    BOOKS,
    TECHNICAL,
    Table,
    instant,
    json_column,
    sequence_key,
    text,
)


class ApproverRow(Table, table=True):
    """Who may decide; `limits` in minor units, `customer_ids` the person's own accounts."""

    __tablename__ = "approvers"
    __table_args__ = (sa.CheckConstraint("level >= 1", name="level"),)

    name: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    person_id: str = Field(sa_column=text(info=BOOKS))
    level: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    limits: dict[str, Any] = Field(sa_column=json_column(info=BOOKS))
    customer_ids: list[str] = Field(sa_column=json_column(info=BOOKS))
    disabled: bool = Field(
        sa_column=sa.Column(sa.Boolean, nullable=False, server_default=sa.false())
    )
    token_hash: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))


class PolicyRow(Table, table=True):
    """A policy as law: insert-only by trigger."""

    __tablename__ = "policies"
    __table_args__ = (
        sa.PrimaryKeyConstraint("id", "version"),
        sa.CheckConstraint("version >= 1", name="version"),
    )

    id: str = Field(sa_column=text(info=BOOKS))
    version: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    hash: str = Field(sa_column=text(info=BOOKS))
    body: dict[str, Any] = Field(sa_column=json_column(info=BOOKS))
    valid_from: datetime = Field(sa_column=instant())


class PolicyActivationRow(Table, table=True):
    """Who put which version in force; the highest `seq` rules. Insert-only by trigger."""

    __tablename__ = "policy_activations"
    __table_args__ = (
        sa.ForeignKeyConstraint(["policy_id", "version"], ["policies.id", "policies.version"]),
    )

    seq: int = Field(sa_column=sequence_key())
    policy_id: str = Field(sa_column=text(info=BOOKS))
    version: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    activated_at: datetime = Field(sa_column=instant())
    activated_by: str = Field(sa_column=text(info=BOOKS))


class InstallationRow(Table, table=True):
    """The one stamp, set by the first `db upgrade`; a trigger keeps it as it is."""

    __tablename__ = "installation"
    __table_args__ = (
        sa.CheckConstraint("id = 1", name="one_row"),
        sa.CheckConstraint("kind IN ('demo', 'live')", name="kind"),
    )

    id: int = Field(sa_column=sa.Column(sa.Integer, primary_key=True, autoincrement=False))
    installation_id: str = Field(sa_column=text(info=TECHNICAL))
    kind: str = Field(sa_column=text(info=TECHNICAL))
    created_at: datetime = Field(sa_column=instant())

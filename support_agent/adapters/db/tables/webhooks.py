"""Tables of the events that we send: where to, and how far each of them came."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.types import (
    BOOKS,
    TECHNICAL,
    Table,
    counter,
    instant,
    json_column,
    real_seconds,
    text,
)

PENDING = "state = 'pending'"
LISTENING = "webhook_endpoints.state = 'enabled'"


class WebhookEndpointRow(Table, table=True):
    """Where events are sent. Its secret is derived from our keys (`key_id`) and never stored.

    `rotated_at` (the database's clock) began this generation; the one before signs beside it for a
    while.
    """

    __tablename__ = "webhook_endpoints"
    __table_args__ = (
        sa.CheckConstraint("generation >= 1", name="generation"),
        sa.CheckConstraint("state IN ('enabled', 'disabled')", name="state"),
    )

    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    url: str = Field(sa_column=text(info=TECHNICAL))
    events: list[str] = Field(sa_column=json_column(info=TECHNICAL))
    state: str = Field(sa_column=text(info=TECHNICAL))
    disabled_reason: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    key_id: str = Field(sa_column=text(info=TECHNICAL))
    previous_key_id: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    generation: int = Field(sa_column=counter(default=1))
    rotated_at: float | None = Field(sa_column=real_seconds(nullable=True))
    created_at: datetime = Field(sa_column=instant())
    created_by: str = Field(sa_column=text(info=BOOKS))


class WebhookDeliveryRow(Table, table=True):
    """One event for one endpoint; ids and codes only.

    `attempts` are tries that came to an end, `claims` those that were begun.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        sa.UniqueConstraint("endpoint_id", "event_id"),
        sa.CheckConstraint("state IN ('pending', 'delivered', 'failed')", name="state"),
        sa.CheckConstraint("attempts >= 0", name="attempts"),
        sa.CheckConstraint("claims >= 0", name="claims"),
        sa.Index("ix_webhook_deliveries_endpoint_id_id", "endpoint_id", "id"),
        sa.Index("ix_webhook_deliveries_ended_at", "ended_at"),
        sa.Index(
            "ix_webhook_deliveries_pending",
            "endpoint_id",
            "retry_at",
            "id",
            sqlite_where=sa.text(PENDING),
            postgresql_where=sa.text(PENDING),
        ),
    )

    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    endpoint_id: str = Field(sa_column=text(sa.ForeignKey("webhook_endpoints.id"), info=TECHNICAL))
    event_id: str = Field(sa_column=text(info=TECHNICAL))
    type: str = Field(sa_column=text(info=TECHNICAL))
    body: dict[str, Any] = Field(sa_column=json_column(info=TECHNICAL))
    state: str = Field(sa_column=text(info=TECHNICAL))
    attempts: int = Field(sa_column=counter())
    claims: int = Field(sa_column=counter())
    retry_at: float = Field(sa_column=real_seconds())
    last_status: int | None = Field(sa_column=sa.Column(sa.Integer, nullable=True))
    last_error: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    created_at: datetime = Field(sa_column=instant())
    ended_at: datetime | None = Field(sa_column=instant(nullable=True))

"""Tables of the API: keys, and requests that are answered once however often they are sent."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.types import (
    BOOKS,
    PERSONAL,
    TECHNICAL,
    Table,
    instant,
    json_column,
    real_seconds,
    text,
)


class ApiKeyRow(Table, table=True):
    """A key, without its secret. It counts only as its newest signed event says."""

    __tablename__ = "api_keys"
    __table_args__ = (
        sa.CheckConstraint("assurance IN (0, 1, 2)", name="assurance"),
        sa.Index("ix_api_keys_name", "name"),
    )

    id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    name: str = Field(sa_column=text(info=BOOKS))
    secret_hash: str = Field(sa_column=text(info=TECHNICAL))
    scopes: list[str] = Field(sa_column=json_column(info=TECHNICAL))
    approver: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    channel: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    account: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    assurance: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    created_at: datetime = Field(sa_column=instant())
    created_by: str = Field(sa_column=text(info=BOOKS))
    expires_at: datetime | None = Field(sa_column=instant(nullable=True))
    revoked_at: datetime | None = Field(sa_column=instant(nullable=True))


class IdempotencyRow(Table, table=True):
    """A request under its key, and once answered the answer; `customer_id` is '' for staff.

    Moments by the database's clock: `lease_until` while it is being answered, `kept_until` for all.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        sa.PrimaryKeyConstraint("principal", "customer_id", "route", "key"),
        sa.Index("ix_idempotency_keys_kept_until", "kept_until"),
    )

    principal: str = Field(sa_column=text(info=TECHNICAL))
    customer_id: str = Field(sa_column=text(info=TECHNICAL))
    route: str = Field(sa_column=text(info=TECHNICAL))
    key: str = Field(sa_column=text(info=TECHNICAL))
    request_hash: str = Field(sa_column=text(info=TECHNICAL))
    lease_until: float = Field(sa_column=real_seconds())
    kept_until: float = Field(sa_column=real_seconds())
    status: int | None = Field(sa_column=sa.Column(sa.Integer, nullable=True))
    headers: dict[str, Any] | None = Field(sa_column=json_column(info=TECHNICAL, nullable=True))
    body: str | None = Field(sa_column=text(info=PERSONAL, nullable=True))

"""Tables of what happened: the audit chain and its head, events to the outside, staff tasks."""

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
    sequence_key,
    text,
)


class AuditEventRow(Table, table=True):
    """A link of the chain. Append-only by trigger; `prev_mac` is unique, so it cannot fork."""

    __tablename__ = "audit_events"
    __table_args__ = (
        sa.UniqueConstraint("prev_mac"),
        sa.UniqueConstraint("mac"),
        sa.CheckConstraint("seq >= 1", name="seq"),
        sa.Index("ix_audit_events_subject_seq", "subject", "seq"),
    )

    # Counted by the head row and not by the database: a sequence would leave gaps.
    seq: int = Field(sa_column=sa.Column(sa.BigInteger, primary_key=True, autoincrement=False))
    action: str = Field(sa_column=text(info=BOOKS))
    actor_kind: str = Field(sa_column=text(info=BOOKS))
    actor_id: str = Field(sa_column=text(info=BOOKS))
    actor_person_id: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    actor_proof: str = Field(sa_column=text(info=BOOKS))
    actor_via: str = Field(sa_column=text(info=BOOKS))
    subject: str = Field(sa_column=text(info=BOOKS))
    at: datetime = Field(sa_column=instant())
    data: dict[str, Any] = Field(sa_column=json_column(info=BOOKS))
    root: str | None = Field(sa_column=text(info=BOOKS, nullable=True))  # None: from before it
    prev_mac: str = Field(sa_column=text(info=BOOKS))
    key_id: str = Field(sa_column=text(info=BOOKS))
    mac: str = Field(sa_column=text(info=BOOKS))


class AuditEntryRow(Table, table=True):
    """Where the newest event about a thing is; see `AuditNodeRow` for what vouches for it."""

    __tablename__ = "audit_entries"
    __table_args__ = (sa.PrimaryKeyConstraint("bucket", "topic", "subject"),)

    bucket: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    topic: str = Field(sa_column=text(info=BOOKS))
    subject: str = Field(sa_column=text(info=BOOKS))
    seq: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))


class AuditNodeRow(Table, table=True):
    """The digests of a node's children, up to the root that every event of the chain signs."""

    __tablename__ = "audit_nodes"
    __table_args__ = (sa.PrimaryKeyConstraint("level", "position"),)

    level: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    position: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    children: str = Field(sa_column=text(info=BOOKS))  # separated by commas, empty for nothing


class AuditHeadRow(Table, table=True):
    """The newest link, in the one row that every writer of the chain locks last."""

    __tablename__ = "audit_head"
    __table_args__ = (
        sa.CheckConstraint("id = 1", name="one_row"),
        sa.CheckConstraint("seq >= 0", name="seq"),
    )

    id: int = Field(sa_column=sa.Column(sa.Integer, primary_key=True, autoincrement=False))
    seq: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    mac: str = Field(sa_column=text(info=BOOKS))


class OutboxRow(Table, table=True):
    """An event to the outside, written with what caused it.

    Those of one `stream`, a conversation, leave one after the other. `delivered_at` ends it: it
    was delivered, has no reader, or was given up and a person was called. `fanned_at`: webhooks
    have taken what is for them, which is no matter of `delivered_at`.
    """

    __tablename__ = "outbox"
    __table_args__ = (
        sa.UniqueConstraint("key"),
        sa.Index("ix_outbox_delivered", "delivered_at"),
        sa.CheckConstraint("attempts >= 0", name="attempts"),
        sa.Index(
            "ix_outbox_undelivered",
            "seq",
            sqlite_where=sa.text("delivered_at IS NULL"),
            postgresql_where=sa.text("delivered_at IS NULL"),
        ),
        sa.Index(
            "ix_outbox_not_fanned",
            "seq",
            sqlite_where=sa.text("fanned_at IS NULL"),
            postgresql_where=sa.text("fanned_at IS NULL"),
        ),
        sa.Index(
            "ix_outbox_undelivered_stream",
            "stream",
            "seq",
            sqlite_where=sa.text("delivered_at IS NULL"),
            postgresql_where=sa.text("delivered_at IS NULL"),
        ),
    )

    seq: int = Field(sa_column=sequence_key())
    key: str = Field(sa_column=text(info=TECHNICAL))
    stream: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    topic: str = Field(sa_column=text(info=TECHNICAL))
    body: dict[str, Any] = Field(sa_column=json_column(info=TECHNICAL))
    created_at: datetime = Field(sa_column=instant())
    delivered_at: datetime | None = Field(sa_column=instant(nullable=True))
    attempts: int = Field(sa_column=counter())
    retry_at: float | None = Field(sa_column=real_seconds(nullable=True))  # not before it
    fanned_at: datetime | None = Field(sa_column=instant(nullable=True))


class TaskRow(Table, table=True):
    """Something a person at the shop has to do."""

    __tablename__ = "tasks"
    __table_args__ = (
        sa.Index(
            "ix_tasks_open",
            "created_at",
            "id",
            sqlite_where=sa.text("done_at IS NULL"),
            postgresql_where=sa.text("done_at IS NULL"),
        ),
    )

    id: str = Field(sa_column=text(info=TECHNICAL, primary_key=True))
    kind: str = Field(sa_column=text(info=TECHNICAL))
    subject: str = Field(sa_column=text(info=TECHNICAL))
    conversation_id: str | None = Field(
        sa_column=text(sa.ForeignKey("conversations.id"), info=TECHNICAL, nullable=True)
    )
    created_at: datetime = Field(sa_column=instant())
    due_at: datetime | None = Field(sa_column=instant(nullable=True))
    done_at: datetime | None = Field(sa_column=instant(nullable=True))
    done_by: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))

"""Quotes, refund requests, the decisions on them and the attempts to pay them."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy import text as sql
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import not_negative, one_of, positive
from support_agent.adapters.db.types import (
    BOOKS,
    PERSONAL,
    TECHNICAL,
    Table,
    counter,
    instant,
    json_column,
    minor,
    sequence_key,
    text,
)
from support_agent.domain.approvals import Choice
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import PrincipalKind, Proof
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import AttemptStatus, RequestStatus

# Literal SQL on purpose: with a bound status the planner cannot prove that the partial index fits.
PENDING_SQL = f"status = '{RequestStatus.PENDING_APPROVAL}'"
# The other statuses have an index of their own: one over all of them would be preferred by SQLite
# for the queue too, and the queue would be sorted on each look.
NOT_PENDING_SQL = f"status <> '{RequestStatus.PENDING_APPROVAL}'"
SUCCEEDED_SQL = f"status = '{AttemptStatus.SUCCEEDED}'"
NOT_FAILED_SQL = f"status <> '{AttemptStatus.FAILED}'"


def _request_id() -> Column[str]:
    return Column(Text, ForeignKey("refund_requests.id"), nullable=False, info=BOOKS)


class QuoteRow(Table, table=True):
    """An offer to refund; only `shown_seq` and `superseded` change."""

    __tablename__ = "quotes"
    __table_args__ = (
        UniqueConstraint("id"),
        one_of("method", PaymentMethod),
        one_of("verdict", Verdict),
        positive("amount_minor"),
        *not_negative("required_level"),
        Index("ix_quotes_conversation_id", "conversation_id"),
    )

    created_seq: int | None = Field(default=None, sa_column=sequence_key())
    id: str = Field(sa_column=text(info=TECHNICAL))
    group_id: str = Field(sa_column=text(info=TECHNICAL))
    conversation_id: str = Field(sa_column=text(info=TECHNICAL))
    customer_id: str = Field(sa_column=text(info=BOOKS))
    run_id: str = Field(sa_column=text(info=TECHNICAL))
    order_id: str = Field(sa_column=text(info=BOOKS))
    payment_id: str = Field(sa_column=text(info=BOOKS))
    lines: Any = Field(sa_column=json_column(info=BOOKS))
    amount_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=BOOKS))
    method: str = Field(sa_column=text(info=BOOKS))
    destination: str = Field(sa_column=text(info=BOOKS))
    verdict: str = Field(sa_column=text(info=TECHNICAL))
    reasons: Any = Field(sa_column=json_column(info=TECHNICAL))
    required_level: int
    policy_id: str = Field(sa_column=text(info=TECHNICAL))
    policy_version: int
    created_at: datetime = Field(sa_column=instant())
    expires_at: datetime = Field(sa_column=instant())
    shown_seq: int | None = None
    superseded: bool
    deduction_minor: int = Field(sa_column=minor())


class RefundRequestRow(Table, table=True):
    """A filed refund; only the fields of `CHANGEABLE` change. `moved_at` is the database's clock.

    `quote_id` is unique: it is the idempotency key of filing. It is no foreign key, because staff
    files without a conversation and so without a stored quote.
    """

    __tablename__ = "refund_requests"
    __table_args__ = (
        UniqueConstraint("id"),
        UniqueConstraint("quote_id"),
        one_of("status", RequestStatus),
        one_of("method", PaymentMethod),
        one_of("verdict", Verdict),
        one_of("requester_kind", PrincipalKind),
        one_of("requester_proof", Proof),
        positive("amount_minor"),
        positive("version"),
        positive("round"),
        positive("approvals_needed"),
        *not_negative("required_level"),
        Index(
            "ix_refund_requests_queue",
            "queue_rank",
            "id",
            sqlite_where=sql(PENDING_SQL),
            postgresql_where=sql(PENDING_SQL),
        ),
        Index(
            "ix_refund_requests_queue_customer",
            "customer_id",
            "queue_rank",
            "id",
            sqlite_where=sql(PENDING_SQL),
            postgresql_where=sql(PENDING_SQL),
        ),
        Index(
            "ix_refund_requests_queue_level",
            "required_level",
            "queue_rank",
            "id",
            sqlite_where=sql(PENDING_SQL),
            postgresql_where=sql(PENDING_SQL),
        ),
        Index(
            "ix_refund_requests_due",
            "due_at",
            "id",
            sqlite_where=sql(PENDING_SQL),
            postgresql_where=sql(PENDING_SQL),
        ),
        Index("ix_refund_requests_group", "group_id"),
        Index("ix_refund_requests_order", "order_id", "created_seq"),
        Index("ix_refund_requests_customer", "customer_id", "created_seq"),
        Index(
            "ix_refund_requests_status",
            "status",
            "created_seq",
            sqlite_where=sql(NOT_PENDING_SQL),
            postgresql_where=sql(NOT_PENDING_SQL),
        ),
    )

    created_seq: int | None = Field(default=None, sa_column=sequence_key())
    id: str = Field(sa_column=text(info=BOOKS))
    quote_id: str = Field(sa_column=text(info=TECHNICAL))
    group_id: str = Field(sa_column=text(info=TECHNICAL))
    conversation_id: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    run_id: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    customer_id: str = Field(sa_column=text(info=BOOKS))
    order_id: str = Field(sa_column=text(info=BOOKS))
    payment_id: str = Field(sa_column=text(info=BOOKS))
    gateway: str = Field(sa_column=text(info=BOOKS))
    account: str = Field(sa_column=text(info=BOOKS))
    gateway_payment_id: str = Field(sa_column=text(info=BOOKS))
    method: str = Field(sa_column=text(info=BOOKS))
    lines: Any = Field(sa_column=json_column(info=BOOKS))
    amount_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=BOOKS))
    destination: str = Field(sa_column=text(info=BOOKS))
    verdict: str = Field(sa_column=text(info=TECHNICAL))
    reasons: Any = Field(sa_column=json_column(info=TECHNICAL))
    required_level: int
    approvals_needed: int
    policy_id: str = Field(sa_column=text(info=TECHNICAL))
    policy_version: int
    fingerprint: str = Field(sa_column=text(info=BOOKS))
    consent: str = Field(sa_column=text(info=TECHNICAL))
    requester_kind: str = Field(sa_column=text(info=BOOKS))
    requester_id: str = Field(sa_column=text(info=BOOKS))
    requester_person_id: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    requester_proof: str = Field(sa_column=text(info=BOOKS))
    requester_via: str = Field(sa_column=text(info=BOOKS))
    operator: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    status: str = Field(sa_column=text(info=TECHNICAL))
    version: int
    round: int
    created_at: datetime = Field(sa_column=instant())
    expires_at: datetime = Field(sa_column=instant())
    approved_until: datetime | None = Field(sa_column=instant(nullable=True))
    queue_rank: int = Field(sa_column=Column(BigInteger, nullable=False))
    due_at: datetime | None = Field(sa_column=instant(nullable=True))  # None: from before these
    filed_minor: int = Field(sa_column=minor())
    escalations: int = Field(sa_column=counter())
    asked_at: datetime | None = Field(sa_column=instant(nullable=True))
    attempt_no: int = Field(sa_column=counter(default=1))
    attempt_at: datetime | None = Field(sa_column=instant(nullable=True))
    retried_by: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    moved_at: datetime | None = Field(sa_column=instant(nullable=True))


class RefundDecisionRow(Table, table=True):
    """One person's signed decision, insert-only by trigger."""

    __tablename__ = "refund_decisions"
    __table_args__ = (
        UniqueConstraint("id"),
        UniqueConstraint("request_id", "round", "person_id"),
        Index(
            "uq_refund_decisions_evidence",
            "evidence",
            unique=True,
            sqlite_where=sql("evidence IS NOT NULL"),
            postgresql_where=sql("evidence IS NOT NULL"),
        ),
        one_of("choice", Choice),
        one_of("proof", Proof),
        *not_negative("level", "amount_minor"),
    )

    seq: int | None = Field(default=None, sa_column=sequence_key())
    id: str = Field(sa_column=text(info=BOOKS))
    request_id: str = Field(sa_column=_request_id())
    round: int
    choice: str = Field(sa_column=text(info=BOOKS))
    level: int
    person_id: str = Field(sa_column=text(info=BOOKS))
    name: str = Field(sa_column=text(info=BOOKS))
    proof: str = Field(sa_column=text(info=BOOKS))
    fingerprint: str = Field(sa_column=text(info=BOOKS))
    amount_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=BOOKS))
    limit_minor: int | None = Field(sa_column=Column(BigInteger, nullable=True))
    note: str | None = Field(sa_column=text(info=PERSONAL, nullable=True))
    at: datetime = Field(sa_column=instant())
    evidence: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    key_id: str = Field(sa_column=text(info=BOOKS))
    mac: str = Field(sa_column=text(info=BOOKS))


class RefundAttemptRow(Table, table=True):
    """One try to pay, with exactly what was sent. At most one per request has not failed."""

    __tablename__ = "refund_attempts"
    __table_args__ = (
        UniqueConstraint("request_id", "number"),
        UniqueConstraint("key"),
        Index(
            "uq_refund_attempts_live",
            "request_id",
            unique=True,
            sqlite_where=sql(NOT_FAILED_SQL),
            postgresql_where=sql(NOT_FAILED_SQL),
        ),
        Index("ix_refund_attempts_provider", "gateway", "provider_refund_id"),
        Index(
            "ix_refund_attempts_check",
            "sent_at",
            "checked_at",
            sqlite_where=sql(SUCCEEDED_SQL),
            postgresql_where=sql(SUCCEEDED_SQL),
        ),
        one_of("status", AttemptStatus),
        positive("number"),
        positive("amount_minor"),
    )

    id: str = Field(sa_column=text(info=BOOKS, primary_key=True))
    request_id: str = Field(sa_column=_request_id())
    number: int
    round: int
    key: str = Field(sa_column=text(info=BOOKS))
    gateway: str = Field(sa_column=text(info=BOOKS))
    account: str = Field(sa_column=text(info=BOOKS))
    gateway_payment_id: str = Field(sa_column=text(info=BOOKS))
    amount_minor: int = Field(sa_column=minor())
    currency: str = Field(sa_column=text(info=BOOKS))
    status: str = Field(sa_column=text(info=TECHNICAL))
    created_at: datetime = Field(sa_column=instant())
    provider_refund_id: str | None = Field(sa_column=text(info=BOOKS, nullable=True))
    error_code: str | None = Field(sa_column=text(info=TECHNICAL, nullable=True))
    sent_at: datetime | None = Field(sa_column=instant(nullable=True))  # None: from before these
    checked_at: datetime | None = Field(sa_column=instant(nullable=True))

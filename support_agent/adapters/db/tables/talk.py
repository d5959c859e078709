"""Tables of what was said and what the agent did: conversations, messages, runs, steps, calls."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field

from support_agent.adapters.db.tables.checks import one_of
from support_agent.adapters.db.types import (
    BOOKS,
    PERSONAL,
    TECHNICAL,
    Table,
    counter,
    instant,
    json_column,
    real_seconds,
)
from support_agent.adapters.db.types import text as text_column  # a column is called `text`
from support_agent.domain.conversation import Author
from support_agent.domain.runs import RunStatus, StopReason

UNREAD = "run_id IS NULL AND author = 'customer'"


class ConversationRow(Table, table=True):
    """`next_seq` numbers the messages; `epoch` and `lease_until` say whose turn it is.

    `known` is what was remembered of the customer when it began, and what was added since: it never
    changes otherwise, for models are shown it. `erased_at`: its texts are gone, and it is closed.
    """

    __tablename__ = "conversations"
    __table_args__ = (
        sa.CheckConstraint("assurance IN (0, 1, 2)", name="assurance"),
        sa.CheckConstraint("language IN ('vi', 'en')", name="language"),
        sa.CheckConstraint("next_seq >= 1", name="next_seq"),
        sa.CheckConstraint("epoch >= 0", name="epoch"),
        sa.Index("ix_conversations_customer_id_id", "customer_id", "id"),
        sa.Index(
            "ix_conversations_kept",
            "created_at",
            sqlite_where=sa.text("erased_at IS NULL"),
            postgresql_where=sa.text("erased_at IS NULL"),
        ),
    )

    id: str = Field(sa_column=text_column(info=TECHNICAL, primary_key=True))
    channel: str = Field(sa_column=text_column(info=TECHNICAL))
    account: str = Field(sa_column=text_column(info=TECHNICAL))
    external_contact: str = Field(sa_column=text_column(info=PERSONAL))
    customer_id: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    assurance: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    language: str = Field(sa_column=text_column(info=TECHNICAL))
    created_at: datetime = Field(sa_column=instant())
    handed_off_at: float | None = Field(sa_column=real_seconds(nullable=True))
    next_seq: int = Field(sa_column=counter(default=1))
    epoch: int = Field(sa_column=counter())
    lease_until: float | None = Field(sa_column=real_seconds(nullable=True))
    known: str | None = Field(sa_column=text_column(info=PERSONAL, nullable=True))
    erased_at: datetime | None = Field(sa_column=instant(nullable=True))


class MessageRow(Table, table=True):
    """A message; `channel_message_id` is the channel's own, so that one delivered twice is one.

    A customer's is unread until a run has it. `operator`, `assurance` and `posted_at` (the
    database's clock) are kept for whoever answers it, maybe another process.
    """

    __tablename__ = "messages"
    __table_args__ = (
        sa.PrimaryKeyConstraint("conversation_id", "seq"),
        sa.UniqueConstraint("conversation_id", "channel_message_id"),
        one_of("author", Author),
        sa.CheckConstraint("seq >= 1", name="seq"),
        sa.Index(
            "ix_messages_unread",
            "conversation_id",
            "seq",
            sqlite_where=sa.text(UNREAD),
            postgresql_where=sa.text(UNREAD),
        ),
    )

    conversation_id: str = Field(
        sa_column=text_column(sa.ForeignKey("conversations.id"), info=TECHNICAL)
    )
    seq: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    author: str = Field(sa_column=text_column(info=TECHNICAL))
    text: str = Field(sa_column=text_column(info=PERSONAL))
    at: datetime = Field(sa_column=instant())
    run_id: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    channel_message_id: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    operator: str | None = Field(sa_column=text_column(info=BOOKS, nullable=True))
    assurance: int | None = Field(sa_column=sa.Column(sa.Integer, nullable=True))
    posted_at: float | None = Field(sa_column=real_seconds(nullable=True))
    # The last message there was when a run read it; None: it was the last itself.
    read_seq: int | None = Field(sa_column=sa.Column(sa.BigInteger, nullable=True))


def _of_status(status: RunStatus) -> sa.Index:
    """For listing runs of a state that few of them end in; the others are soon found without."""
    where = sa.text(f"status = '{status}'")
    name = f"ix_runs_{status}"
    return sa.Index(name, "status", "id", sqlite_where=where, postgresql_where=where)


class RunRow(Table, table=True):
    """One turn of the agent; a conversation has at most one that is running.

    `trigger_seq` is the last message it was started with. `attempts` counts the owners it had that
    did not get on with it.
    """

    __tablename__ = "runs"
    __table_args__ = (
        one_of("status", RunStatus),
        one_of("stop_reason", StopReason),
        sa.CheckConstraint("status <> 'running' OR stop_reason IS NULL", name="reason_at_the_end"),
        sa.CheckConstraint(
            "steps >= 0 AND consecutive_errors >= 0 AND requests >= 0 AND input_tokens >= 0"
            " AND output_tokens >= 0 AND cost_micros >= 0 AND epoch >= 0",
            name="counters",
        ),
        sa.Index("ix_runs_conversation_id_id", "conversation_id", "id"),
        sa.Index("ix_runs_conversation_id_trigger_seq", "conversation_id", "trigger_seq"),
        sa.Index(
            "uq_runs_running",
            "conversation_id",
            unique=True,
            sqlite_where=sa.text("status = 'running'"),
            postgresql_where=sa.text("status = 'running'"),
        ),
        *(
            _of_status(status)
            for status in (RunStatus.STOPPED, RunStatus.HANDED_OFF, RunStatus.DEAD)
        ),
    )

    id: str = Field(sa_column=text_column(info=TECHNICAL, primary_key=True))
    conversation_id: str = Field(
        sa_column=text_column(sa.ForeignKey("conversations.id"), info=TECHNICAL)
    )
    trigger_seq: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    status: str = Field(sa_column=text_column(info=TECHNICAL))
    stop_reason: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    operator: str | None = Field(sa_column=text_column(info=BOOKS, nullable=True))
    assurance: int = Field(sa_column=sa.Column(sa.Integer, nullable=False))
    started_at: datetime = Field(sa_column=instant())
    ended_at: datetime | None = Field(sa_column=instant(nullable=True))
    steps: int = Field(sa_column=counter())
    consecutive_errors: int = Field(sa_column=counter())
    requests: int = Field(sa_column=counter())
    input_tokens: int = Field(sa_column=counter())
    output_tokens: int = Field(sa_column=counter())
    cost_micros: int = Field(sa_column=counter())
    epoch: int = Field(sa_column=counter())
    attempts: int = Field(sa_column=counter(default=1))
    answer_seq: int | None = Field(sa_column=sa.Column(sa.BigInteger, nullable=True))


class StepRow(Table, table=True):
    """A committed decision. `text` is the answer or the question; the calls are rows of their own.

    `schema_version` says how a later reader has to understand the row.
    """

    __tablename__ = "steps"
    __table_args__ = (
        sa.PrimaryKeyConstraint("run_id", "number"),
        sa.CheckConstraint("kind IN ('call_tools', 'final_answer', 'ask_customer')", name="kind"),
        sa.CheckConstraint("number >= 1", name="number"),
        sa.CheckConstraint(
            "requests >= 0 AND input_tokens >= 0 AND output_tokens >= 0 AND cost_micros >= 0",
            name="counters",
        ),
    )

    run_id: str = Field(sa_column=text_column(sa.ForeignKey("runs.id"), info=TECHNICAL))
    number: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    schema_version: int = Field(sa_column=counter(default=1))
    kind: str = Field(sa_column=text_column(info=TECHNICAL))
    thought: str = Field(sa_column=text_column(info=PERSONAL))
    text: str = Field(sa_column=text_column(info=PERSONAL))
    provider_state: str | None = Field(sa_column=text_column(info=PERSONAL, nullable=True))
    requests: int = Field(sa_column=counter())
    input_tokens: int = Field(sa_column=counter())
    output_tokens: int = Field(sa_column=counter())
    cost_micros: int = Field(sa_column=counter())
    at: datetime = Field(sa_column=instant())


class ToolCallRow(Table, table=True):
    """A call and, once answered, its observation. `id` is `run_id:step:index`."""

    __tablename__ = "tool_calls"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["run_id", "step"],
            ["steps.run_id", "steps.number"],
        ),
        sa.UniqueConstraint("run_id", "step", "position"),
        sa.CheckConstraint("position >= 0", name="position"),
        sa.CheckConstraint(
            "(ok IS NULL) = (content IS NULL) AND (ok IS NULL) = (answered_at IS NULL)",
            name="answered_whole",
        ),
    )

    id: str = Field(sa_column=text_column(info=TECHNICAL, primary_key=True))
    run_id: str = Field(sa_column=text_column(info=TECHNICAL))
    step: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    position: int = Field(sa_column=sa.Column(sa.BigInteger, nullable=False))
    provider_id: str = Field(sa_column=text_column(info=TECHNICAL))
    name: str = Field(sa_column=text_column(info=TECHNICAL))
    arguments: str = Field(sa_column=text_column(info=PERSONAL))
    ok: bool | None = Field(sa_column=sa.Column(sa.Boolean, nullable=True))
    content: str | None = Field(sa_column=text_column(info=PERSONAL, nullable=True))
    error_code: str | None = Field(sa_column=text_column(info=TECHNICAL, nullable=True))
    quote_ids: list[str] | None = Field(sa_column=json_column(info=TECHNICAL, nullable=True))
    request_ids: list[str] | None = Field(sa_column=json_column(info=TECHNICAL, nullable=True))
    answered_at: float | None = Field(sa_column=real_seconds(nullable=True))

"""Durable conversations: an inbox, counted attempts, deliveries that are retried, what we remember.

Revision 0004.
"""

import sqlalchemy as sa

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

UNREAD = sa.text("run_id IS NULL AND author = 'customer'")
UNDELIVERED = sa.text("delivered_at IS NULL")
NOT_ERASED = sa.text("erased_at IS NULL")
LOOKED_FOR = ("stopped", "handed_off", "dead")  # states of runs that are few, and listed by state
# All of a payout destination but what privacy may erase.
OF_AN_ACCOUNT = "id, customer_id, bank, created_at, added_by"


def upgrade() -> None:
    # What a message is to be answered by, when another process than the one that took it answers.
    op.add_column("messages", sa.Column("operator", sa.Text(), nullable=True))
    # Who wrote for a customer may not decide; until now only the run said who that was.
    op.execute(
        "UPDATE messages SET operator = (SELECT operator FROM runs WHERE runs.id = messages.run_id)"
        " WHERE author = 'customer' AND run_id IS NOT NULL"
    )
    op.add_column("messages", sa.Column("assurance", sa.Integer(), nullable=True))
    op.add_column("messages", sa.Column("posted_at", sa.Double(), nullable=True))
    op.add_column("messages", sa.Column("read_seq", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_messages_unread",
        "messages",
        ["conversation_id", "seq"],
        sqlite_where=UNREAD,
        postgresql_where=UNREAD,
    )
    op.add_column(
        "runs", sa.Column("attempts", sa.BigInteger(), server_default="1", nullable=False)
    )
    for status in LOOKED_FOR:
        only = sa.text(f"status = '{status}'")
        op.create_index(
            f"ix_runs_{status}",
            "runs",
            ["status", "id"],
            sqlite_where=only,
            postgresql_where=only,
        )
    op.add_column("outbox", sa.Column("retry_at", sa.Double(), nullable=True))
    op.add_column("outbox", sa.Column("stream", sa.Text(), nullable=True))
    op.create_index(
        "ix_outbox_undelivered_stream",
        "outbox",
        ["stream", "seq"],
        sqlite_where=UNDELIVERED,
        postgresql_where=UNDELIVERED,
    )
    preferences()
    erasure()
    queue_schema()


def downgrade() -> None:
    """Messages that nobody has read yet stay, and are read with the next one; nothing else is lost."""
    op.drop_table("queue_schema")
    not_erasable()
    op.drop_table("preferences")
    op.drop_index("ix_outbox_undelivered_stream", "outbox")
    op.drop_column("outbox", "stream")
    op.drop_column("outbox", "retry_at")
    for status in LOOKED_FOR:
        op.drop_index(f"ix_runs_{status}", "runs")
    op.drop_column("runs", "attempts")
    op.drop_index("ix_messages_unread", "messages")
    op.drop_column("messages", "read_seq")
    op.drop_column("messages", "posted_at")
    op.drop_column("messages", "assurance")
    op.drop_column("messages", "operator")


def preferences() -> None:
    op.create_table(
        "preferences",
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("customer_id", "kind", name=op.f("pk_preferences")),
    )


def erasure() -> None:
    """What is remembered and erased of a conversation, and accounts that can be erased."""
    op.add_column("conversations", sa.Column("known", sa.Text(), nullable=True))
    op.add_column(
        "conversations", sa.Column("erased_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.create_index(
        "ix_conversations_kept",
        "conversations",
        ["created_at"],
        sqlite_where=NOT_ERASED,
        postgresql_where=NOT_ERASED,
    )
    op.create_index("ix_outbox_delivered", "outbox", ["delivered_at"])
    op.create_index("ix_provider_events_received_at", "provider_events", ["received_at"])
    op.add_column("payout_destinations", sa.Column("salt", sa.Text(), nullable=True))
    guard_destinations(erasable=True)


def not_erasable() -> None:
    guard_destinations(erasable=False)
    op.drop_column("payout_destinations", "salt")
    op.drop_index("ix_provider_events_received_at", "provider_events")
    op.drop_index("ix_outbox_delivered", "outbox")
    op.drop_index("ix_conversations_kept", "conversations")
    op.drop_column("conversations", "erased_at")
    op.drop_column("conversations", "known")


def guard_destinations(*, erasable: bool) -> None:
    """Append-only, but that number, holder and salt may be erased together."""
    table, update = "payout_destinations", f"UPDATE OF {OF_AN_ACCOUNT}" if erasable else "UPDATE"
    personal = "UPDATE OF account_number, holder, salt"
    not_empty = "NEW.account_number <> '' OR NEW.holder <> '' OR NEW.salt IS NOT NULL"
    if op.get_bind().dialect.name == "postgresql":
        refuse = "EXECUTE FUNCTION refuse_change()"
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {update} OR DELETE OR TRUNCATE "
            f"ON {table} FOR EACH STATEMENT {refuse}"
        )
        if erasable:
            op.execute(
                f"CREATE TRIGGER {table}_only_erased BEFORE {personal} ON {table} FOR EACH ROW "
                f"WHEN ({not_empty}) {refuse}"
            )
        else:
            op.execute(f"DROP TRIGGER {table}_only_erased ON {table}")
        return
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    op.execute(f"DROP TRIGGER {table}_no_update")
    op.execute(f"CREATE TRIGGER {table}_no_update BEFORE {update} ON {table} {refuse}")
    if erasable:
        op.execute(
            f"CREATE TRIGGER {table}_only_erased BEFORE {personal} ON {table} "
            f"WHEN {not_empty} {refuse}"
        )
    else:
        op.execute(f"DROP TRIGGER {table}_only_erased")


def queue_schema() -> None:
    """What the queue's own tables were made by, where there is a queue."""
    op.create_table(
        "queue_schema",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("queue", name=op.f("pk_queue_schema")),
    )

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


def upgrade() -> None:
    # What a message is to be answered by, when another process than the one that took it answers.
    op.add_column("messages", sa.Column("operator", sa.Text(), nullable=True))
    op.add_column("messages", sa.Column("assurance", sa.Integer(), nullable=True))
    op.add_column("messages", sa.Column("posted_at", sa.Double(), nullable=True))
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
    op.add_column("outbox", sa.Column("retry_at", sa.Double(), nullable=True))
    preferences()


def downgrade() -> None:
    """Messages that nobody has read yet stay, and are read with the next one; nothing else is lost."""
    op.drop_table("preferences")
    op.drop_column("outbox", "retry_at")
    op.drop_column("runs", "attempts")
    op.drop_index("ix_messages_unread", "messages")
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

"""Real models: an adapter's own state with each step, budgets of use, compacted conversations.

Revision 0003.
"""

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("steps", sa.Column("provider_state", sa.Text(), nullable=True))
    usage_counters()
    compactions()


def downgrade() -> None:
    """What models thought, what was used and what stood for old turns is lost; no money is."""
    op.drop_index("ix_runs_conversation_id_trigger_seq", "runs")
    op.drop_table("compactions")
    op.drop_table("usage_counters")
    op.drop_column("steps", "provider_state")


def usage_counters() -> None:
    counted = ("requests", "input_tokens", "output_tokens", "cost_micros")
    op.create_table(
        "usage_counters",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), server_default="0", nullable=False) for name in counted),
        sa.CheckConstraint(
            "scope IN ('conversation', 'customer', 'channel', 'installation')",
            name=op.f("ck_usage_counters_scope"),
        ),
        sa.CheckConstraint(
            "(scope = 'conversation') = (day = '')", name=op.f("ck_usage_counters_day")
        ),
        *(
            sa.CheckConstraint(f"{name} >= 0", name=op.f(f"ck_usage_counters_{name}"))
            for name in counted
        ),
        sa.PrimaryKeyConstraint("scope", "subject", "day", name=op.f("pk_usage_counters")),
    )
    op.create_index("ix_usage_counters_scope_day", "usage_counters", ["scope", "day"])


def compactions() -> None:
    def counter(name: str) -> sa.Column[int]:
        return sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)

    op.create_table(
        "compactions",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        counter("through_seq"),
        sa.Column("digested_run_id", sa.Text(), nullable=True),
        counter("digested_step"),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("masks", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Text(), nullable=False),
        counter("model_calls"),
        sa.CheckConstraint("made_by IN ('code', 'model')", name=op.f("ck_compactions_made_by")),
        sa.CheckConstraint(
            "number >= 1 AND through_seq >= 0 AND digested_step >= 0 AND model_calls >= 0",
            name=op.f("ck_compactions_counters"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_compactions_conversation_id_conversations"),
        ),
        sa.PrimaryKeyConstraint("conversation_id", "number", name=op.f("pk_compactions")),
    )
    # A run reads what lies behind the last cut, and no more.
    op.create_index(
        "ix_runs_conversation_id_trigger_seq", "runs", ["conversation_id", "trigger_seq"]
    )

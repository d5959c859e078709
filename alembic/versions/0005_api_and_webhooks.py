"""The HTTP API: keys, requests answered once, and events that are sent out.

Revision 0005.
"""

import sqlalchemy as sa

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NOT_FANNED = sa.text("fanned_at IS NULL")
PENDING = sa.text("state = 'pending'")
KINDS = "kind IN ('customer', 'operator', 'approver', 'staff', 'system')"


def upgrade() -> None:
    op.drop_table("principals")  # nothing ever wrote it: a key names whose it is
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("approver", sa.Text(), nullable=True),
        sa.Column("channel", sa.Text(), nullable=True),
        sa.Column("account", sa.Text(), nullable=True),
        sa.Column("assurance", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("assurance IN (0, 1, 2)", name=op.f("ck_api_keys_assurance")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("ix_api_keys_name", "api_keys", ["name"])
    op.create_table(
        "idempotency_keys",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=False),
        sa.Column("kept_until", sa.Double(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint(
            "principal", "customer_id", "route", "key", name=op.f("pk_idempotency_keys")
        ),
    )
    op.create_index("ix_idempotency_keys_kept_until", "idempotency_keys", ["kept_until"])
    webhooks()


def downgrade() -> None:
    """Keys and endpoints are gone after it; what was sent and answered stays sent and answered."""
    op.drop_index("ix_outbox_not_fanned", "outbox")
    op.drop_column("outbox", "fanned_at")
    op.drop_table("webhook_deliveries")
    op.drop_table("webhook_endpoints")
    op.drop_table("idempotency_keys")
    op.drop_table("api_keys")
    op.create_table(
        "principals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(KINDS, name=op.f("ck_principals_kind")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
    )


def webhooks() -> None:
    op.add_column("outbox", sa.Column("fanned_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE outbox SET fanned_at = created_at")  # nobody asked for what is past
    op.create_index(
        "ix_outbox_not_fanned",
        "outbox",
        ["seq"],
        sqlite_where=NOT_FANNED,
        postgresql_where=NOT_FANNED,
    )
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("previous_key_id", sa.Text(), nullable=True),
        sa.Column("generation", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("rotated_at", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.CheckConstraint("generation >= 1", name=op.f("ck_webhook_endpoints_generation")),
        sa.CheckConstraint(
            "state IN ('enabled', 'disabled')", name=op.f("ck_webhook_endpoints_state")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("claims", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("retry_at", sa.Double(), nullable=False),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'delivered', 'failed')",
            name=op.f("ck_webhook_deliveries_state"),
        ),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_webhook_deliveries_attempts")),
        sa.CheckConstraint("claims >= 0", name=op.f("ck_webhook_deliveries_claims")),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            ["webhook_endpoints.id"],
            name=op.f("fk_webhook_deliveries_endpoint_id_webhook_endpoints"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint(
            "endpoint_id", "event_id", name=op.f("uq_webhook_deliveries_endpoint_id_event_id")
        ),
    )
    op.create_index(
        "ix_webhook_deliveries_endpoint_id_id", "webhook_deliveries", ["endpoint_id", "id"]
    )
    op.create_index("ix_webhook_deliveries_ended_at", "webhook_deliveries", ["ended_at"])
    op.create_index(
        "ix_webhook_deliveries_pending",
        "webhook_deliveries",
        ["endpoint_id", "retry_at", "id"],
        sqlite_where=PENDING,
        postgresql_where=PENDING,
    )

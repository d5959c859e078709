"""The whole first schema, for both databases.

Revision 0001. Written out in full: no import of our tables, which move on.
"""

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = (
    "audit_events",
    "ledger_entries",
    "policies",
    "policy_activations",
    "refund_decisions",
    "installation",
)

TABLES = (
    "conversations",
    "messages",
    "runs",
    "steps",
    "tool_calls",
    "audit_events",
    "audit_head",
    "outbox",
    "tasks",
    "principals",
    "approvers",
    "policies",
    "policy_activations",
    "installation",
    "order_balances",
    "line_balances",
    "payment_balances",
    "cap_counters",
    "ledger_entries",
    "quotes",
    "refund_requests",
    "refund_decisions",
    "refund_attempts",
    "shop_customers",
    "shop_orders",
    "shop_order_lines",
    "shop_payments",
    "ledger_payouts",
)

# All of a decision but its note, which privacy may erase.
DECIDED = (
    "seq, id, request_id, round, choice, level, person_id, name, proof, fingerprint, "
    "amount_minor, currency, limit_minor, at, key_id, mac"
)


def upgrade() -> None:
    talk()
    trail()
    people()
    books()
    requests()
    shop()
    guard()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)  # its indexes and triggers go with it
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION refuse_change()")


def guard() -> None:
    """Append-only tables. SQLite has a trigger for one verb, PostgreSQL one for a function."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation';
END
$$
"""
        )
        for table in APPEND_ONLY:
            update = f"UPDATE OF {DECIDED}" if table == "refund_decisions" else "UPDATE"
            op.execute(
                f"CREATE TRIGGER {table}_append_only BEFORE {update} OR DELETE OR TRUNCATE "
                f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
            )
        op.execute(
            "CREATE TRIGGER refund_decisions_only_erased BEFORE UPDATE OF note "
            "ON refund_decisions FOR EACH ROW "
            "WHEN (NEW.note IS NOT NULL) EXECUTE FUNCTION refuse_change()"
        )
        return
    for table in APPEND_ONLY:
        update = f"UPDATE OF {DECIDED}" if table == "refund_decisions" else "UPDATE"
        for name, verb in ((f"{table}_no_update", update), (f"{table}_no_delete", "DELETE")):
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {verb} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    op.execute(
        "CREATE TRIGGER refund_decisions_only_erased BEFORE UPDATE OF note ON refund_decisions "
        "WHEN NEW.note IS NOT NULL "
        "BEGIN SELECT RAISE(ABORT, 'refund_decisions is append-only'); END"
    )


def talk() -> None:
    """What was said and what the agent did."""
    op.create_table(
        "conversations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("external_contact", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=True),
        sa.Column("assurance", sa.Integer(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("handed_off_at", sa.Double(), nullable=True),
        sa.Column("next_seq", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.CheckConstraint("language IN ('vi', 'en')", name=op.f("ck_conversations_language")),
        sa.CheckConstraint("assurance IN (0, 1, 2)", name=op.f("ck_conversations_assurance")),
        sa.CheckConstraint("epoch >= 0", name=op.f("ck_conversations_epoch")),
        sa.CheckConstraint("next_seq >= 1", name=op.f("ck_conversations_next_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    op.create_index("ix_conversations_customer_id_id", "conversations", ["customer_id", "id"])
    op.create_table(
        "messages",
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("channel_message_id", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "author IN ('customer', 'agent', 'notice', 'staff')", name=op.f("ck_messages_author")
        ),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_messages_seq")),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_messages_conversation_id_conversations"),
        ),
        sa.PrimaryKeyConstraint("conversation_id", "seq", name=op.f("pk_messages")),
        sa.UniqueConstraint(
            "conversation_id",
            "channel_message_id",
            name=op.f("uq_messages_conversation_id_channel_message_id"),
        ),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("trigger_seq", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("operator", sa.Text(), nullable=True),
        sa.Column("assurance", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("steps", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("consecutive_errors", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("answer_seq", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "status <> 'running' OR stop_reason IS NULL", name=op.f("ck_runs_reason_at_the_end")
        ),
        sa.CheckConstraint(
            "status IN ('running', 'waiting_customer', 'done', 'stopped', 'handed_off', 'dead')",
            name=op.f("ck_runs_status"),
        ),
        sa.CheckConstraint(
            "stop_reason IN ('answered', 'asked_customer', 'handed_off', 'max_steps', 'deadline', 'token_budget', 'cost_budget', 'repeated_errors', 'no_progress', 'model_unavailable', 'cancelled')",
            name=op.f("ck_runs_stop_reason"),
        ),
        sa.CheckConstraint(
            "steps >= 0 AND consecutive_errors >= 0 AND requests >= 0 AND input_tokens >= 0 AND output_tokens >= 0 AND cost_micros >= 0 AND epoch >= 0",
            name=op.f("ck_runs_counters"),
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_runs_conversation_id_conversations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
    )
    op.create_index("ix_runs_conversation_id_id", "runs", ["conversation_id", "id"])
    op.create_index(
        "uq_runs_running",
        "runs",
        ["conversation_id"],
        unique=True,
        sqlite_where=sa.text("status = 'running'"),
        postgresql_where=sa.text("status = 'running'"),
    )
    op.create_table(
        "steps",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("schema_version", sa.BigInteger(), server_default="1", nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("thought", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('call_tools', 'final_answer', 'ask_customer')", name=op.f("ck_steps_kind")
        ),
        sa.CheckConstraint("number >= 1", name=op.f("ck_steps_number")),
        sa.CheckConstraint(
            "requests >= 0 AND input_tokens >= 0 AND output_tokens >= 0 AND cost_micros >= 0",
            name=op.f("ck_steps_counters"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_steps_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_steps")),
    )
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("provider_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("ok", sa.Boolean(), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("quote_ids", sa.Text(), nullable=True),
        sa.Column("request_ids", sa.Text(), nullable=True),
        sa.Column("answered_at", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "(ok IS NULL) = (content IS NULL) AND (ok IS NULL) = (answered_at IS NULL)",
            name=op.f("ck_tool_calls_answered_whole"),
        ),
        sa.CheckConstraint("position >= 0", name=op.f("ck_tool_calls_position")),
        sa.ForeignKeyConstraint(
            ["run_id", "step"],
            ["steps.run_id", "steps.number"],
            name=op.f("fk_tool_calls_run_id_step_steps"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_calls")),
        sa.UniqueConstraint(
            "run_id", "step", "position", name=op.f("uq_tool_calls_run_id_step_position")
        ),
    )


def trail() -> None:
    """The audit chain with its head, events to the outside, staff tasks."""
    op.create_table(
        "audit_events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("actor_id", sa.Text(), nullable=False),
        sa.Column("actor_person_id", sa.Text(), nullable=True),
        sa.Column("actor_proof", sa.Text(), nullable=False),
        sa.Column("actor_via", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("prev_mac", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_audit_events_seq")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit_events")),
        sa.UniqueConstraint("mac", name=op.f("uq_audit_events_mac")),
        sa.UniqueConstraint("prev_mac", name=op.f("uq_audit_events_prev_mac")),
    )
    op.create_index("ix_audit_events_subject_seq", "audit_events", ["subject", "seq"])
    op.create_table(
        "audit_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_audit_head_one_row")),
        sa.CheckConstraint("seq >= 0", name=op.f("ck_audit_head_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_head")),
    )
    op.create_table(
        "outbox",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_outbox_attempts")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_outbox")),
        sa.UniqueConstraint("key", name=op.f("uq_outbox_key")),
    )
    op.create_index(
        "ix_outbox_undelivered",
        "outbox",
        ["seq"],
        sqlite_where=sa.text("delivered_at IS NULL"),
        postgresql_where=sa.text("delivered_at IS NULL"),
    )
    op.create_table(
        "tasks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_tasks_conversation_id_conversations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
    )
    op.create_index(
        "ix_tasks_open",
        "tasks",
        ["created_at", "id"],
        sqlite_where=sa.text("done_at IS NULL"),
        postgresql_where=sa.text("done_at IS NULL"),
    )
    op.execute("INSERT INTO audit_head (id, seq, mac) VALUES (1, 0, 'genesis')")


def people() -> None:
    """Who acts, by which rules, and which installation this is."""
    op.create_table(
        "principals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('customer', 'operator', 'approver', 'staff', 'system')",
            name=op.f("ck_principals_kind"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_principals")),
    )
    op.create_table(
        "approvers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("customer_ids", sa.Text(), nullable=False),
        sa.Column("disabled", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=True),
        sa.CheckConstraint("level >= 1", name=op.f("ck_approvers_level")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_approvers")),
    )
    op.create_table(
        "policies",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("valid_from", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_policies_version")),
        sa.PrimaryKeyConstraint("id", "version", name=op.f("pk_policies")),
    )
    op.create_table(
        "policy_activations",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("policy_id", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("activated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("activated_by", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["policy_id", "version"],
            ["policies.id", "policies.version"],
            name=op.f("fk_policy_activations_policy_id_version_policies"),
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_policy_activations")),
    )
    op.create_table(
        "installation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("installation_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('demo', 'live')", name=op.f("ck_installation_kind")),
        sa.CheckConstraint("id = 1", name=op.f("ck_installation_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )


def books() -> None:
    """Balances and the ledger behind them."""
    op.create_table(
        "order_balances",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("captured_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("overdrawn_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint("captured_minor >= 0", name=op.f("ck_order_balances_captured_minor")),
        sa.CheckConstraint("overdrawn_minor >= 0", name=op.f("ck_order_balances_overdrawn_minor")),
        sa.CheckConstraint("refunded_minor >= 0", name=op.f("ck_order_balances_refunded_minor")),
        sa.CheckConstraint(
            "reserved_minor + refunded_minor <= captured_minor + overdrawn_minor",
            name=op.f("ck_order_balances_room"),
        ),
        sa.CheckConstraint("reserved_minor >= 0", name=op.f("ck_order_balances_reserved_minor")),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_order_balances")),
    )
    op.create_table(
        "line_balances",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("line_id", sa.Text(), nullable=False),
        sa.Column("total_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("reserved_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved_units", sa.Integer(), nullable=False),
        sa.Column("refunded_units", sa.Integer(), nullable=False),
        sa.CheckConstraint("quantity >= 0", name=op.f("ck_line_balances_quantity")),
        sa.CheckConstraint("refunded_minor >= 0", name=op.f("ck_line_balances_refunded_minor")),
        sa.CheckConstraint("refunded_units >= 0", name=op.f("ck_line_balances_refunded_units")),
        sa.CheckConstraint(
            "reserved_minor + refunded_minor <= total_minor", name=op.f("ck_line_balances_room")
        ),
        sa.CheckConstraint("reserved_minor >= 0", name=op.f("ck_line_balances_reserved_minor")),
        sa.CheckConstraint(
            "reserved_units + refunded_units <= quantity", name=op.f("ck_line_balances_units")
        ),
        sa.CheckConstraint("reserved_units >= 0", name=op.f("ck_line_balances_reserved_units")),
        sa.CheckConstraint("total_minor >= 0", name=op.f("ck_line_balances_total_minor")),
        sa.PrimaryKeyConstraint("order_id", "line_id", name=op.f("pk_line_balances")),
    )
    op.create_table(
        "payment_balances",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("gateway_payment_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("captured_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserved_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("refunded_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("charged_back_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("overdrawn_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("disputed", sa.Boolean(), nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.CheckConstraint("captured_minor >= 0", name=op.f("ck_payment_balances_captured_minor")),
        sa.CheckConstraint(
            "charged_back_minor >= 0", name=op.f("ck_payment_balances_charged_back_minor")
        ),
        sa.CheckConstraint(
            "overdrawn_minor >= 0", name=op.f("ck_payment_balances_overdrawn_minor")
        ),
        sa.CheckConstraint("refunded_minor >= 0", name=op.f("ck_payment_balances_refunded_minor")),
        sa.CheckConstraint(
            "reserved_minor + refunded_minor + charged_back_minor <= captured_minor + overdrawn_minor",
            name=op.f("ck_payment_balances_room"),
        ),
        sa.CheckConstraint("reserved_minor >= 0", name=op.f("ck_payment_balances_reserved_minor")),
        sa.PrimaryKeyConstraint("order_id", "payment_id", name=op.f("pk_payment_balances")),
        sa.UniqueConstraint(
            "gateway", "account", "gateway_payment_id", name="uq_payment_balances_gateway_payment"
        ),
    )
    op.create_table(
        "cap_counters",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("used_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(
            "scope IN ('customer', 'installation', 'approver')", name=op.f("ck_cap_counters_scope")
        ),
        sa.CheckConstraint("used_minor >= 0", name=op.f("ck_cap_counters_used_minor")),
        sa.PrimaryKeyConstraint(
            "scope", "subject", "day", "currency", name=op.f("pk_cap_counters")
        ),
    )
    op.create_table(
        "ledger_entries",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("account_kind", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("sub_id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("units", sa.Integer(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "account_kind IN ('order', 'line', 'payment', 'cap')",
            name=op.f("ck_ledger_entries_account_kind"),
        ),
        sa.CheckConstraint(
            "kind IN ('RESERVE', 'RELEASE', 'SETTLE', 'REVERSE', 'EXTERNAL', 'CHARGEBACK', 'CHARGEBACK_REVERSED', 'MANUAL')",
            name=op.f("ck_ledger_entries_kind"),
        ),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_ledger_entries_amount_minor")),
        sa.CheckConstraint("units >= 0", name=op.f("ck_ledger_entries_units")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger_entries")),
        sa.UniqueConstraint(
            "request_id",
            "round",
            "kind",
            "account_kind",
            "account_id",
            "sub_id",
            name="uq_ledger_entries_posting",
        ),
    )
    op.create_index("ix_ledger_entries_account", "ledger_entries", ["account_id", "sub_id"])


def requests() -> None:
    """Quotes, requests, decisions and attempts to pay."""
    op.create_table(
        "quotes",
        sa.Column(
            "created_seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("required_level", sa.Integer(), nullable=False),
        sa.Column("policy_id", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("shown_seq", sa.Integer(), nullable=True),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "method IN ('CARD', 'WALLET', 'GIFT_CARD', 'COD', 'BANK_TRANSFER')",
            name=op.f("ck_quotes_method"),
        ),
        sa.CheckConstraint(
            "verdict IN ('ELIGIBLE', 'PARTIAL', 'INELIGIBLE', 'NEEDS_REVIEW')",
            name=op.f("ck_quotes_verdict"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_quotes_amount_minor")),
        sa.CheckConstraint("required_level >= 0", name=op.f("ck_quotes_required_level")),
        sa.PrimaryKeyConstraint("created_seq", name=op.f("pk_quotes")),
        sa.UniqueConstraint("id", name=op.f("uq_quotes_id")),
    )
    op.create_index("ix_quotes_conversation_id", "quotes", ["conversation_id"])
    op.create_table(
        "refund_requests",
        sa.Column(
            "created_seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("quote_id", sa.Text(), nullable=False),
        sa.Column("group_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("payment_id", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("gateway_payment_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("required_level", sa.Integer(), nullable=False),
        sa.Column("approvals_needed", sa.Integer(), nullable=False),
        sa.Column("policy_id", sa.Text(), nullable=False),
        sa.Column("policy_version", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("consent", sa.Text(), nullable=False),
        sa.Column("requester_kind", sa.Text(), nullable=False),
        sa.Column("requester_id", sa.Text(), nullable=False),
        sa.Column("requester_person_id", sa.Text(), nullable=True),
        sa.Column("requester_proof", sa.Text(), nullable=False),
        sa.Column("requester_via", sa.Text(), nullable=False),
        sa.Column("operator", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queue_rank", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "method IN ('CARD', 'WALLET', 'GIFT_CARD', 'COD', 'BANK_TRANSFER')",
            name=op.f("ck_refund_requests_method"),
        ),
        sa.CheckConstraint(
            "requester_kind IN ('customer', 'operator', 'approver', 'staff', 'system')",
            name=op.f("ck_refund_requests_requester_kind"),
        ),
        sa.CheckConstraint(
            "requester_proof IN ('token', 'asserted', 'channel', 'system')",
            name=op.f("ck_refund_requests_requester_proof"),
        ),
        sa.CheckConstraint(
            "status IN ('PENDING_APPROVAL', 'APPROVED', 'PAYING', 'PROVIDER_PENDING', 'IN_DOUBT', 'MANUAL_REVIEW', 'REFUNDED', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED')",
            name=op.f("ck_refund_requests_status"),
        ),
        sa.CheckConstraint(
            "verdict IN ('ELIGIBLE', 'PARTIAL', 'INELIGIBLE', 'NEEDS_REVIEW')",
            name=op.f("ck_refund_requests_verdict"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refund_requests_amount_minor")),
        sa.CheckConstraint(
            "approvals_needed > 0", name=op.f("ck_refund_requests_approvals_needed")
        ),
        sa.CheckConstraint("required_level >= 0", name=op.f("ck_refund_requests_required_level")),
        sa.CheckConstraint("round > 0", name=op.f("ck_refund_requests_round")),
        sa.CheckConstraint("version > 0", name=op.f("ck_refund_requests_version")),
        sa.PrimaryKeyConstraint("created_seq", name=op.f("pk_refund_requests")),
        sa.UniqueConstraint("id", name=op.f("uq_refund_requests_id")),
        sa.UniqueConstraint("quote_id", name=op.f("uq_refund_requests_quote_id")),
    )
    op.create_index(
        "ix_refund_requests_customer", "refund_requests", ["customer_id", "created_seq"]
    )
    op.create_index("ix_refund_requests_order", "refund_requests", ["order_id", "created_seq"])
    op.create_index(
        "ix_refund_requests_queue",
        "refund_requests",
        ["queue_rank", "id"],
        sqlite_where=sa.text("status = 'PENDING_APPROVAL'"),
        postgresql_where=sa.text("status = 'PENDING_APPROVAL'"),
    )
    op.create_index(
        "ix_refund_requests_status",
        "refund_requests",
        ["status", "created_seq"],
        sqlite_where=sa.text("status <> 'PENDING_APPROVAL'"),
        postgresql_where=sa.text("status <> 'PENDING_APPROVAL'"),
    )
    op.create_table(
        "refund_decisions",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("choice", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("person_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("limit_minor", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "choice IN ('approve', 'reject', 'auto')", name=op.f("ck_refund_decisions_choice")
        ),
        sa.CheckConstraint(
            "proof IN ('token', 'asserted', 'channel', 'system')",
            name=op.f("ck_refund_decisions_proof"),
        ),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_refund_decisions_amount_minor")),
        sa.CheckConstraint("level >= 0", name=op.f("ck_refund_decisions_level")),
        sa.ForeignKeyConstraint(
            ["request_id"],
            ["refund_requests.id"],
            name=op.f("fk_refund_decisions_request_id_refund_requests"),
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_refund_decisions")),
        sa.UniqueConstraint("id", name=op.f("uq_refund_decisions_id")),
        sa.UniqueConstraint(
            "request_id",
            "round",
            "person_id",
            name=op.f("uq_refund_decisions_request_id_round_person_id"),
        ),
    )
    op.create_table(
        "refund_attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("gateway_payment_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("provider_refund_id", sa.Text(), nullable=True),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('CREATED', 'SUCCEEDED', 'PENDING', 'UNKNOWN', 'FAILED')",
            name=op.f("ck_refund_attempts_status"),
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_refund_attempts_amount_minor")),
        sa.CheckConstraint("number > 0", name=op.f("ck_refund_attempts_number")),
        sa.ForeignKeyConstraint(
            ["request_id"],
            ["refund_requests.id"],
            name=op.f("fk_refund_attempts_request_id_refund_requests"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refund_attempts")),
        sa.UniqueConstraint("key", name=op.f("uq_refund_attempts_key")),
        sa.UniqueConstraint(
            "request_id", "number", name=op.f("uq_refund_attempts_request_id_number")
        ),
    )
    op.create_index(
        "uq_refund_attempts_live",
        "refund_attempts",
        ["request_id"],
        unique=True,
        sqlite_where=sa.text("status <> 'FAILED'"),
        postgresql_where=sa.text("status <> 'FAILED'"),
    )


def shop() -> None:
    """The sample shop and the ledger gateway's own book."""
    op.create_table(
        "shop_customers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("language", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shop_customers")),
    )
    op.create_table(
        "shop_orders",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delivered_on", sa.Date(), nullable=True),
        sa.Column("shipping_address", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "delivered_at IS NULL OR delivered_on IS NULL", name=op.f("ck_shop_orders_delivery")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shop_orders")),
    )
    op.create_index("ix_shop_orders_customer", "shop_orders", ["customer_id", "placed_at", "id"])
    op.create_table(
        "shop_order_lines",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("quantity", sa.Integer(), nullable=False),
        sa.Column("unit_price_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("discount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("returnable", sa.Boolean(), nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delivered_on", sa.Date(), nullable=True),
        sa.Column("variant_id", sa.Text(), nullable=True),
        sa.Column("options", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "delivered_at IS NULL OR delivered_on IS NULL",
            name=op.f("ck_shop_order_lines_delivery"),
        ),
        sa.CheckConstraint("discount_minor >= 0", name=op.f("ck_shop_order_lines_discount_minor")),
        sa.CheckConstraint("quantity >= 0", name=op.f("ck_shop_order_lines_quantity")),
        sa.CheckConstraint(
            "unit_price_minor >= 0", name=op.f("ck_shop_order_lines_unit_price_minor")
        ),
        sa.ForeignKeyConstraint(
            ["order_id"], ["shop_orders.id"], name=op.f("fk_shop_order_lines_order_id_shop_orders")
        ),
        sa.PrimaryKeyConstraint("order_id", "id", name=op.f("pk_shop_order_lines")),
    )
    op.create_table(
        "shop_payments",
        sa.Column("order_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("gateway_payment_id", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("captured_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("disputed", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "method IN ('CARD', 'WALLET', 'GIFT_CARD', 'COD', 'BANK_TRANSFER')",
            name=op.f("ck_shop_payments_method"),
        ),
        sa.CheckConstraint("captured_minor >= 0", name=op.f("ck_shop_payments_captured_minor")),
        sa.ForeignKeyConstraint(
            ["order_id"], ["shop_orders.id"], name=op.f("fk_shop_payments_order_id_shop_orders")
        ),
        sa.PrimaryKeyConstraint("order_id", "id", name=op.f("pk_shop_payments")),
        sa.UniqueConstraint(
            "gateway", "account", "gateway_payment_id", name="uq_shop_payments_gateway_payment"
        ),
    )
    op.create_table(
        "ledger_payouts",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("provider_refund_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("gateway_payment_id", sa.Text(), nullable=False),
        sa.Column("amount_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column(
            "recorded_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("CURRENT_TIMESTAMP"),
            nullable=False,
        ),
        sa.CheckConstraint("amount_minor > 0", name=op.f("ck_ledger_payouts_amount_minor")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger_payouts")),
        sa.UniqueConstraint("key", name=op.f("uq_ledger_payouts_key")),
    )
    op.create_index(
        "ix_ledger_payouts_payment", "ledger_payouts", ["gateway", "account", "gateway_payment_id"]
    )

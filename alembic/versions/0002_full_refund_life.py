"""The full refund life: retries, escalation, manual payment, kill switches, provider events.

Revision 0002. Two tables get wider CHECKs: SQLite has to make those anew, with rows and triggers.
"""

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PENDING = sa.text("status = 'PENDING_APPROVAL'")
SUCCEEDED = sa.text("status = 'SUCCEEDED'")
EVIDENCE = sa.text("evidence IS NOT NULL")

SCOPES = ("customer", "installation", "approver")
CHOICES = ("approve", "reject", "auto")

# All of a decision but its note, which privacy may erase.
DECIDED = (
    "seq, id, request_id, round, choice, level, person_id, name, proof, fingerprint, "
    "amount_minor, currency, limit_minor, at, key_id, mac"
)


def upgrade() -> None:
    requests()
    trail()
    shop()
    new_tables()
    caps((*SCOPES, "pair"))
    decisions((*CHOICES, "reduce", "paid", "not_paid"), evidence=True)
    guard_destinations()
    books()


def downgrade() -> None:
    """Rows that only this revision can hold are lost, and so are pair caps and proofs.

    Not once an audit event has signed a root: without it the event verifies under no program, and
    the history that vouches for everything else would be broken for good.
    """
    signed = sa.text("SELECT seq FROM audit_events WHERE root IS NOT NULL LIMIT 1")
    if op.get_bind().execute(signed).first() is not None:
        raise RuntimeError(
            "the history was signed by revision 0002 and cannot be read by an older one; "
            "to go back, restore the backup from before the upgrade"
        )
    op.drop_column("payment_balances", "disputed_at_gateway")
    decisions(CHOICES, evidence=False)
    caps(SCOPES)
    for table in ("provider_events", "payout_destinations", "switches"):
        op.drop_table(table)
    for column in ("promotion_minor", "received_units", "kind"):
        op.drop_column("shop_order_lines", column)
    op.drop_column("shop_orders", "promotion")
    for table in ("audit_nodes", "audit_entries"):
        op.drop_table(table)
    op.drop_column("audit_events", "root")
    op.drop_column("tasks", "done_by")
    op.drop_column("tasks", "due_at")
    op.drop_index("ix_refund_attempts_check", "refund_attempts")
    op.drop_index("ix_refund_attempts_provider", "refund_attempts")
    op.drop_column("refund_attempts", "checked_at")
    op.drop_column("refund_attempts", "sent_at")
    op.drop_column("quotes", "deduction_minor")
    op.drop_index("ix_refund_requests_group", "refund_requests")
    op.drop_index("ix_refund_requests_queue_level", "refund_requests")
    op.drop_index("ix_refund_requests_queue_customer", "refund_requests")
    op.drop_index("ix_refund_requests_due", "refund_requests")
    for column in (
        *("moved_at", "retried_by", "attempt_at", "attempt_no", "asked_at", "escalations"),
        *("filed_minor", "due_at"),
    ):
        op.drop_column("refund_requests", column)


def requests() -> None:
    def instant(name: str) -> sa.Column[object]:
        return sa.Column(name, sa.DateTime(timezone=True), nullable=True)

    def number(name: str, default: str) -> sa.Column[object]:
        return sa.Column(name, sa.BigInteger(), server_default=default, nullable=False)

    for column in (
        instant("due_at"),
        number("filed_minor", "0"),
        number("escalations", "0"),
        instant("asked_at"),
        number("attempt_no", "1"),
        instant("attempt_at"),
        sa.Column("retried_by", sa.Text(), nullable=True),
        instant("moved_at"),
    ):
        op.add_column("refund_requests", column)
    op.execute("UPDATE refund_requests SET filed_minor = amount_minor")
    op.create_index(
        "ix_refund_requests_due",
        "refund_requests",
        ["due_at", "id"],
        sqlite_where=PENDING,
        postgresql_where=PENDING,
    )
    for name, column in (("customer", "customer_id"), ("level", "required_level")):
        op.create_index(
            f"ix_refund_requests_queue_{name}",
            "refund_requests",
            [column, "queue_rank", "id"],
            sqlite_where=PENDING,
            postgresql_where=PENDING,
        )
    op.create_index("ix_refund_requests_group", "refund_requests", ["group_id"])
    op.add_column("quotes", number("deduction_minor", "0"))
    op.add_column("refund_attempts", instant("sent_at"))
    op.add_column("refund_attempts", instant("checked_at"))
    op.create_index(
        "ix_refund_attempts_provider", "refund_attempts", ["gateway", "provider_refund_id"]
    )
    op.create_index(
        "ix_refund_attempts_check",
        "refund_attempts",
        ["sent_at", "checked_at"],
        sqlite_where=SUCCEEDED,
        postgresql_where=SUCCEEDED,
    )


def trail() -> None:
    op.add_column("tasks", sa.Column("due_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("tasks", sa.Column("done_by", sa.Text(), nullable=True))
    op.add_column("audit_events", sa.Column("root", sa.Text(), nullable=True))
    op.create_table(
        "audit_entries",
        sa.Column("bucket", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("bucket", "topic", "subject", name=op.f("pk_audit_entries")),
    )
    op.create_table(
        "audit_nodes",
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("children", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("level", "position", name=op.f("pk_audit_nodes")),
    )


def shop() -> None:
    op.add_column("shop_orders", sa.Column("promotion", sa.Text(), nullable=True))
    op.add_column(
        "shop_order_lines", sa.Column("kind", sa.Text(), server_default="goods", nullable=False)
    )
    op.add_column("shop_order_lines", sa.Column("received_units", sa.Integer(), nullable=True))
    op.add_column(
        "shop_order_lines",
        sa.Column("promotion_minor", sa.BigInteger(), server_default="0", nullable=False),
    )


def new_tables() -> None:
    op.create_table(
        "switches",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.CheckConstraint("name IN ('payouts', 'auto_approval')", name=op.f("ck_switches_name")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_switches")),
    )
    op.create_table(
        "payout_destinations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("customer_id", sa.Text(), nullable=False),
        sa.Column("bank", sa.Text(), nullable=False),
        sa.Column("account_number", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payout_destinations")),
    )
    op.create_index(
        "ix_payout_destinations_customer", "payout_destinations", ["customer_id", "created_at"]
    )
    op.create_table(
        "provider_events",
        sa.Column("gateway", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("gateway", "event_id", name=op.f("pk_provider_events")),
    )


def books() -> None:
    """A dispute that the gateway told of must not be undone by what the shop says."""
    column = sa.Column(
        "disputed_at_gateway", sa.Boolean(), server_default=sa.false(), nullable=False
    )
    op.add_column("payment_balances", column)


def caps(scopes: tuple[str, ...]) -> None:
    check = _one_of("scope", scopes)
    if on_postgres():
        op.execute(f"DELETE FROM cap_counters WHERE NOT ({check})")  # noqa: S608 - our own words
        op.drop_constraint(op.f("ck_cap_counters_scope"), "cap_counters", type_="check")
        op.create_check_constraint("scope", "cap_counters", check)
        return
    op.create_table(
        "cap_counters_new",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("day", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("used_minor", sa.BigInteger(), server_default="0", nullable=False),
        sa.CheckConstraint(check, name=op.f("ck_cap_counters_scope")),
        sa.CheckConstraint("used_minor >= 0", name=op.f("ck_cap_counters_used_minor")),
        sa.PrimaryKeyConstraint(
            "scope", "subject", "day", "currency", name=op.f("pk_cap_counters")
        ),
    )
    _take_over("cap_counters", "scope, subject, day, currency, used_minor", check)


def decisions(choices: tuple[str, ...], *, evidence: bool) -> None:
    """Wider or narrower choices, with or without `evidence`, and the triggers that fit them."""
    check = _one_of("choice", choices)
    if on_postgres():
        _decisions_on_postgres(check, evidence=evidence)
        return
    columns = f"{DECIDED}, note" + (", evidence" if evidence else "")
    if evidence:
        op.add_column("refund_decisions", sa.Column("evidence", sa.Text(), nullable=True))
    op.create_table(
        "refund_decisions_new",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
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
        *([sa.Column("evidence", sa.Text(), nullable=True)] if evidence else []),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("mac", sa.Text(), nullable=False),
        sa.CheckConstraint("amount_minor >= 0", name=op.f("ck_refund_decisions_amount_minor")),
        sa.CheckConstraint(check, name=op.f("ck_refund_decisions_choice")),
        sa.CheckConstraint("level >= 0", name=op.f("ck_refund_decisions_level")),
        sa.CheckConstraint(
            "proof IN ('token', 'asserted', 'channel', 'system')",
            name=op.f("ck_refund_decisions_proof"),
        ),
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
    _take_over("refund_decisions", columns, check)
    if evidence:
        _index_evidence()
    refuse = "BEGIN SELECT RAISE(ABORT, 'refund_decisions is append-only'); END"
    for name, event in (
        ("no_update", f"UPDATE OF {_fixed(evidence=evidence)} ON refund_decisions"),
        ("no_delete", "DELETE ON refund_decisions"),
        ("only_erased", "UPDATE OF note ON refund_decisions WHEN NEW.note IS NOT NULL"),
    ):
        op.execute(f"CREATE TRIGGER refund_decisions_{name} BEFORE {event} {refuse}")


def _decisions_on_postgres(check: str, *, evidence: bool) -> None:
    op.execute("DROP TRIGGER refund_decisions_append_only ON refund_decisions")
    if evidence:
        op.add_column("refund_decisions", sa.Column("evidence", sa.Text(), nullable=True))
        _index_evidence()
    else:
        op.execute(f"DELETE FROM refund_decisions WHERE NOT ({check})")  # noqa: S608 - our own
        op.drop_index("uq_refund_decisions_evidence", "refund_decisions")
        op.drop_column("refund_decisions", "evidence")
    op.drop_constraint(op.f("ck_refund_decisions_choice"), "refund_decisions", type_="check")
    op.create_check_constraint("choice", "refund_decisions", check)
    op.execute(
        "CREATE TRIGGER refund_decisions_append_only "
        f"BEFORE UPDATE OF {_fixed(evidence=evidence)} OR DELETE OR TRUNCATE "
        "ON refund_decisions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )


def _index_evidence() -> None:
    op.create_index(
        "uq_refund_decisions_evidence",
        "refund_decisions",
        ["evidence"],
        unique=True,
        sqlite_where=EVIDENCE,
        postgresql_where=EVIDENCE,
    )


def _fixed(*, evidence: bool) -> str:
    return DECIDED.replace(", key_id", ", evidence, key_id") if evidence else DECIDED


def _take_over(table: str, columns: str, kept: str) -> None:
    """Rows that still fit move into the new table, which then bears the old one's name."""
    op.execute(
        f"INSERT INTO {table}_new ({columns}) SELECT {columns} FROM {table} WHERE {kept}"  # noqa: S608
    )
    op.drop_table(table)  # its indexes and triggers go with it
    op.rename_table(f"{table}_new", table)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


def guard_destinations() -> None:
    if on_postgres():
        op.execute(
            "CREATE TRIGGER payout_destinations_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
            "ON payout_destinations FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
        return
    for name, verb in (("no_update", "UPDATE"), ("no_delete", "DELETE")):
        op.execute(
            f"CREATE TRIGGER payout_destinations_{name} BEFORE {verb} ON payout_destinations "
            "BEGIN SELECT RAISE(ABORT, 'payout_destinations is append-only'); END"
        )


def on_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"

"""What is written for the books and the audit stays as it was written, on both databases."""

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive, upgrade
from support_agent.adapters.db.tables import metadata
from support_agent.adapters.db.triggers import APPEND_ONLY, ERASABLE
from support_agent.adapters.db.types import PERSONAL
from support_agent.domain.approvals import Choice
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.policy import Verdict
from support_agent.domain.refunds import LedgerKind, RequestStatus
from support_agent.testing.postgres import fresh_database

NOW = datetime(2026, 10, 13, 3, tzinfo=UTC)

# A row for each append-only table, and what it points to.
REQUEST = {
    "id": "req_1", "quote_id": "quote_1", "group_id": "group_1", "customer_id": "C001",
    "order_id": "A100", "payment_id": "P1", "gateway": "ledger", "account": "default",
    "gateway_payment_id": "GP1", "method": PaymentMethod.CARD, "lines": [], "amount_minor": 1, "currency": "VND",
    "destination": "card", "verdict": Verdict.ELIGIBLE, "reasons": [], "required_level": 0,
    "approvals_needed": 1, "policy_id": "standard", "policy_version": 1, "fingerprint": "f",
    "consent": "yes", "requester_kind": "customer", "requester_id": "C001",
    "requester_proof": "channel", "requester_via": "cli", "status": RequestStatus.PENDING_APPROVAL,
    "version": 1, "round": 1, "created_at": NOW, "expires_at": NOW, "queue_rank": 1,
}  # fmt: skip
ROWS = {
    "refund_decisions": {
        "id": "dec_1", "request_id": "req_1", "round": 1, "choice": Choice.APPROVE, "level": 1,
        "person_id": "p1", "name": "lan", "proof": "token", "fingerprint": "f", "amount_minor": 1,
        "currency": "VND", "at": NOW, "key_id": "k1", "mac": "m",
    },
    "ledger_entries": {
        "kind": LedgerKind.RESERVE, "account_kind": "order", "account_id": "A100", "sub_id": "", "round": 1,
        "request_id": "req_1", "amount_minor": 1, "units": 0, "currency": "VND", "at": NOW,
    },
    "audit_events": {
        "seq": 1, "action": "test.done", "actor_kind": "system", "actor_id": "system",
        "actor_proof": "system", "actor_via": "system", "subject": "s", "at": NOW, "data": {},
        "prev_mac": "genesis", "key_id": "k1", "mac": "m",
    },
    "policies": {"id": "standard", "version": 1, "hash": "h", "body": {}, "valid_from": NOW},
    "payout_destinations": {
        "id": "dst_1", "customer_id": "C001", "bank": "VCB", "account_number": "0123456789",
        "holder": "Nguyen Van An", "created_at": NOW, "added_by": "lan", "salt": "s",
    },
    "policy_activations": {
        "policy_id": "standard", "version": 1, "activated_at": NOW, "activated_by": "lan",
    },
}  # fmt: skip


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def filled_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests here: whatever they try is refused."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('filled') / 'shop.db'}"
    else:
        url = fresh_database(request.getfixturevalue("postgres"))
    upgrade(url, live=False)
    with exclusive(url) as connection:
        connection.execute(sa.insert(metadata.tables["refund_requests"]), REQUEST)
        for name, row in ROWS.items():
            connection.execute(sa.insert(metadata.tables[name]), row)
    return url


def attempts(table: sa.Table, url: str) -> list[sa.Executable]:
    """Every way to change what is written, without getting at the trigger itself."""
    column, *_ = table.primary_key.columns  # others may be erased
    ways: list[sa.Executable] = [
        sa.update(table).values({column.name: column}),
        sa.delete(table),
    ]
    if url.startswith("sqlite"):
        itself = sa.insert(table).from_select(list(table.columns), sa.select(table))
        ways.append(itself.prefix_with("OR REPLACE"))
    else:
        ways.append(sa.text(f"TRUNCATE {table.name} CASCADE"))
    return ways


@pytest.mark.parametrize("name", APPEND_ONLY)
def test_a_row_can_neither_change_nor_go(name, filled_url):
    table = metadata.tables[name]
    with exclusive(filled_url) as connection:
        before = connection.execute(sa.select(table)).all()

    for way in attempts(table, filled_url):
        with (
            pytest.raises(sa.exc.IntegrityError, match=f"{name} is append-only"),
            exclusive(filled_url) as connection,
        ):
            connection.execute(way)

    with exclusive(filled_url) as connection:
        assert len(before) == 1
        assert connection.execute(sa.select(table)).all() == before


def test_a_decisions_note_can_only_be_erased(filled_url):
    """The note is what a person wrote, so privacy may take it; no one may write another."""
    decisions = metadata.tables["refund_decisions"]
    with (
        pytest.raises(sa.exc.IntegrityError, match="refund_decisions is append-only"),
        exclusive(filled_url) as connection,
    ):
        connection.execute(sa.update(decisions).values(note="something else"))

    with exclusive(filled_url) as connection:
        connection.execute(sa.update(decisions).values(note=None))
        assert connection.scalar(sa.select(decisions.c.note)) is None


def test_an_account_can_only_be_erased_as_a_whole(filled_url):
    accounts = metadata.tables["payout_destinations"]
    emptied = {"account_number": "", "holder": "", "salt": None}
    for wrong in (
        *({name: value} for name, value in emptied.items()),
        {**emptied, "holder": "somebody else"},
        {**emptied, "account_number": "666666"},
        {**emptied, "salt": "guessed"},
    ):
        with (
            pytest.raises(sa.exc.IntegrityError, match="payout_destinations is append-only"),
            exclusive(filled_url) as connection,
        ):
            connection.execute(sa.update(accounts).values(wrong))

    with exclusive(filled_url) as connection:
        connection.execute(sa.update(accounts).values(emptied))
        row = connection.execute(sa.select(accounts)).mappings().one()
        assert {name: row[name] for name in emptied} == emptied
        assert row["bank"] == "VCB"


@pytest.mark.parametrize("name", ERASABLE)
def test_every_column_but_the_personal_ones_is_kept(name, filled_url):
    table = metadata.tables[name]
    for column in table.columns:
        if column.name in ERASABLE[name].personal:
            continue
        with (
            pytest.raises(sa.exc.IntegrityError, match="append-only"),
            exclusive(filled_url) as connection,
        ):
            connection.execute(sa.update(table).values({column.name: column}))


def test_what_may_be_erased_is_personal_and_nothing_else_is():
    for name, erasable in ERASABLE.items():
        columns = metadata.tables[name].columns
        personal = {column.name for column in columns if column.info == PERSONAL}
        assert set(erasable.personal) == personal
        assert set(erasable.kept) == set(columns.keys()) - personal

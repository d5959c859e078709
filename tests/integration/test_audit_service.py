"""`audit verify`: history equals the present, whoever changed either."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from support_agent.domain.audit import AuditHead
from support_agent.domain.audit_index import AuditIndex
from support_agent.services.audit import verify
from support_agent.services.audit_index import note
from tests.heart import attack, change_policy, problems
from tests.kit import Shop, copy_database, open_shop

PUT_BACK = (
    "INSERT INTO policy_activations (policy_id, version, activated_at, activated_by) "
    "SELECT id, version, valid_from, 'somebody' FROM policies ORDER BY version LIMIT 1"
)


async def live(url: str) -> None:
    """Paid by hand of lan, automatically, rejected, half of four eyes, pending."""
    async with open_shop(url) as shop:
        approvals = shop.container.approvals()
        paid = await shop.filed("A100")
        await approvals.approve(paid.id, by=await shop.approver("lan"))
        await shop.container.payouts().pay(paid.id)
        await shop.filed("A102")
        rejected = await shop.filed("A205", customer="C002")
        await approvals.reject(rejected.id, by=await shop.approver("lan"))
        halfway = await shop.filed("A303", customer="C003")
        await approvals.approve(halfway.id, by=await shop.approver("huong"))
        await shop.filed("A300", customer="C003")


@pytest.fixture(scope="module")
def history(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop with a history, closed, to be copied."""
    path = tmp_path_factory.mktemp("history") / "shop.db"
    asyncio.run(live(copy_database(template, path)))
    return path


@pytest.fixture
async def lived(history: Path, tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(copy_database(history, tmp_path / "shop.db")) as shop:
        yield shop


async def test_a_history_that_nobody_touched_holds(lived: Shop):
    report = await lived.read(lambda tx: verify(tx, lived.container.keys()))

    assert report.problems == ()
    assert report.holds
    assert report.requests == 5
    assert report.events == report.head.seq > 10


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE audit_events SET actor_id = 'huong' WHERE seq = 9", "event 9 was changed"),
        ("UPDATE audit_events SET data = '{}' WHERE seq = 9", "event 9 was changed"),
        ("UPDATE audit_events SET at = '2026-01-01 00:00:00' WHERE seq = 9", "event 9 was changed"),
        ("DELETE FROM audit_events WHERE seq = 9", "event 9 is missing before 10"),
        (
            "UPDATE audit_events SET mac = mac || 'f' WHERE seq = 9",
            "event 10 does not follow the one before it",
        ),
        ("UPDATE audit_head SET seq = seq - 1", "its head says"),
        ("UPDATE audit_head SET mac = 'f'", "the head is not the last event"),
    ],
)
async def test_a_changed_chain_is_found(lived: Shop, statement: str, told: str):
    attack(lived.url, statement)

    assert any(told in problem for problem in await problems(lived))


@pytest.mark.parametrize(
    "change",
    [
        "status = 'PENDING_APPROVAL'",
        "amount_minor = amount_minor + 1",
        "version = version + 1",
        "round = 7",
        "currency = 'USD'",
        "customer_id = 'C008'",
        "order_id = 'A999'",
        "required_level = 0 + 2",
        "approvals_needed = 7",
        "destination = 'elsewhere'",
        "method = 'COD'",
        "lines = '[]'",
        "operator = 'somebody'",
        "requester_person_id = 'P-LAN'",
        "conversation_id = 'con_other'",
        "consent = 'unclear'",
        "expires_at = '2027-01-01 00:00:00.000000'",
        "approved_until = '2027-01-01 00:00:00.000000'",
        "fingerprint = 'f'",
    ],
)
async def test_a_changed_request_is_found(lived: Shop, change: str):
    attack(
        lived.url,
        f"UPDATE refund_requests SET {change} WHERE order_id = 'A100'",  # noqa: S608 - the attack
    )

    found = await problems(lived)

    assert any("request" in problem and "history" in problem for problem in found)


@pytest.mark.parametrize(
    "change",
    [
        "reasons = '[\"BOGUS\"]'",
        "reasons = '5'",
        "reasons = 'not JSON'",
        "lines = '[{}]'",
        "consent = 'perhaps'",
        "created_at = 'yesterday'",
    ],
)
async def test_a_request_that_cannot_be_read_is_told_and_the_rest_is_looked_at(
    lived: Shop, change: str
):
    attack(
        lived.url,
        f"UPDATE refund_requests SET {change} WHERE order_id = 'A300'",  # noqa: S608 - the attack
        "UPDATE refund_requests SET amount_minor = 1 WHERE order_id = 'A205'",
    )

    report = await lived.read(lambda tx: verify(tx, lived.container.keys()))

    assert report.requests == 5
    assert [told for told in report.problems if told.startswith("request")] == [
        told for told in report.problems if "is not what" in told or "cannot be read" in told
    ]
    assert len([told for told in report.problems if told.startswith("request")]) == 2


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE refund_decisions SET choice = 'approve' WHERE choice = 'reject'", "signature"),
        ("UPDATE refund_decisions SET name = 'tuan' WHERE name = 'huong'", "signature"),
        ("UPDATE refund_decisions SET limit_minor = 9 WHERE name = 'lan'", "signature"),
        ("UPDATE refund_decisions SET mac = 'f' WHERE name = 'auto'", "is not in the history"),
        ("DELETE FROM refund_decisions WHERE choice = 'reject'", "of the history is gone"),
        ("DELETE FROM refund_decisions WHERE choice = 'auto'", "of the history is gone"),
        ("DELETE FROM refund_decisions WHERE name = 'huong'", "of the history is gone"),
    ],
)
async def test_a_changed_or_deleted_decision_is_found(lived: Shop, statement: str, told: str):
    attack(lived.url, statement)

    assert any("decision" in problem and told in problem for problem in await problems(lived))


async def test_a_decision_moved_to_another_request_is_found(lived: Shop):
    pending = "(SELECT id FROM refund_requests WHERE order_id = 'A300')"
    attack(
        lived.url,
        f"UPDATE refund_decisions SET request_id = {pending} WHERE name = 'huong'",  # noqa: S608
    )

    assert await problems(lived) != ()


async def test_a_request_taken_out_of_the_database_is_found(lived: Shop):
    attack(lived.url, "DELETE FROM refund_requests WHERE order_id = 'A300'")

    assert any("of the history is gone" in problem for problem in await problems(lived))


async def test_a_request_put_into_the_database_is_found(lived: Shop):
    with closing(sqlite3.connect(lived.url.removeprefix("sqlite:///"))) as connection:
        table = sa.inspect(sa.create_engine(lived.url)).get_columns("refund_requests")
        names = [c["name"] for c in table if c["name"] not in {"created_seq", "id", "quote_id"}]
        connection.execute(
            f"INSERT INTO refund_requests (id, quote_id, {', '.join(names)}) "  # noqa: S608
            f"SELECT 'req_new', 'quo_new', {', '.join(names)} FROM refund_requests LIMIT 1"
        )
        connection.commit()

    assert "request 'req_new' has no history" in await problems(lived)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE approvers SET level = 2 WHERE name = 'lan'",
        "UPDATE approvers SET limits = '{\"VND\": 999999999}' WHERE name = 'lan'",
        "UPDATE approvers SET disabled = 0 WHERE name = 'dung'",
        "UPDATE approvers SET customer_ids = '[]' WHERE name = 'minh'",
        "UPDATE approvers SET person_id = 'P-NEW' WHERE name = 'minh'",
        "UPDATE approvers SET token_hash = 'f' WHERE name = 'lan'",
        "UPDATE approvers SET name = 'lann' WHERE name = 'lan'",
        "DELETE FROM approvers WHERE name = 'dung'",
    ],
)
async def test_authority_given_by_hand_is_found(lived: Shop, statement: str):
    attack(lived.url, statement)

    assert any("approver" in problem for problem in await problems(lived))


@pytest.mark.parametrize(
    "statement", ["DELETE FROM policy_activations", "UPDATE policies SET hash = 'f'"]
)
async def test_a_policy_changed_by_hand_is_found(lived: Shop, statement: str):
    attack(lived.url, statement)

    assert "the policy in force is not the one that was activated last" in await problems(lived)


async def test_an_older_policy_put_back_by_hand_is_found(lived: Shop):
    await change_policy(lived, auto=1)
    assert await problems(lived) == ()

    attack(lived.url, PUT_BACK)

    assert "the policy in force is not the one that was activated last" in await problems(lived)


class TestCutOffTail:
    async def test_only_a_head_seen_before_finds_it(self, lived: Shop):
        """Also the index under it is what it was then."""
        seen = await lived.read(lambda tx: tx.audit.head())
        chain = await lived.read(lambda tx: tuple(tx.audit.rows()))
        index = AuditIndex()
        for row in chain[:-1]:
            note(index, row)
        index.root()
        await lived.write(lambda tx: tx.audit.replace_index(index))
        attack(
            lived.url,
            "DELETE FROM audit_events WHERE action = 'refund.filed' AND seq = (SELECT max(seq) FROM audit_events)",
            "UPDATE audit_head SET seq = seq - 1, mac = "
            "(SELECT mac FROM audit_events WHERE seq = audit_head.seq - 1)",
            "DELETE FROM refund_requests WHERE order_id = 'A300'",
        )

        assert await problems(lived) == ()
        assert any("anchored head" in problem for problem in await problems(lived, seen))

    async def test_an_old_head_is_still_in_the_chain_later(self, lived: Shop):
        seen = await lived.read(lambda tx: tx.audit.head())
        await lived.filed("A103")

        assert await problems(lived, seen) == ()

    async def test_a_head_that_never_was_is_not(self, lived: Shop):
        seen = await lived.read(lambda tx: tx.audit.head())

        assert await problems(lived, AuditHead(seq=seen.seq, mac="f" * 64)) != ()
        assert await problems(lived, AuditHead(seq=seen.seq + 1, mac=seen.mac)) != ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET amount_minor = amount_minor + 1 WHERE kind = 'SETTLE'",
        "DELETE FROM ledger_entries WHERE kind = 'RELEASE'",
        "UPDATE payment_balances SET refunded_minor = refunded_minor - 1 WHERE refunded_minor > 0",
        "UPDATE order_balances SET reserved_minor = 0 WHERE reserved_minor > 0",
        "UPDATE cap_counters SET used_minor = 0",
    ],
)
async def test_changed_books_are_found_by_their_own_check(lived: Shop, statement: str):
    assert await lived.read(lambda tx: tx.books.check()) == ()

    attack(lived.url, statement)

    assert await lived.read(lambda tx: tx.books.check()) != ()


async def test_verifying_asks_the_database_a_constant_number_of_times(lived: Shop):
    async def asked() -> int:
        count = 0

        def one_more(*_: object) -> None:
            nonlocal count
            count += 1

        engine = lived.container.database()._engines.reading
        sa.event.listen(engine, "before_cursor_execute", one_more)
        assert await problems(lived) == ()
        sa.event.remove(engine, "before_cursor_execute", one_more)
        return count

    few = await asked()
    for order_id in ("A103", "A104"):
        await lived.filed(order_id)

    assert await asked() == few

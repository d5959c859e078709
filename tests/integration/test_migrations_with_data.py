"""A database of the first release, with requests in every state, is brought up, down and up again."""

from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.migrations import downgrade, exclusive, upgrade
from support_agent.adapters.db.triggers import APPEND_ONLY, ERASABLE
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.services.gateway_calls import sent_by
from tests.catalogue import Rows, catalogue, reflected, rows_of
from tests.heart import asker, assert_sound, requests_of
from tests.kit import Shop, open_shop, seed
from tests.old_databases import bring_up, make_old_database
from tests.places import Places

S = RequestStatus
OLD = "0001"


@pytest.fixture(scope="module")
def old_template(places: Places) -> str:
    url = places.empty()
    make_old_database(url, OLD)
    return url


@pytest.fixture(scope="module")
def upgraded_template(places: Places, old_template: str) -> str:
    url = places.copy(old_template)
    upgrade(url, live=False)
    return url


@pytest.fixture(scope="module")
def fresh_template(places: Places) -> str:
    url = places.empty()
    upgrade(url, live=False)
    return url


@pytest.fixture
def upgraded(places: Places, upgraded_template: str) -> str:
    """A private copy of the old database, brought up."""
    return places.copy(upgraded_template)


@pytest.fixture
async def shop(upgraded: str) -> AsyncIterator[Shop]:
    await bring_up(upgraded)
    async with open_shop(upgraded) as opened:
        yield opened


@pytest.fixture(params=["up", "up, down and up"])
async def served(request: pytest.FixtureRequest, upgraded: str) -> AsyncIterator[Shop]:
    """The shop after the upgrade, and after one that was taken back before anything was signed."""
    if request.param != "up":
        downgrade(upgraded, OLD)
    await bring_up(upgraded)
    async with open_shop(upgraded) as opened:
        yield opened


DROPPED = ("principals",)  # nothing ever wrote them


@pytest.fixture(scope="module")
def old_rows(old_template: str) -> Rows:
    return rows_of(old_template)


async def only(shop: Shop, order_id: str, amount_minor: int) -> RefundRequest:
    (found,) = (
        request
        for request in await requests_of(shop)
        if (request.order_id, request.amount_minor) == (order_id, amount_minor)
    )
    return found


def test_the_old_database_holds_a_request_in_every_state(old_rows):
    columns, *rows = old_rows["refund_requests"]

    assert {row[columns.index("status")] for row in rows} == set(S)
    for table in ("refund_decisions", "refund_attempts", "cap_counters", "ledger_entries"):
        assert len(old_rows[table]) > 4, table


def test_no_row_is_lost_or_changed_on_the_way_up(upgraded_template, old_rows):
    kept = {table: rows for table, rows in old_rows.items() if table not in DROPPED}

    assert rows_of(upgraded_template, like=kept) == kept
    assert all(len(old_rows[table]) == 1 for table in DROPPED)  # its columns' names, and no row


def test_what_guards_the_rows_is_as_in_a_fresh_database(upgraded_template, fresh_template):
    assert catalogue(upgraded_template) == catalogue(fresh_template)


def test_down_again_leaves_the_old_rows_under_the_old_guards(upgraded, old_template, old_rows):
    downgrade(upgraded, OLD)

    assert catalogue(upgraded) == catalogue(old_template)
    assert rows_of(upgraded) == old_rows


def test_down_and_up_again_is_as_up_once(upgraded, upgraded_template):
    downgrade(upgraded, OLD)
    upgrade(upgraded, live=False)

    assert catalogue(upgraded) == catalogue(upgraded_template)
    assert rows_of(upgraded) == rows_of(upgraded_template)


def test_the_old_rows_still_cannot_be_changed(upgraded):
    """Each in a transaction of its own: on PostgreSQL a refused statement ends one."""
    with exclusive(upgraded) as connection:
        tables = reflected(connection).tables
        guarded = [t for t in APPEND_ONLY if connection.execute(sa.select(tables[t])).first()]
    assert {"audit_events", "ledger_entries", "refund_decisions"} <= set(guarded)

    for table in guarded:
        column = "id" if table in ERASABLE else next(iter(tables[table].columns.keys()))
        for statement in (
            f"UPDATE {table} SET {column} = {column}",  # noqa: S608 - our own names
            f"DELETE FROM {table}",  # noqa: S608 - our own names
        ):
            with (
                pytest.raises(DBAPIError, match=f"{table} is append-only"),
                exclusive(upgraded) as connection,
            ):
                connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE payment_balances SET reserved_minor = -1",
        "UPDATE payment_balances SET reserved_minor = captured_minor + overdrawn_minor + 1",
        "UPDATE refund_requests SET status = 'PAID'",
        "UPDATE cap_counters SET scope = 'shop'",
        "UPDATE refund_attempts SET request_id = (SELECT min(request_id) FROM refund_attempts)",
        "UPDATE refund_requests SET quote_id = (SELECT min(quote_id) FROM refund_requests)",
    ],
)
def test_the_old_rows_are_still_checked(upgraded, statement):
    with pytest.raises(DBAPIError, match=r"(?i)constraint"), exclusive(upgraded) as connection:
        connection.exec_driver_sql(statement)


async def test_books_and_history_are_sound(served: Shop):
    await assert_sound(served)


async def test_what_was_filed_before_is_decided_and_paid_after(served: Shop):
    approvals, payouts = served.container.approvals(), served.container.payouts()
    waiting = [
        (await only(served, "A100", 250_000), "lan"),
        (await only(served, "A400", 220_000), "lan"),
        (await only(served, "A303", 12_000_000), "tuan"),  # huong was the first of two
    ]

    for request, name in waiting:
        await approvals.approve(request.id, by=await served.approver(name))
        assert (await payouts.pay(request.id)).status is S.REFUNDED
    await assert_sound(served)


async def test_what_was_filed_before_is_rejected_and_cancelled_after(shop: Shop):
    first, second = await only(shop, "A100", 250_000), await only(shop, "A400", 220_000)
    life = shop.container.life()

    await shop.container.approvals().reject(first.id, by=await shop.approver("lan"))
    who = asker(second.customer_id, second.conversation_id or "")
    await shop.write(lambda tx: life.cancel(tx, second.id, who))

    assert (await shop.request(first.id)).status is S.REJECTED
    assert (await shop.request(second.id)).status is S.CANCELLED
    await assert_sound(shop)


async def test_what_was_approved_or_on_its_way_is_settled_after(shop: Shop):
    """The gateway knew of two that the old books did not."""
    gateway, payouts = shop.container.gateway(), shop.container.payouts()

    await payouts.pay_due()
    await payouts.reconcile()

    for order_id, amount in (("A300", 2_000_000), ("A400", 300_000), ("A401", 30_000)):
        request = await only(shop, order_id, amount)
        assert request.status is S.REFUNDED
        (attempt,) = await shop.read(lambda tx, r=request: tx.attempts.of(r.id))
        paid = await gateway.find(sent_by(attempt))
        assert paid is not None
        assert (paid.amount_minor, paid.provider_refund_id) == (amount, attempt.provider_refund_id)
    await assert_sound(shop)


async def test_a_history_that_signed_a_root_does_not_go_back(database_url: str):
    await seed(database_url)
    before = rows_of(database_url)

    with pytest.raises(RuntimeError, match="restore the backup"):
        downgrade(database_url, OLD)

    assert rows_of(database_url) == before

"""Somebody changes a row back and forth while it is being judged, on PostgreSQL."""
# ruff: noqa: S608 - the attack

import asyncio
from collections.abc import Callable
from contextlib import closing
from threading import Thread

import psycopg
import pytest
from sqlalchemy import make_url

from support_agent.adapters.db.stores.audit import SqlAudit
from support_agent.adapters.db.stores.books import SqlBooks
from support_agent.domain.refunds import RequestStatus
from support_agent.testing.gateway_acts import Act
from tests.heart import approved, asker, open_shop_with, simulator
from tests.kit import seed

S = RequestStatus


def by_hand(url: str, *statements: str) -> None:
    """What the owner of the schema can do: no trigger stops him."""
    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(psycopg.connect(address, autocommit=True)) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0, statement


@pytest.mark.parametrize("version", ["version + 7", "version - 1", "version"])
async def test_a_cancelled_request_is_not_paid_by_a_row_that_flickers(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, version: str
):
    await seed(postgres_url)
    gateway = simulator()
    async with open_shop_with(postgres_url, overrides={"gateway": gateway}) as shop:
        request = await approved(shop)
        who = asker("C001", request.conversation_id or "")
        cancelled = await shop.write(lambda tx: shop.container.life().cancel(tx, request.id, who))
        assert cancelled.status is S.CANCELLED
        mine = f"request_id = '{request.id}'"
        until = f"'{request.approved_until.isoformat()}'"
        away_version = version.replace("version", str(request.version))  # however often it is set
        back = (
            f"UPDATE refund_requests SET status = 'APPROVED', version = {request.version}, "
            f"approved_until = {until} WHERE id = '{request.id}'"
        )
        away = (
            f"UPDATE refund_requests SET version = {away_version}, escalations = escalations + 1 "
            f"WHERE id = '{request.id}'"
        )
        there = f"UPDATE refund_requests SET escalations = 0 WHERE id = '{request.id}'"
        by_hand(
            postgres_url,
            back,
            f"DELETE FROM ledger_entries WHERE {mine} AND kind = 'RELEASE'",
            "UPDATE order_balances SET reserved_minor = 250000 WHERE order_id = 'A100'",
            "UPDATE line_balances SET reserved_minor = total_minor, reserved_units = quantity "
            "WHERE order_id = 'A100'",
            "UPDATE payment_balances SET reserved_minor = 250000 WHERE order_id = 'A100'",
        )

        def first(step: Callable, *statements: str) -> Callable:
            """The step, with the row changed before it."""

            def changed(self, *arguments, **named):
                if arguments[:2] == ("refund", request.id) or step is of_order:
                    by_hand(postgres_url, *statements)
                return step(self, *arguments, **named)

            return changed

        vouched, of_order = SqlAudit.vouched, SqlBooks.of_order
        monkeypatch.setattr(SqlAudit, "vouched", first(vouched, away))
        monkeypatch.setattr(SqlBooks, "of_order", first(of_order, back, there))

        await shop.container.payouts().pay(request.id)

        assert gateway.sent == []


async def test_a_refund_settled_while_another_is_judged_beside_it_keeps_nothing_back(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Ten refunds of one order were paid at once, and now and then one of them was not."""
    await seed(postgres_url)
    gateway = simulator()
    async with open_shop_with(postgres_url, overrides={"gateway": gateway}) as shop:
        half = {"customer": "C004", "amount": 300_000}
        beside, request = [await approved(shop, "A400", **half) for _ in range(2)]
        gateway.will(Act.LOSE_ANSWER)
        assert (await shop.container.payouts().pay(beside.id)).status is S.IN_DOUBT

        async def settle() -> None:
            async with open_shop_with(postgres_url, overrides={"gateway": gateway}) as other:
                await other.container.reconciliation().one(beside.id)

        settled = []

        def settled_first(self, topic, subject):
            if (topic, subject) == ("refund", beside.id) and not settled:
                settled.append(subject)
                thread = Thread(target=lambda: asyncio.run(settle()))
                thread.start()
                thread.join()
            return vouched(self, topic, subject)

        vouched = SqlAudit.vouched
        monkeypatch.setattr(SqlAudit, "vouched", settled_first)

        paid = await shop.container.payouts().pay(request.id)

        assert settled
        assert paid.status is S.REFUNDED
        assert len(gateway.sent) == 2

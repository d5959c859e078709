"""Who can write every row of the database, and hide what speaks against it, is not paid for it."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from support_agent.domain.audit import AuditHead
from support_agent.domain.errors import ConfigurationError, DecisionRefused, RecordChanged
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.testing.gateway import Act, GatewaySimulator
from tests.heart import (
    approved,
    asker,
    attack,
    change_order,
    dispute,
    events,
    file,
    open_shop_with,
    pay,
    problems,
    requests_of,
    simulator,
    tasks,
)
from tests.kit import Shop

S = RequestStatus
AMOUNT = 300_000  # of the 1,000,000 of A400
SET_BACK = (
    "UPDATE refund_requests SET status = 'APPROVED', version = ?, round = ?, approved_until = ?, "
    "attempt_at = NULL, attempt_no = 1 WHERE id = ?"
)
GIVE_AWAY = "UPDATE ledger_entries SET request_id = 'other' || seq WHERE request_id = ? AND kind <> 'RESERVE'"
SIGN_OLD_ROOT = (
    "UPDATE audit_events SET root = (SELECT root FROM audit_events WHERE seq = ?) WHERE seq > ?"
)
HIDE = "UPDATE audit_events SET subject = 'hidden' WHERE subject = ? AND action = ?"


@pytest.fixture
def gateway() -> GatewaySimulator:
    return simulator()


@pytest.fixture
async def shop(shop_url: str, gateway: GatewaySimulator) -> AsyncIterator[Shop]:
    async with open_shop_with(shop_url, overrides={"gateway": gateway}) as opened:
        yield opened


async def approved_part(shop: Shop) -> RefundRequest:
    return await approved(shop, "A400", customer="C004", amount=AMOUNT)


def rewind(shop: Shop, request: RefundRequest) -> None:
    """The row, the attempt and the books as they were before it was paid or taken back."""
    balances = ("order_balances", "line_balances", "payment_balances")
    until = request.approved_until
    assert until is not None
    attack(
        shop.url,
        (
            SET_BACK,
            (request.version, request.round, f"{until:%Y-%m-%d %H:%M:%S.%f}", request.id),
        ),
        # Of a settlement, only whose it was: the books still add up.
        (
            GIVE_AWAY,
            (request.id,),
        ),
        *(
            (f"UPDATE {table} SET reserved_minor = ? WHERE order_id = 'A400'", (AMOUNT,))  # noqa: S608
            for table in balances
        ),
    )


@dataclass(frozen=True)
class Copy:
    """What somebody kept of the history: its head and the index under that."""

    head: AuditHead
    entries: tuple[tuple[Any, ...], ...]
    nodes: tuple[tuple[Any, ...], ...]


async def copy_of(shop: Shop) -> Copy:
    with closing(sqlite3.connect(shop.url.removeprefix("sqlite:///"))) as raw:
        entries = raw.execute("SELECT bucket, topic, subject, seq FROM audit_entries").fetchall()
        nodes = raw.execute("SELECT level, position, children FROM audit_nodes").fetchall()
    return Copy(head=await head_of(shop), entries=tuple(entries), nodes=tuple(nodes))


def put_back_index(shop: Shop, copy: Copy) -> None:
    """The index as it was, under the chain as it is."""
    attack(
        shop.url,
        "DELETE FROM audit_entries",
        "DELETE FROM audit_nodes",
        *(("INSERT INTO audit_entries VALUES (?, ?, ?, ?)", row) for row in copy.entries),
        *(("INSERT INTO audit_nodes VALUES (?, ?, ?)", row) for row in copy.nodes),
    )


def cut_off(shop: Shop, copy: Copy) -> None:
    """The whole tail of the chain, head and index set back: only an anchored head finds that."""
    attack(
        shop.url,
        ("DELETE FROM audit_events WHERE seq > ?", (copy.head.seq,)),
        ("UPDATE audit_head SET seq = ?, mac = ?", (copy.head.seq, copy.head.mac)),
    )
    put_back_index(shop, copy)


def paid(gateway: GatewaySimulator) -> int:
    return sum(refund.amount_minor for refund in gateway.refunds)


async def head_of(shop: Shop) -> AuditHead:
    return await shop.read(lambda tx: tx.audit.head())


class TestHiddenEvents:
    @pytest.mark.parametrize(
        "hide",
        [
            HIDE,
            "UPDATE audit_events SET action = 'x' WHERE subject = ? AND action = ?",
            "DELETE FROM audit_events WHERE subject = ? AND action = ?",
        ],
    )
    @pytest.mark.parametrize("later", [0, 1])
    async def test_a_cancellation_that_is_hidden_still_counts(
        self, shop: Shop, gateway, hide: str, later: int
    ):
        request = await approved_part(shop)
        who = asker("C004", request.conversation_id)
        await shop.write(lambda tx: shop.container.life().cancel(tx, request.id, who))
        for _ in range(later):
            await shop.filed("A100")
        rewind(shop, request)
        attack(shop.url, (hide, (request.id, "refund.cancelled")))

        await shop.container.payouts().pay_due()

        assert gateway.sent == []
        (event,) = await events(shop, "payout.refused")
        assert (event.subject, event.data["reason"]) == (request.id, "RECORD_CHANGED")
        assert len(await tasks(shop, "payout_refused")) == 1

    @pytest.mark.parametrize("also", ["index", "index and root"])
    async def test_nor_does_an_index_that_was_put_back_speak_for_it(
        self, shop: Shop, gateway, also: str
    ):
        request = await approved_part(shop)
        copy = await copy_of(shop)
        who = asker("C004", request.conversation_id)
        await shop.write(lambda tx: shop.container.life().cancel(tx, request.id, who))
        await shop.filed("A100")
        rewind(shop, request)
        attack(shop.url, (HIDE, (request.id, "refund.cancelled")))
        put_back_index(shop, copy)
        if also == "index and root":
            attack(shop.url, (SIGN_OLD_ROOT, (copy.head.seq, copy.head.seq)))

        await shop.container.payouts().pay_due()
        with pytest.raises((DecisionRefused, RecordChanged, ConfigurationError)):
            await shop.container.approvals().approve(
                (await requests_of(shop))[0].id, by=await shop.approver("lan")
            )

        assert gateway.sent == []

    async def test_an_event_that_was_broken_stops_what_it_was_about(self, shop: Shop, gateway):
        """Nobody can say any more whether it was the cancellation."""
        before, other = await approved_part(shop), await shop.filed("A100")
        attack(
            shop.url,
            (
                "UPDATE audit_events SET actor_id = 'x' WHERE subject = ? AND action = ?",
                (before.id, "refund.approved"),
            ),
        )

        await shop.container.approvals().approve(other.id, by=await shop.approver("lan"))
        await shop.container.payouts().pay_due()

        assert [sent.request_id for sent in gateway.sent] == [other.id]
        assert (await shop.request(before.id)).status is S.APPROVED

    async def test_the_newest_event_that_was_broken_stops_everything(self, shop: Shop, gateway):
        """It could have been about anything."""
        before = await approved_part(shop)
        attack(
            shop.url,
            (
                "UPDATE audit_events SET actor_id = 'x' WHERE seq = ?",
                ((await head_of(shop)).seq,),
            ),
        )

        await shop.container.payouts().pay_due()

        assert gateway.sent == []
        assert (await shop.request(before.id)).status is S.APPROVED
        with pytest.raises(RecordChanged):
            await shop.approver("lan")
        assert any("was changed" in problem for problem in await problems(shop))

    async def test_nor_can_a_hidden_event_keep_a_request_in_the_queue(self, shop: Shop):
        request = await shop.filed("A100")
        rejected = await shop.container.approvals().reject(
            request.id, by=await shop.approver("lan")
        )
        await shop.filed("A205", customer="C002")
        attack(
            shop.url,
            (HIDE, (request.id, "refund.rejected")),
            (
                "UPDATE refund_requests SET status = 'PENDING_APPROVAL', version = 1 WHERE id = ?",
                (request.id,),
            ),
        )

        with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
            await shop.container.approvals().approve(request.id, by=await shop.approver("huong"))
        assert rejected.status is S.REJECTED


class TestPaidAlready:
    """The one key of a request answers with the refund that was made."""

    @pytest.mark.parametrize(
        "attempts",
        [
            "UPDATE refund_attempts SET status = 'FAILED'",
            "UPDATE refund_attempts SET status = 'FAILED', number = 7, round = 7, key = 'other'",
            "DELETE FROM refund_attempts",
        ],
    )
    @pytest.mark.parametrize("tail", ["hidden", "cut off"])
    async def test_it_is_not_paid_again(self, shop: Shop, gateway, attempts: str, tail: str):
        request = await approved_part(shop)
        copy = await copy_of(shop)
        await pay(shop, request)
        rewind(shop, request)
        attack(shop.url, (f"{attempts} WHERE request_id = ?", (request.id,)))
        if tail == "cut off":
            cut_off(shop, copy)
        else:
            for action in ("refund.paying", "refund.refunded"):
                attack(shop.url, (HIDE, (request.id, action)))
        await shop.container.payouts().pay_due()

        assert paid(gateway) == AMOUNT
        assert {sent.key for sent in gateway.sent} == {f"refund:{request.id}:1"}

    async def test_nor_in_an_earlier_round(self, shop: Shop, gateway):
        """Approved, turned back, approved again and paid; then the first approval is brought back."""
        request = await approved_part(shop)
        copy = await copy_of(shop)
        order = await shop.container.orders().get("A400")
        await dispute(shop, "A400")
        assert (await pay(shop, request)).round == 2
        await change_order(shop, "A400", payments=order.payments)
        await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))
        assert (await pay(shop, request)).status is S.REFUNDED

        rewind(shop, request)
        attack(shop.url, ("DELETE FROM refund_attempts WHERE request_id = ?", (request.id,)))
        cut_off(shop, copy)
        await shop.container.payouts().pay_due()

        # The chain as it is now proves the first round; the gateway knows the key all the same.
        assert (await shop.request(request.id)).status is S.MANUAL_REVIEW
        assert len(gateway.sent) == 1
        assert paid(gateway) == AMOUNT

    async def test_an_anchored_head_finds_a_tail_that_was_cut_off(self, shop: Shop):
        request = await approved_part(shop)
        copy = await copy_of(shop)
        await pay(shop, request)
        seen = await head_of(shop)
        rewind(shop, request)
        cut_off(shop, copy)

        assert any("anchored head" in problem for problem in await problems(shop, seen))


async def test_a_key_that_somebody_took_is_refused_and_nothing_of_the_start_is_left(
    shop: Shop, gateway
):
    gateway.will(Act.DECLINE)
    other = await approved(shop, "A205", customer="C002")
    await pay(shop, other)
    request = await approved_part(shop)
    take = "UPDATE refund_attempts SET key = ? WHERE request_id = ?"
    attack(shop.url, (take, (f"refund:{request.id}:1", other.id)))

    assert await pay(shop, request) == request
    assert await pay(shop, request) == request

    assert await shop.request(request.id) == request
    assert [sent.request_id for sent in gateway.sent] == [other.id]
    assert len(await events(shop, "payout.refused")) == 1
    assert [event.subject for event in await events(shop, "refund.paying")] == [other.id]


class TestBooksSetBack:
    """Balances and caps are signed by nobody: the gateway knows what is gone of a payment."""

    TABLES = ("order_balances", "line_balances", "payment_balances")

    async def test_the_automatic_tier_holds_over_all_slices_of_a_payment(self, shop: Shop, gateway):
        for _ in range(3):
            quoted = await shop.quote("A302", customer="C003", amount=200_000)
            request = (await file(shop, quoted, customer="C003")).requests[0]
            attack(
                shop.url,
                *(
                    f"UPDATE {table} SET refunded_minor = 0, reserved_minor = 0 "  # noqa: S608
                    "WHERE order_id = 'A302'"
                    for table in self.TABLES
                ),
                "UPDATE cap_counters SET used_minor = 0",
                # As if it were still on its way, which would explain what the gateway says.
                ("UPDATE refund_requests SET status = 'MANUAL_REVIEW' WHERE id = ?", (request.id,)),
            )

        assert paid(gateway) == 200_000

    async def test_what_the_gateway_paid_counts_though_we_are_in_doubt(self, shop: Shop, gateway):
        """2,000,000 of an order is the most that lan reaches."""
        small = await approved(shop, "A302", customer="C003", amount=200_001)
        large = await approved(shop, "A302", "huong", customer="C003", amount=1_900_000)
        gateway.will(Act.LOSE_ANSWER)
        assert (await pay(shop, large)).status is S.IN_DOUBT

        back = await pay(shop, small)

        assert (back.status, back.round) == (S.PENDING_APPROVAL, 2)
        (event,) = await events(shop, "refund.pending_approval")
        assert event.data["reason"] == "ABOVE_AUTO_LIMIT"
        assert paid(gateway) == 1_900_000

"""Undoing what was decided by hiding the event that tells of it: refused, on both databases."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import downgrade, exclusive, upgrade
from support_agent.adapters.db.tables import metadata
from support_agent.container import open_container
from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import (
    AlreadyDecided,
    ConfigurationError,
    DecisionRefused,
    InsufficientAuthority,
    RecordChanged,
)
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import Transaction
from support_agent.services.audit_index import reindex
from support_agent.services.standing import is_tampered
from support_agent.testing.clock import FixedClock
from tests.heart import asker, change_policy, problems
from tests.history import (
    ENTRIES,
    EVENTS,
    NODES,
    Rows,
    attack,
    restore,
    snapshot,
    written_before_the_index,
)
from tests.kit import TODAY, Shop, open_shop, seed, settings_for

S = RequestStatus
REQUESTS, APPROVERS, ACTIVATIONS = (
    metadata.tables[name] for name in ("refund_requests", "approvers", "policy_activations")
)
BOOKS = tuple(
    metadata.tables[name]
    for name in (
        "order_balances",
        "line_balances",
        "payment_balances",
        "ledger_entries",
        "cap_counters",
    )
)


def deleted(url: str, about: sa.ColumnElement[bool], before: Rows) -> None:
    """The event is gone, and the one after it follows the one before it."""
    with exclusive(url) as raw:
        gone = raw.execute(sa.select(EVENTS).where(about)).one()
    attack(
        url,
        sa.delete(EVENTS).where(about),
        sa.update(EVENTS).where(EVENTS.c.seq == gone.seq + 1).values(prev_mac=gone.prev_mac),
    )


def given_away(url: str, about: sa.ColumnElement[bool], before: Rows) -> None:
    attack(url, sa.update(EVENTS).where(about).values(subject="somebody else"))


def with_the_old_index(url: str, about: sa.ColumnElement[bool], before: Rows) -> None:
    given_away(url, about, before)
    restore(url, before, ENTRIES, NODES)


def with_the_old_index_and_root(url: str, about: sa.ColumnElement[bool], before: Rows) -> None:
    with_the_old_index(url, about, before)
    old = before["audit_events"][-1]
    attack(url, sa.update(EVENTS).where(EVENTS.c.seq > old["seq"]).values(root=old["root"]))


WAYS = (deleted, given_away, with_the_old_index, with_the_old_index_and_root)
Hide = Callable[[str, sa.ColumnElement[bool], Rows], None]


def newest(action: str, subject: str) -> sa.ColumnElement[bool]:
    about = sa.and_(EVENTS.c.action == action, EVENTS.c.subject == subject)
    return EVENTS.c.seq == sa.select(sa.func.max(EVENTS.c.seq)).where(about).scalar_subquery()


async def is_paid(shop: Shop, request: RefundRequest) -> bool:
    await shop.container.payouts().pay_due()
    return (await shop.request(request.id)).status is S.REFUNDED


def unrelated(shop: Shop) -> AuditEvent:
    """So that the event that is hidden is not the newest of all."""
    return AuditEvent(action="x.y", actor=SYSTEM, subject="x", at=shop.clock.now())


@pytest.mark.parametrize("hide", WAYS)
class TestCancelled:
    async def test_what_was_approved_before_is_not_paid(self, shop_on_each: Shop, hide: Hide):
        shop = shop_on_each
        request = await shop.filed("A100")
        await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))
        before = snapshot(shop.url, REQUESTS, *BOOKS)
        await self.cancel(shop, request)
        await shop.write(lambda tx: tx.audit.append(unrelated(shop)))

        restore(shop.url, before, *BOOKS)
        self.set_back(shop, before, request)
        hide(shop.url, newest("refund.cancelled", request.id), before)

        assert (await shop.request(request.id)).status is S.APPROVED
        await self.only_the_history_speaks_against(shop, request)
        assert not await is_paid(shop, request)

    async def test_what_waited_before_is_not_decided(self, shop_on_each: Shop, hide: Hide):
        shop = shop_on_each
        request = await shop.filed("A100")
        before = snapshot(shop.url, REQUESTS, *BOOKS)
        await self.cancel(shop, request)
        await shop.write(lambda tx: tx.audit.append(unrelated(shop)))

        restore(shop.url, before, *BOOKS)
        self.set_back(shop, before, request)
        hide(shop.url, newest("refund.cancelled", request.id), before)

        assert (await shop.request(request.id)).status is S.PENDING_APPROVAL
        await self.only_the_history_speaks_against(shop, request)
        for decide in (shop.container.approvals().approve, shop.container.approvals().reject):
            with pytest.raises((DecisionRefused, RecordChanged), match=r"RECORD_CHANGED|changed"):
                await decide(request.id, by=await shop.approver("lan"))

    async def only_the_history_speaks_against(self, shop: Shop, request: RefundRequest) -> None:
        keys = shop.container.keys()
        now = await shop.request(request.id)
        assert await shop.read(lambda tx: tx.books.check()) == ()
        assert await shop.read(lambda tx: is_tampered(tx, now, keys))

    async def cancel(self, shop: Shop, request: RefundRequest) -> None:
        who = asker("C001", request.conversation_id)
        await shop.write(lambda tx: shop.container.life().cancel(tx, request.id, who))

    def set_back(self, shop: Shop, before: Rows, request: RefundRequest) -> None:
        (old,) = (row for row in before["refund_requests"] if row["id"] == request.id)
        attack(shop.url, sa.update(REQUESTS).where(REQUESTS.c.id == request.id).values(old))


@pytest.mark.parametrize("hide", WAYS)
async def test_an_approvers_old_limit_does_not_come_back(shop_on_each: Shop, hide: Hide):
    shop = shop_on_each
    request = await shop.filed("A100")
    before = snapshot(shop.url, APPROVERS)
    await shop.container.approvers().set_limits("lan", {"VND": 1}, by=SYSTEM)
    with pytest.raises(InsufficientAuthority):
        await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))
    await shop.filed("A205", customer="C002")

    (old,) = (row for row in before["approvers"] if row["name"] == "lan")
    attack(shop.url, sa.update(APPROVERS).where(APPROVERS.c.name == "lan").values(old))
    hide(shop.url, newest("approver.changed", "lan"), before)

    with pytest.raises(RecordChanged, match="audit verify"):
        await shop.approver("lan")


@pytest.mark.parametrize("hide", WAYS)
async def test_an_approvers_old_token_does_not_come_back(shop_on_each: Shop, hide: Hide):
    shop = shop_on_each
    await shop.container.approvers().set_token("lan", "the stolen one", by=SYSTEM)
    before = snapshot(shop.url, APPROVERS)
    await shop.container.approvers().set_token("lan", "the one after it", by=SYSTEM)
    await shop.filed("A205", customer="C002")

    (old,) = (row for row in before["approvers"] if row["name"] == "lan")
    attack(shop.url, sa.update(APPROVERS).where(APPROVERS.c.name == "lan").values(old))
    hide(shop.url, newest("approver.token_set", "lan"), before)

    with pytest.raises(RecordChanged):
        await shop.approver("lan")


@pytest.mark.parametrize("hide", WAYS)
async def test_an_old_policy_does_not_come_back(shop_on_each: Shop, hide: Hide):
    shop = shop_on_each
    before = snapshot(shop.url, ACTIVATIONS)
    await change_policy(shop, auto=1)
    await shop.read(shop.container.policies().current)
    await shop.write(lambda tx: tx.audit.append(unrelated(shop)))

    restore(shop.url, before, ACTIVATIONS)
    hide(shop.url, newest("policy.activated", "policy"), before)

    with pytest.raises(ConfigurationError, match="put in force by something else"):
        await shop.read(shop.container.policies().current)


# What an event says of a request only since revision 0002.
NEWER_FACTS = {"attempt_no", "attempt_at", "retried_by", "filed_minor", "due_at", "escalations"}
NEWER_FACTS |= {"asked_at"}


def first_form(event: AuditEvent) -> AuditEvent:
    """The event as the first schema's program wrote it."""
    data = {key: value for key, value in event.data.items() if key not in NEWER_FACTS}
    return replace(event, data=data)


async def test_a_history_from_before_the_index_counts_after_an_upgrade_only(database_url: str):
    """What waits and what is approved: refused with a way out, then decided and paid."""
    await seed(database_url)
    async with open_shop(database_url) as shop:
        keys = shop.container.keys()
        waiting = await shop.filed("A205", customer="C002")
        approved = await shop.filed("A100")
        lan = await shop.approver("lan")
        await shop.container.approvals().approve(approved.id, by=lan)
        chain = await shop.read(lambda tx: [first_form(row.event) for row in tx.audit.rows()])
    written_before_the_index(database_url, keys, *chain)
    downgrade(database_url, "0001")
    upgrade(database_url, live=False)

    with pytest.raises(ConfigurationError, match="db upgrade"):
        async with open_shop(database_url):
            pass
    async with open_container(
        settings_for(database_url), overrides={"clock": FixedClock(TODAY)}, check_history=False
    ) as container:
        with pytest.raises(ConfigurationError, match="db upgrade"):
            await container.approvals().approve(waiting.id, by=lan)
        with pytest.raises(ConfigurationError, match="db upgrade"):
            await container.payouts().pay(approved.id)

    database = SqlDatabase(database_url, keys)
    assert await database.transact(lambda tx: reindex(tx, keys)) == len(chain)
    await database.aclose()

    async with open_shop(database_url) as shop:
        await shop.container.approvals().approve(waiting.id, by=await shop.approver("lan"))
        assert await is_paid(shop, waiting)
        assert await is_paid(shop, approved)
        assert await problems(shop) == ()


async def test_who_moves_a_request_meanwhile_does_not_make_it_look_forged(shop_on_each: Shop):
    """Looked at again and again by one program, moved and written around by two others."""
    shop = shop_on_each
    request = await shop.filed("A205", customer="C002")
    keys = shop.container.keys()
    others = [SqlDatabase(shop.url, keys, busy_timeout_s=30) for _ in range(2)]
    life = shop.container.life()
    moving = True

    def move(tx: Transaction) -> None:
        now = tx.requests.get(request.id)
        changes = {"escalations": now.escalations + 1}
        life.transition(tx, now, S.PENDING_APPROVAL, actor=SYSTEM, changes=changes, notify=False)

    async def mover() -> None:
        nonlocal moving
        for _ in range(25):
            await others[0].transact(move)
        moving = False

    async def writer() -> None:
        while moving:
            await others[1].transact(lambda tx: tx.audit.append(unrelated(shop)))

    def looks_forged(tx: Transaction) -> bool:
        with suppress(AlreadyDecided):  # it was moved while we looked
            return is_tampered(tx, tx.requests.get(request.id), keys)
        return False

    async def watcher(look: Callable[[Callable[[Transaction], bool]], bool]) -> list[bool]:
        seen = []
        while moving:
            seen.append(await look(looks_forged))
        return seen

    database = shop.container.database()
    _, _, *seen = await asyncio.gather(
        mover(), writer(), watcher(database.read), watcher(database.transact)
    )
    for other in others:
        await other.aclose()

    assert all(seen)  # each looked
    assert not any(any(looks) for looks in seen)
    assert (await shop.request(request.id)).escalations == 25

"""Each guard holds alone what it guards: with that one switched off, its proof fails."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from support_agent.adapters.db.prepared import Prepared
from support_agent.adapters.db.stores import books as sql_books
from support_agent.adapters.db.stores import requests as sql_requests
from support_agent.domain import offers
from support_agent.domain.consent import Consent
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RefundLine, RequestStatus
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Posting, Shortage
from support_agent.services import deciding, filing
from support_agent.services.filing import Filing
from support_agent.services.order_lookup import OrderLookup
from tests.heart import ANSWERED, books_of, calls, error_of, file, forge_approval, observations
from tests.kit import Shop

S = RequestStatus
Patch = pytest.MonkeyPatch


async def another_customers_order_is_not_found(shop: Shop) -> None:
    result = await shop.say("đơn A204?", calls("lookup_order", order_id="A204"), ANSWERED)
    assert error_of(result) == "ORDER_NOT_FOUND"
    assert "Thắt lưng da" not in observations(result)[0]


async def no_more_than_the_balance_is_reserved(shop: Shop) -> None:
    order = await shop.container.orders().get("A100")
    posting = Posting(
        request_id="req_x",
        round=1,
        order_id="A100",
        payment_id=order.payments[0].id,
        lines=(RefundLine(line_id="A100-1", units=0, amount_minor=250_001),),
        amount_minor=250_001,
        currency="VND",
        at=shop.clock.now(),
    )
    await shop.write(lambda tx: tx.books.sync(order))
    held: Any = None
    try:
        held = await shop.write(lambda tx: tx.books.reserve(posting))
    except IntegrityError:
        held = "stopped by the constraints of the schema, the net behind the guard"
    assert isinstance(held, Shortage), held


async def above_the_automatic_limit_a_person_decides(shop: Shop) -> None:
    request = await shop.filed("A205", customer="C002")
    assert (request.status, request.round) == (S.PENDING_APPROVAL, 1)
    assert request.required_level == 1


async def after_a_no_nothing_is_filed(shop: Shop) -> None:
    refused = await file(shop, await shop.quote("A102"), "không")
    assert refused.requests == ()
    assert (await books_of(shop, "A102")).taken_minor == 0


async def nobody_decides_about_an_own_request(shop: Shop) -> None:
    request = await shop.filed("A300", customer="C003")
    code = await _approve(shop, request.id, "minh")
    assert code == "SELF_APPROVAL"


async def an_expired_quote_is_not_filed(shop: Shop) -> None:
    quoted = await shop.quote("A102")
    shop.clock.advance(timedelta(hours=1))
    assert (await file(shop, quoted)).requests == ()


async def who_saw_an_older_version_moves_nothing(shop: Shop) -> None:
    seen = await shop.filed("A100")
    assert await _approve(shop, seen.id, "lan") is None
    moved = await shop.write(
        lambda tx: tx.requests.move(
            seen, replace(seen, status=S.CANCELLED, version=seen.version + 1)
        )
    )
    assert not moved
    assert (await shop.request(seen.id)).status is S.APPROVED


async def an_approval_signed_without_our_key_pays_nothing(shop: Shop) -> None:
    request = await shop.filed("A100")
    await forge_approval(shop, request, KeyRing(keys=(("test", b"a guess at the secret" * 2),)))
    await shop.container.payouts().pay_due()
    assert (await books_of(shop, "A100")).payments[0].refunded_minor == 0


async def _approve(shop: Shop, request_id: str, name: str) -> str | None:
    try:
        await shop.container.approvals().approve(request_id, by=await shop.approver(name))
    except SupportAgentError as error:
        return error.code
    return None


def owner_off(patch: Patch) -> None:
    async def owned(self: OrderLookup, order_id: str, asker: object) -> object:
        return await self._orders.get(order_id)

    patch.setattr(OrderLookup, "owned", owned)


def balance_off(patch: Patch) -> None:
    patch.setattr(sql_books, "_room", lambda *_: [])
    patch.setattr(sql_books, "_HOLD", {kind: sql_books._hold(kind) for kind in sql_books._HOLD})


def tier_off(patch: Patch) -> None:
    patch.setattr(offers, "required_level", lambda *_: 0)


def consent_off(patch: Patch) -> None:
    patch.setattr(filing, "consent_to", lambda *_: Consent.YES)


def self_approval_off(patch: Patch) -> None:
    patch.setattr(deciding, "check_may_decide", lambda *_, **__: None)


def expiry_off(patch: Patch) -> None:
    patch.setattr(Filing, "_check_open", lambda *_: None)


def version_off(patch: Patch) -> None:
    table = sql_requests.REQUESTS
    by_id = sa.update(table).where(table.c.id == sa.bindparam("seen_id"))
    patch.setattr(sql_requests, "_MOVE", Prepared(by_id, columns=sql_requests._MOVED))


def hmac_off(patch: Patch) -> None:
    patch.setattr(KeyRing, "verify", lambda *_, **__: True)


@dataclass(frozen=True)
class Guard:
    name: str
    switch_off: Callable[[Patch], None]
    proof: Callable[[Shop], Awaitable[None]]


GUARDS = [
    Guard("owner", owner_off, another_customers_order_is_not_found),
    Guard("balance", balance_off, no_more_than_the_balance_is_reserved),
    Guard("tier", tier_off, above_the_automatic_limit_a_person_decides),
    Guard("consent", consent_off, after_a_no_nothing_is_filed),
    Guard("self-approval", self_approval_off, nobody_decides_about_an_own_request),
    Guard("expiry", expiry_off, an_expired_quote_is_not_filed),
    Guard("version", version_off, who_saw_an_older_version_moves_nothing),
    Guard("hmac", hmac_off, an_approval_signed_without_our_key_pays_nothing),
]
each_guard = pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)


@each_guard
async def test_the_proof_holds_with_the_guard(guard: Guard, shop: Shop):
    await guard.proof(shop)


@each_guard
async def test_the_proof_fails_without_the_guard(guard: Guard, shop: Shop, monkeypatch: Patch):
    guard.switch_off(monkeypatch)

    with pytest.raises(AssertionError):
        await guard.proof(shop)

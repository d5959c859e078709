"""A payment that was frozen can be refunded again, once a person says so."""

import pytest

from support_agent.domain.errors import PaymentNotFrozen
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.payments import PaymentRef
from support_agent.ports.storage import FactKind, GatewayFact
from support_agent.services.frozen import unfreeze
from tests.heart import books_of
from tests.kit import Shop


async def freeze(shop: Shop, order_id: str, amount_minor: int) -> str:
    """Something was refunded at the gateway that looks like ours and is not explained."""
    order = await shop.container.orders().get(order_id)
    payment = order.payments[0]
    await shop.write(lambda tx: tx.books.sync(order))
    fact = GatewayFact(
        kind=FactKind.EXTERNAL,
        payment=PaymentRef(
            gateway=payment.gateway,
            account=payment.account,
            gateway_payment_id=payment.gateway_payment_id,
        ),
        reference=f"outside-{order_id}",
        amount_minor=amount_minor,
        currency=order.currency,
        at=shop.clock.now(),
        freezes=True,
    )
    assert await shop.write(lambda tx: tx.books.book_fact(fact)) is not None
    return payment.id


async def test_it_is_refunded_again_up_to_what_is_left(shop_on_each: Shop):
    shop = shop_on_each
    payment_id = await freeze(shop, "A400", 100_000)
    assert (await shop.quote("A400", customer="C004", amount=200_000)).quotes == ()

    by = await shop.approver("huong")
    await shop.write(lambda tx: unfreeze(tx, "A400", payment_id, by=by, clock=shop.clock))

    request = await shop.filed("A400", customer="C004", amount=900_000)
    assert request.status is RequestStatus.PENDING_APPROVAL
    event = await shop.read(lambda tx: tx.audit.latest_for("A400", prefix="payment."))
    assert event.event.actor.id == "huong"


async def test_what_is_overdrawn_gets_no_room_from_it(shop_on_each: Shop):
    shop = shop_on_each
    payment_id = await freeze(shop, "A100", 300_000)
    by = await shop.approver("huong")
    await shop.write(lambda tx: unfreeze(tx, "A100", payment_id, by=by, clock=shop.clock))

    assert (await shop.quote("A100")).quotes == ()
    assert (await books_of(shop, "A100")).payments[0].left_minor == 0


@pytest.mark.parametrize(("order_id", "payment_id"), [("A100", "PAY-A100-1"), ("none", "none")])
async def test_what_is_not_frozen_is_a_conflict_and_changes_nothing(
    shop: Shop, order_id: str, payment_id: str
):
    by = await shop.approver("huong")
    head = await shop.read(lambda tx: tx.audit.head())

    with pytest.raises(PaymentNotFrozen, match=payment_id):
        await shop.write(lambda tx: unfreeze(tx, order_id, payment_id, by=by, clock=shop.clock))

    assert await shop.read(lambda tx: tx.audit.head()) == head

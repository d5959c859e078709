"""A shop's own orders class: what it gets wrong fails closed."""

import asyncio
from dataclasses import replace
from datetime import datetime

import pytest

from support_agent.adapters.orders.guarded import GuardedOrders
from support_agent.domain.errors import OrdersUnavailable
from support_agent.domain.orders import Customer, LineKind, Promotion
from support_agent.testing import ORDERS

A100 = next(order for order in ORDERS if order.id == "A100")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what it is about
LINE, PAYMENT = A100.lines[0], A100.payments[0]
SHIPPING = replace(LINE, kind=LineKind.SHIPPING)


class Answers:
    """Answers everything with one thing, or raises it."""

    def __init__(self, what):
        self.what = what

    async def _answer(self):
        if isinstance(self.what, BaseException):
            raise self.what
        if isinstance(self.what, asyncio.Event):
            await self.what.wait()
        return self.what

    async def get(self, order_id):
        return await self._answer()

    async def list_for_customer(self, customer_id, *, limit):
        return await self._answer()

    async def find_customer(self, customer_id):
        return await self._answer()


def guarded(what, timeout_s=5.0):
    return GuardedOrders(Answers(what), timeout_s=timeout_s)


async def test_what_is_right_is_handed_on():
    assert await guarded(A100).get("A100") is A100
    assert await guarded(None).get("A100") is None
    assert await guarded([A100]).list_for_customer("C-list", limit=5) == (A100,)
    assert await guarded(Customer(id="C1", name="")).find_customer("C1") is not None
    assert await guarded(None).find_customer("C1") is None


async def test_what_belongs_to_another_id_is_not_there():
    assert await guarded(A100).get("a100") is None
    assert await guarded([A100]).list_for_customer("c-list", limit=5) == ()
    assert await guarded(Customer(id="C1", name="")).find_customer("c1") is None


async def test_a_list_is_no_longer_than_asked_for():
    assert await guarded([A100, A100]).list_for_customer("C-list", limit=1) == (A100,)
    assert await guarded([A100]).list_for_customer("C-list", limit=0) == ()


@pytest.mark.parametrize(
    "order",
    [
        replace(A100, id=100),
        replace(A100, customer_id=None),
        replace(A100, status="PAID"[:2]),
        replace(A100, currency="XXX"),
        replace(A100, placed_at=NAIVE),
        replace(A100, placed_at="2026-01-01"),
        replace(A100, delivered_at=NAIVE),
        replace(A100, delivered_at="2026-01-01"),
        replace(A100, lines=[LINE]),
        replace(A100, lines=(None,)),
        replace(A100, lines=(LINE, LINE)),
        replace(A100, lines=(replace(LINE, id="+overpaid"),)),
        replace(A100, lines=(replace(LINE, id=7),)),
        replace(A100, lines=(replace(LINE, kind="voucher"),)),
        replace(A100, lines=(replace(LINE, quantity=-1),)),
        replace(A100, lines=(replace(LINE, quantity=True),)),
        replace(A100, lines=(replace(LINE, unit_price_minor=250_000.0),)),
        replace(A100, lines=(replace(LINE, discount_minor=-1),)),
        replace(A100, lines=(replace(LINE, discount_minor=250_001),)),
        replace(A100, lines=(replace(LINE, promotion_minor=None),)),
        replace(A100, lines=(replace(LINE, received_units=-1),)),
        replace(A100, lines=(replace(LINE, delivered_at=7),)),
        replace(A100, lines=(replace(LINE, returnable="0"),)),  # which counts as true
        replace(A100, lines=(replace(LINE, category=None),)),  # which no rule excludes
        replace(A100, lines=(replace(LINE, name=None),)),
        replace(A100, lines=(replace(LINE, discount_minor=1, promotion_minor=2),)),
        replace(A100, lines=(replace(LINE, unit_price_minor=10**15, quantity=10**6),)),
        replace(A100, lines=(SHIPPING, replace(SHIPPING, id="2"))),
        replace(A100, promotion="PROMO-1"),
        replace(A100, promotion=Promotion(id="PROMO-1", threshold_minor=3e5)),
        replace(A100, payments=None),
        replace(A100, payments=({},)),
        replace(A100, payments=(PAYMENT, PAYMENT)),
        replace(A100, payments=(PAYMENT, replace(PAYMENT, id="P2"))),
        replace(A100, payments=(replace(PAYMENT, gateway_payment_id=""),)),
        replace(A100, payments=(replace(PAYMENT, method="BARTER"),)),
        replace(A100, payments=(replace(PAYMENT, captured_minor=10**16),)),
        replace(A100, payments=(replace(PAYMENT, currency="vnd"),)),
        replace(A100, payments=(replace(PAYMENT, disputed=None),)),
        {"id": "A100"},
    ],
)
async def test_what_is_no_order_is_unavailable(order):
    with pytest.raises(OrdersUnavailable, match="the shop's orders class"):
        await guarded(order).get("A100")
    with pytest.raises(OrdersUnavailable, match="the shop's orders class"):
        await guarded([order]).list_for_customer("C-list", limit=5)


async def test_what_it_raises_is_unavailable_without_its_words(capsys):
    with pytest.raises(OrdersUnavailable, match=r"failed \(KeyError\)") as caught:
        await guarded(KeyError("secret")).get("A100")

    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    logged = capsys.readouterr().out  # structlog's own default
    assert "KeyError (test_guarded_orders.py, line" in logged
    assert "secret" not in logged


async def test_its_own_cancellation_ends_nobodys_task():
    with pytest.raises(OrdersUnavailable, match=r"failed \(CancelledError\)"):
        await guarded(asyncio.CancelledError()).get("A100")


async def test_who_calls_it_off_is_obeyed():
    asking = asyncio.create_task(guarded(asyncio.Event()).get("A100"))
    await asyncio.sleep(0)
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_what_it_says_in_our_words_stays():
    with pytest.raises(OrdersUnavailable, match="closed on Sundays"):
        await guarded(OrdersUnavailable("closed on Sundays")).get("A100")


async def test_it_has_as_long_as_any_other():
    with pytest.raises(OrdersUnavailable, match=r"within 0\.05 s"):
        await guarded(asyncio.Event(), timeout_s=0.05).get("A100")


@pytest.mark.parametrize("what", [7, "A100", {"A100": A100}])
async def test_a_list_is_a_list(what):
    with pytest.raises(OrdersUnavailable):
        await guarded(what).list_for_customer("C-list", limit=5)
    with pytest.raises(OrdersUnavailable):
        await guarded(what).find_customer("C-list")

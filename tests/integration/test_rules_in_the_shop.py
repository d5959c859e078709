"""Shipping, promotions, counted returns and double captures, from the wish to the payout."""

from dataclasses import replace

import pytest

from support_agent.domain.allocation import Wish
from support_agent.domain.errors import RefundRefused
from support_agent.domain.orders import OVERPAID, OrderStatus
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundLine, RefundRequest, RequestStatus
from support_agent.services.standing import Objection, judge_again
from tests.heart import (
    assert_sound,
    balance,
    books_of,
    change_order,
    change_policy_body,
    error_of,
    pay,
    requests_of,
)
from tests.kit import Shop, make_database, open_shop, sample, seed
from tests.old_databases import bring_up, make_old_database

S = RequestStatus
HAN = "C005"  # the customer of A608 to A612
ALL_OF_A608 = [("A608-1", 1, 120_000), ("A608-2", 1, 80_000), ("A608-3", 1, 30_000)]


def lines_of(request: RefundRequest) -> list[tuple[str, int, int]]:
    return [(line.line_id, line.units, line.amount_minor) for line in request.lines]


def one(line_id: str, quantity: int = 1) -> dict[str, object]:
    return {"line_id": line_id, "quantity": quantity}


async def settle(shop: Shop, request: RefundRequest, by: str = "huong") -> RefundRequest:
    """Approved where a person has to, and paid."""
    if request.status is S.PENDING_APPROVAL:
        await shop.container.approvals().approve(request.id, by=await shop.approver(by))
    paid = await pay(shop, request) if request.status is not S.REFUNDED else request
    assert paid.status is S.REFUNDED
    return paid


async def file(shop: Shop, order_id: str, **wish) -> tuple[RefundRequest, ...]:
    """Filed by lan, a member of staff."""
    order = await shop.container.orders().get(order_id)
    by = await shop.approver("lan")
    return await shop.write(
        lambda tx: shop.container.filing().file_by_staff(
            tx, order=order, wish=Wish(**wish), by=by, reference=None
        )
    )


async def verdict(shop: Shop, order_id: str):
    order = await shop.container.orders().get(order_id)
    found, _ = await shop.read(lambda tx: shop.container.quotes().assess(tx, order))
    return found


class TestShipping:
    async def test_a_full_return_brings_it_along(self, shop: Shop):
        request = await settle(shop, await shop.filed("A608", customer=HAN))

        assert lines_of(request) == ALL_OF_A608
        assert (await verdict(shop, "A608")).reasons == (Reason.ALREADY_REFUNDED,)
        await assert_sound(shop)

    async def test_item_by_item_the_last_one_brings_it_along(self, shop: Shop):
        first = await shop.filed("A608", customer=HAN, lines=[one("A608-2")])
        last = await shop.filed("A608", customer=HAN, lines=[one("A608-1")])

        assert lines_of(first) == [("A608-2", 1, 80_000)]
        assert lines_of(last) == [("A608-1", 1, 120_000), ("A608-3", 1, 30_000)]
        await assert_sound(shop)

    async def test_the_model_cannot_have_it_for_an_order_that_is_kept(self, shop: Shop):
        named = await shop.quote("A608", customer=HAN, lines=[one("A608-3")])
        kept = await shop.quote("A612", customer=HAN)

        assert error_of(named) == "SHIPPING_KEPT"
        assert kept.quotes[0].amount_minor == 170_000

    async def test_staff_give_it_by_word_and_it_is_paid(self, shop: Shop):
        (request,) = await file(shop, "A612", units={"A612-1": 1}, with_shipping=True)

        assert lines_of(request) == [("A612-1", 1, 170_000), ("A612-3", 1, 25_000)]
        await settle(shop, request)
        assert await balance(shop, "A612") == (0, 195_000)
        await assert_sound(shop)

    async def test_a_full_return_that_is_none_any_more_goes_stale(self, shop: Shop):
        """What another request had taken is kept after all: shipping would be paid for nothing."""
        (other,) = await file(shop, "A608", units={"A608-2": 1})
        quoted = await shop.quote("A608", customer=HAN, lines=[one("A608-1")])
        assert lines_of(quoted.quotes[0]) == [("A608-1", 1, 120_000), ("A608-3", 1, 30_000)]
        await shop.container.approvals().reject(other.id, by=await shop.approver("huong"))

        refused = await shop.answer(quoted, customer=HAN)

        assert error_of(refused) == "QUOTE_STALE"
        assert await balance(shop, "A608") == (0, 0)

    async def test_another_rule_while_it_waits_costs_the_customer_nothing(self, shop: Shop):
        request = await shop.filed("A608", customer=HAN)
        assert request.status is S.PENDING_APPROVAL
        await change_policy_body(shop, shipping="never")

        await settle(shop, request)

        assert await balance(shop, "A608") == (0, 230_000)


class TestPromotion:
    async def test_one_item_is_less_what_the_other_and_the_gift_keep(self, shop: Shop):
        quoted = await shop.quote("A609", customer=HAN, lines=[one("A609-1")])
        (quote,) = quoted.quotes

        assert (quote.amount_minor, quote.deduction_minor) == (35_000, 19_000)
        request = (await shop.answer(quoted, customer=HAN)).requests[0]
        assert lines_of(request) == [("A609-1", 1, 35_000)]
        await assert_sound(shop)

    async def test_in_three_returns_everything_comes_back(self, shop: Shop):
        """35,000, then the gift that was charged, then the rest with what was taken off."""
        amounts = []
        for line_id in ("A609-1", "A609-3", "A609-2"):
            request = await shop.filed("A609", customer=HAN, lines=[one(line_id)])
            amounts.append((await settle(shop, request)).amount_minor)

        assert amounts == [35_000, 15_000, 40_000]
        assert await balance(shop, "A609") == (0, 90_000)
        books = await books_of(shop, "A609")
        assert [(line.refunded_minor, line.units_taken) for line in books.lines] == [
            (54_000, 1),
            (36_000, 1),
            (0, 1),
        ]
        await assert_sound(shop)

    async def test_what_another_request_lost_makes_a_quote_stale(self, shop: Shop):
        """Quoted when the other item was on its way back, which it is not any more."""
        (other,) = await file(shop, "A609", units={"A609-2": 1, "A609-3": 1})
        quoted = await shop.quote("A609", customer=HAN, lines=[one("A609-1")])
        assert quoted.quotes[0].amount_minor == 60_000
        await shop.container.approvals().reject(other.id, by=await shop.approver("huong"))

        assert error_of(await shop.answer(quoted, customer=HAN)) == "QUOTE_STALE"

    async def test_a_policy_without_clawback_takes_nothing_off(self, shop: Shop):
        """Case 20: 60,000 and 40,000 less 10,000 together: the first alone is 54,000."""
        await change_policy_body(shop, clawback=False)
        quoted = await shop.quote("A609", customer=HAN, lines=[one("A609-1")])

        assert (quoted.quotes[0].amount_minor, quoted.quotes[0].deduction_minor) == (54_000, 0)


class TestCountedReturns:
    @pytest.fixture
    async def strict(self, tmp_path):
        url = make_database(tmp_path / "strict.db")
        await seed(url, what=sample("strict"))
        async with open_shop(url) as opened:
            yield opened

    async def test_two_of_three_are_two_thirds(self, strict: Shop):
        """Case 21."""
        request = await strict.filed("A610", customer=HAN)

        assert lines_of(request) == [("A610-1", 2, 120_000)]
        third = await strict.quote("A610", customer=HAN, lines=[one("A610-1")])
        assert error_of(third) == "RETURN_NOT_RECEIVED"

    async def test_three_of_two_are_refused(self, strict: Shop):
        refused = await strict.quote("A610", customer=HAN, lines=[one("A610-1", 3)])

        assert error_of(refused) == "QUANTITY_TOO_HIGH"

    async def test_nothing_back_is_nothing_refunded(self, strict: Shop):
        assert error_of(await strict.quote("A611", customer=HAN)) == "RETURN_NOT_RECEIVED"

    async def test_where_nobody_counts_a_person_looks_however_small(self, strict: Shop):
        request = await strict.filed("A102")

        assert request.status is S.PENDING_APPROVAL
        assert (request.verdict, request.required_level) == (Verdict.NEEDS_REVIEW, 1)
        assert Reason.RETURN_NOT_COUNTED in request.reasons

    async def test_a_count_that_falls_while_it_waits_does_not_stop_it(self, strict: Shop):
        """What came back was judged at filing; the window is not judged again either."""
        request = await strict.filed("A610", customer=HAN)
        (line,) = (await strict.container.orders().get("A610")).lines
        await change_order(strict, "A610", lines=(replace(line, received_units=0),))

        await settle(strict, request)

        assert await balance(strict, "A610") == (0, 120_000)


class TestCapturedTwice:
    async def test_the_second_capture_goes_back_and_the_order_stays_paid(self, shop: Shop):
        """Case 27, and the goods can still be returned afterwards."""
        (request,) = await file(shop, "A607", overpaid=True)
        assert (request.payment_id, request.amount_minor) == ("PAY-A607-2", 310_000)
        assert request.lines == (RefundLine(line_id=OVERPAID, units=0, amount_minor=310_000),)
        assert request.required_level == 1
        await settle(shop, request)

        order = await shop.container.orders().get("A607")
        assert order.status is OrderStatus.DELIVERED
        left = {p.payment_id: p.left_minor for p in (await books_of(shop, "A607")).payments}
        assert left == {"PAY-A607-1": 310_000, "PAY-A607-2": 0}
        returned = await settle(shop, await shop.filed("A607", customer="C006"))
        assert (returned.payment_id, returned.amount_minor) == ("PAY-A607-1", 310_000)
        await assert_sound(shop)

    @pytest.mark.parametrize("status", [OrderStatus.PAID, OrderStatus.SHIPPING])
    async def test_before_delivery_too_and_it_is_still_deliverable(
        self, shop: Shop, status: OrderStatus
    ):
        await change_order(shop, "A607", status=status, delivered_at=None)
        (request,) = await file(shop, "A607", overpaid=True)

        await settle(shop, request)

        assert (await shop.container.orders().get("A607")).status is status
        assert (await verdict(shop, "A607")).overpaid_minor == 0

    async def test_it_is_given_back_once(self, shop: Shop):
        await file(shop, "A607", overpaid=True)

        with pytest.raises(RefundRefused, match="AMOUNT_TOO_HIGH"):
            await file(shop, "A607", overpaid=True)
        assert len(await requests_of(shop)) == 1

    async def test_one_that_was_paid_once_after_all_goes_back_to_a_person(self, shop: Shop):
        (request,) = await file(shop, "A607", overpaid=True)
        order = await shop.container.orders().get("A607")
        once = replace(order, payments=(replace(order.payments[1]),))
        policy = await shop.read(shop.container.policies().current)

        judged = await shop.read(
            lambda tx: judge_again(tx, request, once, policy, shop.clock.now())
        )

        assert judged == Objection(reason=Reason.AMOUNT_TOO_HIGH, facts={"max": "310.000\u00a0₫"})


async def test_the_seed_of_a_newer_sample_leaves_an_older_policy_in_force(tmp_path):
    """The database of the first release gets the new orders and is told how to get the policy."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    make_old_database(url)
    await bring_up(url)
    async with open_shop(url) as shop:
        seeded = await shop.container.seeding().run(sample())
        policy = await shop.read(shop.container.policies().current)

        assert (seeded.policy_activated, seeded.policy_kept) == (False, 1)
        assert seeded.orders > 0
        assert (policy.id, policy.version) == ("standard", 1)
        assert (await verdict(shop, "A608")).max_refundable_minor == 200_000
        assert (await shop.container.seeding().run(sample())).orders == 0

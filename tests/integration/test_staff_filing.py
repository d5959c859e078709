"""Staff files without a conversation: every guard of filing, and another person decides."""

from dataclasses import replace

import pytest

from support_agent.domain.allocation import Wish
from support_agent.domain.errors import (
    ApproverDisabled,
    Conflict,
    InvalidInput,
    OrderNotFound,
    RefundRefused,
    SelfApproval,
)
from support_agent.domain.orders import PaymentMethod
from support_agent.domain.people import Approver
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from tests.heart import (
    add_approver,
    assert_nothing_filed,
    assert_sound,
    balance,
    change_approver,
    change_order,
    dispute,
    events,
    pay,
    requests_of,
    split,
)
from tests.kit import Shop

S = RequestStatus
ALL = Wish()


async def filed(
    shop: Shop, order_id: str = "A100", wish: Wish = ALL, *, name: str = "huong", **more
) -> tuple[RefundRequest, ...]:
    desk = shop.container.staff()
    order = await desk.order(order_id)
    return await desk.file(order, wish, by=await shop.approver(name), **more)


async def test_it_waits_for_another_person_at_any_amount(shop):
    [request] = await filed(shop, "A102", Wish(amount_minor=1))

    assert (request.status, request.required_level) == (S.PENDING_APPROVAL, 1)
    assert Reason.STAFF_FILED in request.reasons
    assert (request.conversation_id, request.requester.id) == (None, "huong")
    assert await balance(shop, "A102") == (1, 0)
    with pytest.raises(SelfApproval):
        await shop.container.approvals().approve(request.id, by=await shop.approver("huong"))
    await assert_sound(shop)


async def test_another_person_approves_and_it_is_paid_once(shop):
    [request] = await filed(shop)
    await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))

    paid = await pay(shop, request)

    assert paid.status is S.REFUNDED
    assert await balance(shop) == (0, 250_000)
    [event] = await events(shop, "refund.filed")
    assert (event.actor.id, event.actor.person_id) == ("huong", "P-HUONG")
    await assert_sound(shop)


async def test_the_same_person_under_another_name_does_not_decide_it(shop):
    other = Approver(name="huong2", person_id="P-HUONG", level=2, limits={"VND": 20_000_000})
    await add_approver(shop, other)
    [request] = await filed(shop, name="huong2")

    with pytest.raises(SelfApproval):
        await shop.container.approvals().approve(request.id, by=await shop.approver("huong"))


async def test_units_of_lines(shop):
    [request] = await filed(shop, "A401", Wish(units={"A401-1": 2}))

    assert (request.amount_minor, request.lines[0].units) == (60_000, 2)


async def test_a_reference_makes_it_repeatable(shop):
    first = await filed(shop, reference="T-42")

    assert await filed(shop, reference="T-42") == first
    with pytest.raises(Conflict, match="T-42"):
        await filed(shop, wish=Wish(amount_minor=1), reference="T-42")
    assert len(await requests_of(shop)) == 1


async def test_what_staff_filed_counts_into_what_the_order_has_left(shop):
    await filed(shop, wish=Wish(amount_minor=200_000))

    with pytest.raises(RefundRefused) as caught:
        await filed(shop, wish=Wish(amount_minor=50_001))
    assert caught.value.reason is Reason.AMOUNT_TOO_HIGH


class TestRefused:
    @pytest.mark.parametrize("order_id", ["A999", "", "a100"])
    async def test_an_order_that_is_not_there(self, shop, order_id):
        with pytest.raises(OrderNotFound):
            await filed(shop, order_id)

    @pytest.mark.parametrize(
        ("order_id", "wish", "reason"),
        [
            ("A100", Wish(amount_minor=250_001), Reason.AMOUNT_TOO_HIGH),
            ("A100", Wish(amount_minor=0), Reason.AMOUNT_INVALID),
            ("A100", Wish(units={"A100-9": 1}), Reason.LINE_UNKNOWN),
            ("A401", Wish(units={"A401-1": 11}), Reason.QUANTITY_TOO_HIGH),
            ("A101", ALL, Reason.ORDER_SHIPPING),
            ("A201", ALL, Reason.WINDOW_EXPIRED),
            ("A304", ALL, Reason.ABOVE_POLICY_LIMIT),
            ("A602", ALL, Reason.DESTINATION_MISSING),
        ],
    )
    async def test_by_the_rules_of_filing(self, shop, order_id, wish, reason):
        with pytest.raises(RefundRefused) as caught:
            await filed(shop, order_id, wish)

        assert caught.value.reason is reason
        await assert_nothing_filed(shop)

    async def test_while_the_payment_is_disputed(self, shop):
        await dispute(shop, "A100")

        with pytest.raises(RefundRefused, match="DISPUTED"):
            await filed(shop)

    async def test_by_one_who_is_disabled(self, shop):
        by = await shop.approver("huong")
        await change_approver(shop, "huong", disabled=True)
        desk = shop.container.staff()

        with pytest.raises(ApproverDisabled):
            await desk.file(await desk.order("A100"), ALL, by=by)
        await assert_nothing_filed(shop)

    @pytest.mark.parametrize("reference", ["", "a b", "x" * 65, "a\nb", "a:b"])
    async def test_with_a_reference_that_is_no_id(self, shop, reference):
        with pytest.raises(InvalidInput):
            await filed(shop, reference=reference)
        await assert_nothing_filed(shop)


async def test_a_part_that_is_only_shipping_stands_beside_the_others(shop):
    """Its goods are with the other payment, and what stays is not returnable anyway."""
    order = await shop.container.orders().get("A612")
    book, voucher, shipping = order.lines
    lines = (book, replace(voucher, returnable=False), shipping)
    payments = split(order, 170_000, method=PaymentMethod.CARD).payments
    await change_order(shop, "A612", lines=lines, payments=payments)
    wish = Wish(units={"A612-1": 1}, with_shipping=True)
    parts = await filed(shop, "A612", wish)
    assert [[line.line_id for line in part.lines] for part in parts] == [["A612-1"], ["A612-3"]]

    await shop.container.approvals().approve(parts[0].id, by=await shop.approver("lan"))

    assert [(await pay(shop, part)).status for part in parts] == [S.REFUNDED, S.REFUNDED]
    await assert_sound(shop)

"""Filing by staff: without a conversation, always waiting, once a reference, never decided by itself."""

import pytest

from support_agent.domain.allocation import Wish
from support_agent.domain.consent import Consent
from support_agent.domain.errors import Conflict, InvalidInput, RefundRefused, SelfApproval
from support_agent.domain.people import Principal
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from tests.heart import add_destination, assert_sound, balance, operator, requests_of
from tests.kit import Shop

S = RequestStatus


async def file(
    shop: Shop,
    order_id: str = "A102",
    *,
    by: Principal | None = None,
    reference: str | None = None,
    **wish,
) -> tuple[RefundRequest, ...]:
    order = await shop.container.orders().get(order_id)
    principal = by or await shop.approver("lan")
    return await shop.write(
        lambda tx: shop.container.filing().file_by_staff(
            tx, order=order, wish=Wish(**wish), by=principal, reference=reference
        )
    )


async def test_it_always_waits_for_a_person_however_small(shop: Shop):
    (request,) = await file(shop, amount_minor=1)

    assert (request.status, request.required_level) == (S.PENDING_APPROVAL, 1)
    assert request.reasons == (Reason.STAFF_FILED,)
    assert (request.conversation_id, request.run_id, request.consent) == (
        None,
        None,
        Consent.UNCLEAR,
    )
    assert request.quote_id.startswith("staff:")
    await assert_sound(shop)


async def test_who_filed_it_does_not_decide_it_and_another_does(shop: Shop):
    (request,) = await file(shop)
    approvals = shop.container.approvals()

    with pytest.raises(SelfApproval):
        await approvals.approve(request.id, by=await shop.approver("lan"))
    await approvals.approve(request.id, by=await shop.approver("huong"))

    assert (await shop.container.payouts().pay(request.id)).status is S.REFUNDED
    await assert_sound(shop)


async def test_a_split_order_is_one_group_with_ids_of_its_own(shop: Shop):
    requests = await file(shop, "A605", reference="ticket-7")

    assert [request.quote_id for request in requests] == ["staff:ticket-7", "staff:ticket-7:2"]
    assert len({request.group_id for request in requests}) == 1
    assert await balance(shop, "A605") == (600_000, 0)


@pytest.mark.parametrize("wish", [{}, {"amount_minor": 500_000}, {"units": {"A605-1": 1}}])
async def test_the_same_reference_again_gives_the_same_requests(shop: Shop, wish: dict):
    first = await file(shop, "A605", reference="ticket-7", **wish)
    await shop.container.approvals().reject(first[0].id, by=await shop.approver("huong"))

    again = await file(shop, "A605", by=operator("owner"), reference="ticket-7", **wish)

    assert [request.id for request in again] == [request.id for request in first]
    assert {request.status for request in again} == {S.REJECTED}
    assert len(await requests_of(shop)) == len(first)


@pytest.mark.parametrize(
    ("order_id", "wish"),
    [("A103", {"amount_minor": 1_000}), ("A102", {"amount_minor": 1_001}), ("A102", {})],
)
async def test_the_same_reference_for_another_refund_is_a_conflict(
    shop: Shop, order_id: str, wish: dict
):
    await file(shop, reference="ticket-7", amount_minor=1_000)

    with pytest.raises(Conflict, match=r"ticket-7.*reference of its own"):
        await file(shop, order_id, reference="ticket-7", **wish)

    assert len(await requests_of(shop)) == 1
    await assert_sound(shop)


async def test_without_a_reference_each_is_another(shop: Shop):
    first, second = await file(shop, amount_minor=1), await file(shop, amount_minor=1)

    assert first[0].id != second[0].id


@pytest.mark.parametrize("reference", ["", "a:2", "a b", "x" * 65, "-a", "a\n", "ä"])
async def test_a_reference_that_could_be_mistaken_is_refused(shop: Shop, reference: str):
    with pytest.raises(InvalidInput):
        await file(shop, reference=reference)

    assert await requests_of(shop) == ()


@pytest.mark.parametrize(
    ("order_id", "wish", "reason"),
    [
        ("A101", {}, Reason.ORDER_SHIPPING),
        ("A201", {}, Reason.WINDOW_EXPIRED),
        ("A102", {"amount_minor": 120_001}, Reason.AMOUNT_TOO_HIGH),
        ("A304", {}, Reason.ABOVE_POLICY_LIMIT),
        ("A602", {}, Reason.DESTINATION_MISSING),
    ],
)
async def test_the_policy_holds_for_staff_too(
    shop: Shop, order_id: str, wish: dict, reason: Reason
):
    with pytest.raises(RefundRefused) as refused:
        await file(shop, order_id, **wish)

    assert refused.value.reason is reason
    assert await requests_of(shop) == ()
    assert await balance(shop, order_id) == (0, 0)


async def test_cash_goes_to_the_customers_account(shop: Shop):
    account = await add_destination(shop, days_old=1)

    (request,) = await file(shop, "A602")

    assert request.destination.startswith(f"bank:{account.id}:")
    assert request.required_level == 2
    assert set(request.reasons) == {
        Reason.PAYMENT_NEEDS_PERSON,
        Reason.DESTINATION_NEW,
        Reason.STAFF_FILED,
    }


async def test_what_was_captured_twice_goes_back_whatever_the_dates(shop: Shop):
    """Cases row 27: the order stays as it is, one of the two payments is given back."""
    (request,) = await file(shop, "A607", overpaid=True)

    assert request.amount_minor == 310_000
    assert request.payment_id == "PAY-A607-2"
    assert Reason.STAFF_FILED in request.reasons
    await assert_sound(shop)

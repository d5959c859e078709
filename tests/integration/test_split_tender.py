"""A refund that several payments carry is one offer, one yes, one decision; each part is paid alone."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.agent.turns import TurnResult
from support_agent.domain.consent import Consent
from support_agent.domain.errors import AlreadyDecided, RefundRefused
from support_agent.domain.orders import LineKind, PaymentMethod, Promotion
from support_agent.domain.people import SYSTEM
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.services.stored_requests import group_of
from support_agent.testing.gateway import Act
from tests.heart import (
    ANSWERED,
    add_destination,
    asker,
    assert_sound,
    attack,
    balance,
    books_of,
    calls,
    change_order,
    change_policy,
    change_request,
    error_of,
    file,
    notices,
    observations,
    open_shop_with,
    operator,
    requests_of,
    simulator,
    split,
)
from tests.kit import Shop, open_shop

S = RequestStatus
SPLIT = "A605"  # 450,000 + 150,000, paid with 400,000 by card and 200,000 by gift card
TOTAL = 600_000
OWNER = "C006"


async def split_payments(
    shop: Shop, order_id: str, first_minor: int, *, method: PaymentMethod = PaymentMethod.WALLET
) -> None:
    """The order's one payment becomes two, the second by another instrument."""
    order = await shop.container.orders().get(order_id)
    await change_order(shop, order_id, payments=split(order, first_minor, method=method).payments)


async def quote(shop: Shop, **arguments) -> TurnResult:
    return await shop.quote(SPLIT, customer=OWNER, **arguments)


async def filed(shop: Shop) -> tuple[RefundRequest, ...]:
    return (await shop.answer(await quote(shop), customer=OWNER)).requests


async def now(shop: Shop, requests: tuple[RefundRequest, ...]) -> list[RequestStatus]:
    return [(await shop.request(request.id)).status for request in requests]


class TestOffer:
    async def test_several_payments_are_one_offer(self, shop: Shop):
        quoted = await quote(shop)

        one, other = quoted.quotes
        assert {one.method: one.amount_minor, other.method: other.amount_minor} == {
            PaymentMethod.CARD: 400_000,
            PaymentMethod.GIFT_CARD: 200_000,
        }
        assert (one.group_id, one.created_at, one.expires_at, one.shown_seq) == (
            other.group_id,
            other.created_at,
            other.expires_at,
            other.shown_seq,
        )
        assert quoted.answer.count("Báo giá") == 1
        for told in (one.id, "600.000", "thẻ đã thanh toán (400.000", "quà tặng đã dùng (200.000"):
            assert told in quoted.answer, told

    async def test_the_model_is_given_one_id_and_the_parts(self, shop: Shop):
        quoted = await quote(shop)

        told = json.loads(observations(quoted)[0])
        assert (told["quote_id"], told["amount"]) == (quoted.quotes[0].id, TOTAL)
        assert sorted(part["amount"] for part in told["parts"]) == [200_000, 400_000]
        assert "destination" not in told

    async def test_what_one_payment_carries_is_not_split(self, shop: Shop):
        quoted = await quote(shop, amount=150_000)

        assert len(quoted.quotes) == 1
        assert "parts" not in json.loads(observations(quoted)[0])

    async def test_one_more_than_all_payments_together_is_refused(self, shop: Shop):
        exact, above = await quote(shop, amount=TOTAL), await quote(shop, amount=TOTAL + 1)

        assert sum(part.amount_minor for part in exact.quotes) == TOTAL
        assert error_of(above) == "AMOUNT_TOO_HIGH"

    async def test_a_newer_quote_voids_all_of_it(self, shop: Shop):
        first = await quote(shop)
        newer = await quote(shop, conversation=first.conversation_id, amount=1)

        for part in first.quotes:
            refused = await file(shop, first, customer=OWNER, quote_id=part.id)
            assert error_of(refused) == "QUOTE_SUPERSEDED"
        assert len(newer.quotes) == 1
        assert await requests_of(shop) == ()

    async def test_while_unanswered_it_is_shown_again_whole(self, shop: Shop):
        quoted = await quote(shop)

        again = await shop.say("bao lâu?", customer=OWNER, conversation=quoted.conversation_id)

        assert [part.id for part in again.quotes] == [part.id for part in quoted.quotes]
        assert again.answer.count("Báo giá") == 1
        assert len({part.shown_seq for part in again.quotes}) == 1


class TestFiling:
    @pytest.mark.parametrize("member", [0, 1])
    async def test_one_yes_files_a_request_for_each_payment(self, shop: Shop, member: int):
        quoted = await quote(shop)

        result = await file(shop, quoted, customer=OWNER, quote_id=quoted.quotes[member].id)

        requests = result.requests
        assert [request.quote_id for request in requests] == [part.id for part in quoted.quotes]
        assert [request.amount_minor for request in requests] == [
            part.amount_minor for part in quoted.quotes
        ]
        same = {
            (r.group_id, r.status, r.required_level, r.approvals_needed, r.reasons, r.created_at)
            for r in requests
        }
        assert len(same) == 1
        assert requests[0].status is S.PENDING_APPROVAL
        assert await balance(shop, SPLIT) == (TOTAL, 0)
        assert result.answer.count("Yêu cầu") == 1
        assert "600.000" in result.answer
        await assert_sound(shop)

    @pytest.mark.parametrize("state", ["pending", "paid", "rejected", "cancelled", "expired"])
    async def test_the_same_offer_again_is_the_same_requests_whatever_their_state(
        self, shop: Shop, state: str
    ):
        quoted = await quote(shop)
        first = (await file(shop, quoted, customer=OWNER)).requests
        if state == "paid":
            await shop.container.approvals().approve(first[0].id, by=await shop.approver("lan"))
            for request in first:
                await shop.container.payouts().pay(request.id)
        elif state == "rejected":
            await shop.container.approvals().reject(first[1].id, by=await shop.approver("lan"))
        elif state == "cancelled":
            who = asker(OWNER, quoted.conversation_id)
            await shop.write(lambda tx: shop.container.life().cancel(tx, first[1].id, who))
        elif state == "expired":
            shop.clock.advance(timedelta(days=4))
            await shop.container.life().expire_due(shop.container.database())
        before = await shop.read(lambda tx: group_of(tx, first[0]))

        for part in quoted.quotes:
            again = await file(shop, quoted, "đồng ý", customer=OWNER, quote_id=part.id)
            assert again.requests == before

        assert len({request.status for request in before}) == 1
        assert len(await requests_of(shop)) == 2
        await assert_sound(shop)

    async def test_small_enough_it_is_automatic_as_a_whole_and_paid_part_by_part(self, shop: Shop):
        await split_payments(shop, "A102", 70_000)
        quoted = await shop.quote("A102")

        result = await shop.answer(quoted)

        assert {r.method: r.amount_minor for r in result.requests} == {
            PaymentMethod.CARD: 70_000,
            PaymentMethod.WALLET: 50_000,
        }
        assert {r.status for r in result.requests} == {S.REFUNDED}
        assert await balance(shop, "A102") == (0, 120_000)
        assert result.answer.count("Đã hoàn 120.000") == 1
        assert await notices(shop, quoted.conversation_id) == []
        await assert_sound(shop)

    async def test_parts_below_the_automatic_limit_do_not_hide_a_sum_above_it(self, shop: Shop):
        await split_payments(shop, "A205", 100_001, method=PaymentMethod.GIFT_CARD)

        quoted = await shop.quote("A205", customer="C002")
        requests = (await shop.answer(quoted, customer="C002")).requests

        assert all(request.amount_minor <= 200_000 for request in requests)
        assert {(r.status, r.required_level) for r in requests} == {(S.PENDING_APPROVAL, 1)}

    async def test_four_eyes_look_at_the_sum(self, shop: Shop):
        await split_payments(shop, "A303", 6_000_000)
        quoted = await shop.quote("A303", customer="C003")

        requests = (await shop.answer(quoted, customer="C003")).requests

        assert {(r.required_level, r.approvals_needed) for r in requests} == {(2, 2)}

    async def test_the_caps_count_every_part(self, shop: Shop):
        await change_policy(shop, auto_per_customer_day=239_999)
        await split_payments(shop, "A102", 70_000)
        await shop.answer(await shop.quote("A102"))

        over = await shop.filed("A103", amount=120_000)
        within = await shop.filed("A104", amount=119_999)

        assert over.reasons == (Reason.CAP_CUSTOMER_DAY,)
        assert within.status is S.REFUNDED
        await assert_sound(shop)

    async def test_a_cap_that_only_the_last_part_fills_sends_all_and_counts_none(self, shop: Shop):
        await change_policy(shop, auto_per_installation_day=119_999)
        await split_payments(shop, "A102", 70_000)

        requests = (await shop.answer(await shop.quote("A102"))).requests
        other = await shop.filed("A103", amount=119_999)

        assert {(r.status, r.reasons) for r in requests} == {
            (S.PENDING_APPROVAL, (Reason.CAP_INSTALLATION_DAY,))
        }
        assert other.status is S.REFUNDED
        await assert_sound(shop)

    async def test_a_part_in_cash_makes_the_whole_wait_for_a_person(self, shop: Shop):
        await add_destination(shop, "C001")
        await split_payments(shop, "A102", 70_000, method=PaymentMethod.COD)

        quoted = await shop.quote("A102")
        requests = (await shop.answer(quoted)).requests

        assert {request.status for request in requests} == {S.PENDING_APPROVAL}
        assert Reason.PAYMENT_NEEDS_PERSON in requests[0].reasons
        assert "VCB ••••6789" in quoted.answer

    async def test_a_part_in_cash_without_an_account_refuses_the_whole(self, shop: Shop):
        await split_payments(shop, "A102", 70_000, method=PaymentMethod.COD)

        assert error_of(await shop.quote("A102")) == "DESTINATION_MISSING"

    @pytest.mark.parametrize(
        ("text", "code"), [("không", "CONSENT_REFUSED"), ("bao lâu?", "CONSENT_UNCLEAR")]
    )
    async def test_without_a_clear_yes_nothing_automatic_is_filed(
        self, shop: Shop, text: str, code: str
    ):
        await split_payments(shop, "A102", 70_000)

        refused = await file(shop, await shop.quote("A102"), text)

        assert error_of(refused) == code
        assert (await books_of(shop, "A102")).taken_minor == 0

    async def test_an_unclear_answer_files_all_of_what_a_person_decides_anyway(self, shop: Shop):
        result = await file(shop, await quote(shop), "bao lâu?", customer=OWNER)

        assert [r.consent for r in result.requests] == [Consent.UNCLEAR, Consent.UNCLEAR]

    async def test_implied_consent_files_all_and_waits(self, shop_url: str):
        async with open_shop(shop_url, consent={"request_refund": "implied"}) as shop:
            await split_payments(shop, "A102", 70_000)
            result = await shop.say(
                "hoàn tiền đơn A102",
                calls("quote_refund", order_id="A102"),
                calls("request_refund", quote_id="{{quote_refund.quote_id}}"),
                ANSWERED,
            )

            assert [r.status for r in result.requests] == [S.PENDING_APPROVAL] * 2

    @pytest.mark.parametrize("which", [0, 1])
    async def test_a_dispute_about_one_payment_makes_the_whole_stale(self, shop: Shop, which: int):
        quoted = await quote(shop)
        order = await shop.container.orders().get(SPLIT)
        payments = list(order.payments)
        payments[which] = replace(payments[which], disputed=True)
        await change_order(shop, SPLIT, payments=tuple(payments))

        refused = await file(shop, quoted, customer=OWNER)

        assert error_of(refused) == "QUOTE_STALE"
        assert (await books_of(shop, SPLIT)).taken_minor == 0

    async def test_money_taken_from_one_part_makes_the_whole_stale(self, shop: Shop):
        quoted = await quote(shop)
        await file(shop, await quote(shop, amount=1), customer=OWNER)

        refused = await file(shop, quoted, customer=OWNER)

        assert error_of(refused) == "QUOTE_STALE"
        assert (await books_of(shop, SPLIT)).taken_minor == 1

    async def test_it_expires_as_a_whole(self, shop: Shop):
        quoted = await quote(shop)
        shop.clock.advance(timedelta(minutes=30, seconds=1))

        assert error_of(await file(shop, quoted, customer=OWNER)) == "QUOTE_EXPIRED"

    @pytest.mark.parametrize(
        "change",
        [
            "DELETE FROM quotes WHERE id = '{last}'",
            "UPDATE quotes SET amount_minor = amount_minor - 1 WHERE id = '{last}'",
            "UPDATE quotes SET group_id = 'grp_other' WHERE id = '{last}'",
            "UPDATE quotes SET shown_seq = shown_seq - 1 WHERE id = '{last}'",
        ],
    )
    async def test_only_what_was_shown_together_is_filed(self, shop: Shop, change: str):
        quoted = await quote(shop)
        attack(shop.url, change.format(last=quoted.quotes[1].id))

        refused = await file(shop, quoted, customer=OWNER)

        assert error_of(refused) == "QUOTE_STALE"
        assert await requests_of(shop) == ()

    async def test_a_quote_shown_elsewhere_cannot_be_slipped_into_an_offer(self, shop: Shop):
        other = await shop.quote("A603", customer=OWNER)  # no account: nothing is quoted
        assert other.quotes == ()
        shown = await shop.quote("A607", customer=OWNER)
        quoted = await quote(shop)
        move = "UPDATE quotes SET group_id = '{}' WHERE id = '{}'"
        attack(shop.url, move.format(quoted.quotes[0].group_id, shown.quotes[0].id))

        assert error_of(await file(shop, quoted, customer=OWNER)) == "QUOTE_STALE"


class TestLife:
    async def test_approved_by_one_decision_and_paid_each_alone(self, shop: Shop):
        """Each is judged again while the other holds its reserve, partly on the same line."""
        requests = await filed(shop)

        await shop.container.approvals().approve(requests[1].id, by=await shop.approver("lan"))
        assert await now(shop, requests) == [S.APPROVED, S.APPROVED]
        await shop.container.payouts().pay(requests[1].id)

        assert await now(shop, requests) == [S.APPROVED, S.REFUNDED]
        await shop.container.payouts().pay(requests[0].id)
        assert await balance(shop, SPLIT) == (0, TOTAL)
        again = await quote(shop)
        assert error_of(again) == "ALREADY_REFUNDED"
        await assert_sound(shop)

    @pytest.mark.parametrize("first", [0, 1])
    @pytest.mark.parametrize(
        ("lines", "amount", "deduction"),
        [(None, 570_000, 0), ([{"line_id": "A605-1", "quantity": 1}], 390_000, 15_000)],
        ids=["all with shipping", "a promotion lost"],
    )
    async def test_each_part_of_a_settled_promotion_stands_again_when_it_is_paid(
        self, shop: Shop, lines: list | None, amount: int, deduction: int, first: int
    ):
        """Judged alone, a part knows only its own lines: the others' reserves speak for the rest."""
        order = await shop.container.orders().get(SPLIT)
        goods = [
            replace(line, discount_minor=given, promotion_minor=given)
            for line, given in zip(order.lines, (45_000, 15_000), strict=True)
        ]
        shipping = replace(
            order.lines[1], id="A605-S", unit_price_minor=30_000, kind=LineKind.SHIPPING
        )
        card, gift = order.payments
        await change_order(
            shop,
            SPLIT,
            lines=(*goods, shipping),
            payments=(card, replace(gift, captured_minor=170_000)),
            promotion=Promotion(id="P500", threshold_minor=500_000),
        )
        quoted = await (quote(shop, lines=lines) if lines else quote(shop))
        requests = (await shop.answer(quoted, customer=OWNER)).requests
        await shop.container.approvals().approve(requests[0].id, by=await shop.approver("lan"))

        await shop.container.payouts().pay(requests[first].id)
        await shop.container.payouts().pay(requests[1 - first].id)

        assert sum(part.deduction_minor for part in quoted.quotes) == deduction
        assert quoted.answer.count("ưu đãi") == (1 if deduction else 0)
        assert len(requests) == 2
        assert await now(shop, requests) == [S.REFUNDED, S.REFUNDED]
        assert await balance(shop, SPLIT) == (0, amount)
        await assert_sound(shop)

    @pytest.mark.parametrize("member", [0, 1])
    async def test_the_customer_cancels_all_of_it_by_any_id(self, shop: Shop, member: int):
        requests = await filed(shop)

        result = await shop.say(
            "huỷ yêu cầu",
            calls("cancel_refund", request_id=requests[member].id),
            ANSWERED,
            customer=OWNER,
            conversation=requests[0].conversation_id,
        )

        assert [request.status for request in result.requests] == [S.CANCELLED, S.CANCELLED]
        assert result.answer.count("đã được huỷ") == 1
        assert "600.000" in result.answer
        assert await balance(shop, SPLIT) == (0, 0)
        await assert_sound(shop)

    async def test_the_shop_cancels_all_of_it_and_tells_the_customer_once(self, shop: Shop):
        requests = await filed(shop)

        await shop.write(
            lambda tx: shop.container.life().cancel_for_shop(
                tx, requests[0].id, by=operator("owner")
            )
        )

        assert await now(shop, requests) == [S.CANCELLED, S.CANCELLED]
        (told,) = await notices(shop, requests[0].conversation_id)
        assert "600.000" in told
        await assert_sound(shop)

    async def test_it_expires_together_and_the_customer_is_told_once(self, shop: Shop):
        requests = await filed(shop)
        shop.clock.advance(timedelta(days=4))

        expired = await shop.container.life().expire_due(shop.container.database())

        assert [request.id for request in expired] == [request.id for request in requests]
        assert {request.status for request in expired} == {S.EXPIRED}
        (told,) = await notices(shop, requests[0].conversation_id)
        assert "600.000" in told
        await assert_sound(shop)

    async def test_once_a_part_is_on_its_way_nothing_of_it_is_cancelled(self, shop_url: str):
        gateway = simulator()
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            requests = await filed(shop)
            await shop.container.approvals().approve(requests[0].id, by=await shop.approver("lan"))
            gateway.will(Act.LOSE_ANSWER)
            await shop.container.payouts().pay(requests[0].id)
            who = asker(OWNER, requests[0].conversation_id)

            for request in requests:
                with pytest.raises(RefundRefused, match="ALREADY_PAYING"):
                    await shop.write(
                        lambda tx, r=request: shop.container.life().cancel(tx, r.id, who)
                    )

            assert await now(shop, requests) == [S.IN_DOUBT, S.APPROVED]

    async def test_what_is_left_of_a_paid_one_can_be_cancelled(self, shop: Shop):
        requests = await filed(shop)
        await shop.container.approvals().approve(requests[0].id, by=await shop.approver("lan"))
        await shop.container.payouts().pay(requests[0].id)
        who = asker(OWNER, requests[0].conversation_id)

        await shop.write(lambda tx: shop.container.life().cancel(tx, requests[0].id, who))

        assert await now(shop, requests) == [S.REFUNDED, S.CANCELLED]
        with pytest.raises(AlreadyDecided):
            await shop.write(lambda tx: shop.container.life().cancel(tx, requests[0].id, who))
        await assert_sound(shop)

    async def test_a_group_id_written_by_hand_takes_nobody_elses_request_along(self, shop: Shop):
        theirs = await shop.filed("A205", customer="C002")
        requests = await filed(shop)
        group = requests[0].group_id
        change_request(shop, theirs.id, f"group_id = '{group}'")
        who = asker(OWNER, requests[0].conversation_id)

        await shop.write(lambda tx: shop.container.life().cancel(tx, requests[0].id, who))

        assert (await shop.request(theirs.id)).status is S.PENDING_APPROVAL

    async def test_of_a_group_that_moves_together_one_that_cannot_stops_all(self, shop: Shop):
        requests = await filed(shop)
        stale = replace(requests[1], version=7)

        with pytest.raises(AlreadyDecided):
            await shop.write(
                lambda tx: shop.container.life().move_group(
                    tx, (requests[0], stale), S.EXPIRED, actor=SYSTEM
                )
            )

        assert await now(shop, requests) == [S.PENDING_APPROVAL, S.PENDING_APPROVAL]
        assert await notices(shop, requests[0].conversation_id) == []
        await assert_sound(shop)


class TestStatus:
    async def test_any_id_tells_all_of_it(self, shop: Shop):
        requests = await filed(shop)

        for request in requests:
            result = await shop.say(
                "tới đâu rồi?",
                calls("refund_status", request_id=request.id),
                ANSWERED,
                customer=OWNER,
                conversation=request.conversation_id,
            )

            rows = json.loads(observations(result)[0])["requests"]
            assert [row["request_id"] for row in rows] == [r.id for r in requests]
            assert [row.get("part_of") for row in rows] == [None, requests[0].id]
            assert result.requests == requests
            assert result.answer.count("đang chờ nhân viên duyệt") == 1

    async def test_parts_that_stand_differently_are_told_each(self, shop: Shop):
        requests = await filed(shop)
        await shop.container.approvals().approve(requests[0].id, by=await shop.approver("lan"))
        await shop.container.payouts().pay(requests[0].id)

        result = await shop.say(
            "tới đâu rồi?",
            calls("refund_status", order_id=SPLIT),
            ANSWERED,
            customer=OWNER,
            conversation=requests[0].conversation_id,
        )

        assert "Đã hoàn 400.000" in result.answer or "Đã hoàn 200.000" in result.answer
        assert "đã được duyệt và sẽ được chi trả" in result.answer
        assert "600.000" not in result.answer

"""Filing under switches and promotions, and amounts that stay what they are on their way."""

import json
from dataclasses import replace

import pytest

from support_agent.domain.orders import Promotion
from support_agent.domain.people import SYSTEM
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import SwitchName
from tests.heart import (
    ANSWERED,
    assert_sound,
    attack,
    calls,
    change_order,
    error_of,
    file,
    notices,
    observations,
    open_shop_with,
    operator,
    simulator,
)
from tests.kit import Shop

S = RequestStatus


class TestKillSwitch:
    """Automatic approval can be switched off; the switch is read where the money is reserved."""

    async def _turn(self, shop: Shop, *, on: bool) -> None:
        board = shop.container.switchboard()
        await shop.write(
            lambda tx: board.turn(tx, SwitchName.AUTO_APPROVAL, on=on, by=operator("owner"))
        )

    async def test_while_it_is_off_a_person_decides_and_the_quote_says_so(self, shop: Shop):
        await self._turn(shop, on=False)
        quoted = await shop.quote("A102")

        (request,) = (await file(shop, quoted)).requests

        assert "cần nhân viên duyệt" in quoted.answer
        assert (request.status, request.required_level) == (S.PENDING_APPROVAL, 1)
        assert request.reasons == (Reason.AUTO_APPROVAL_OFF,)

    async def test_off_since_the_quote_is_enough(self, shop: Shop):
        quoted = await shop.quote("A102")
        await self._turn(shop, on=False)

        (request,) = (await file(shop, quoted)).requests

        assert request.status is S.PENDING_APPROVAL
        assert quoted.quotes[0].needs_person is False

    async def test_on_again_since_the_quote_still_takes_a_clear_yes(self, shop: Shop):
        await self._turn(shop, on=False)
        asked, agreed = await shop.quote("A102"), await shop.quote("A103")
        await self._turn(shop, on=True)

        assert error_of(await file(shop, asked, "bao lâu?")) == "CONSENT_UNCLEAR"
        assert (await file(shop, agreed)).requests[0].status is S.REFUNDED

    async def test_a_switch_somebody_wrote_by_hand_is_off(self, shop: Shop):
        await self._turn(shop, on=False)
        attack(shop.url, "UPDATE switches SET is_on = 1")

        assert (await shop.filed("A102")).status is S.PENDING_APPROVAL

    async def test_what_asks_for_a_person_anyway_names_only_that(self, shop: Shop):
        await self._turn(shop, on=False)

        assert (await shop.filed("A100")).reasons == (Reason.ABOVE_AUTO_LIMIT,)


class TestPromotion:
    """60,000 + 40,000 less 10,000 from 80,000 on: what is kept has to reach it alone."""

    @pytest.fixture
    async def promoted(self, shop: Shop) -> None:
        order = await shop.container.orders().get("A402")
        lines = tuple(replace(line, promotion_minor=line.discount_minor) for line in order.lines)
        promotion = Promotion(id="P80", threshold_minor=80_000)
        await change_order(shop, "A402", lines=lines, promotion=promotion)

    @pytest.mark.usefixtures("promoted")
    async def test_what_is_lost_is_taken_off_and_said(self, shop: Shop):
        lines = [{"line_id": "A402-1", "quantity": 1}]

        quoted = await shop.quote("A402", customer="C004", lines=lines)
        filed = await shop.answer(quoted, customer="C004")

        (quote,) = quoted.quotes
        assert (quote.amount_minor, quote.deduction_minor) == (50_000, 4_000)
        assert "đã trừ 4.000\u00a0₫ ưu đãi" in quoted.answer
        told = json.loads(observations(quoted)[0])
        assert told["deduction"] == 4_000
        assert "khuyến mãi" in told["notes"][0]
        assert (filed.requests[0].amount_minor, filed.requests[0].status) == (50_000, S.REFUNDED)

    @pytest.mark.usefixtures("promoted")
    async def test_it_is_said_in_english_too(self, shop: Shop):
        call = calls("quote_refund", order_id="A402", lines=[{"line_id": "A402-1", "quantity": 1}])

        quoted = await shop.say("please refund my t-shirt", call, ANSWERED, customer="C004")

        assert "4.000\u00a0₫ of the promotion was taken off" in quoted.answer

    @pytest.mark.usefixtures("promoted")
    async def test_all_of_it_back_takes_nothing_off(self, shop: Shop):
        quoted = await shop.quote("A402", customer="C004")

        assert (quoted.quotes[0].amount_minor, quoted.quotes[0].deduction_minor) == (90_000, 0)
        assert "ưu đãi" not in quoted.answer

    @pytest.mark.usefixtures("promoted")
    async def test_an_offer_is_filed_as_shown_though_less_would_be_lost_by_now(self, shop: Shop):
        """What the customer agreed to, and what is due beyond it stays due."""
        second = [{"line_id": "A402-2", "quantity": 1}]
        quoted = await shop.quote("A402", customer="C004", lines=second)
        first = [{"line_id": "A402-1", "quantity": 1}]
        rival = await shop.filed("A402", customer="C004", lines=first)

        (request,) = (await file(shop, quoted, customer="C004")).requests
        rest = await shop.quote("A402", customer="C004")

        amounts = (rival.amount_minor, request.amount_minor, rest.quotes[0].amount_minor)
        assert amounts == (50_000, 30_000, 10_000)

    async def test_an_offer_that_another_return_made_too_high_is_stale(self, shop: Shop):
        """Each of two lines may go alone; with both gone the third loses its promotion."""
        order = await shop.container.orders().get("A402")
        third = replace(order.lines[0], id="A402-3", unit_price_minor=50_000, discount_minor=5_000)
        lines = tuple(
            replace(line, promotion_minor=line.discount_minor) for line in (*order.lines, third)
        )
        paid = (replace(order.payments[0], captured_minor=135_000),)
        promotion = Promotion(id="P90", threshold_minor=90_000)
        await change_order(shop, "A402", lines=lines, payments=paid, promotion=promotion)
        second = [{"line_id": "A402-2", "quantity": 1}]
        quoted = await shop.quote("A402", customer="C004", lines=second)
        await shop.filed("A402", customer="C004", lines=[{"line_id": "A402-1", "quantity": 1}])

        refused = await file(shop, quoted, customer="C004")
        again = await shop.quote("A402", customer="C004", lines=second)

        assert quoted.quotes[0].amount_minor == 36_000
        assert error_of(refused) == "QUOTE_STALE"
        (quote,) = again.quotes
        assert (quote.amount_minor, quote.deduction_minor) == (31_000, 5_000)


class TestMinorUnits:
    """Cases rows 16 to 18: what is asked for, shown, stored and sent is the same number."""

    @pytest.mark.parametrize(
        ("order_id", "customer", "amount", "shown"),
        [("A300", "C003", 5_000, "5.000\u00a0₫"), ("A102", "C001", None, "120.000\u00a0₫")],
    )
    async def test_no_amount_is_multiplied_or_divided_on_its_way(
        self, shop_url: str, order_id: str, customer: str, amount: int | None, shown: str
    ):
        gateway = simulator()
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            quoted = await shop.quote(order_id, customer=customer, amount=amount)
            await shop.answer(quoted, customer=customer)

            (sent,) = gateway.refunds
            assert shown in quoted.answer
            assert sent.amount_minor == quoted.quotes[0].amount_minor == (amount or 120_000)

    @pytest.mark.parametrize("text", ["250.000", "250,000", "250000"])
    async def test_a_written_amount_is_a_field_error_and_never_250(self, shop: Shop, text: str):
        refused = await shop.quote("A100", amount=text)

        assert error_of(refused) == "INVALID_ARGUMENTS"
        assert refused.quotes == ()


async def test_whether_it_was_refunded_is_computed_and_never_stored(shop: Shop):
    """Cases row 32: a late failure makes the order refundable again, and the customer hears it."""
    request = await shop.filed("A102")
    before = await shop.quote("A102")

    failed = await shop.write(
        lambda tx: shop.container.life().transition(tx, request, S.FAILED, actor=SYSTEM)
    )
    again = await shop.quote("A102")

    assert error_of(before) == "ALREADY_REFUNDED"
    assert failed.status is S.FAILED
    assert again.quotes[0].amount_minor == 120_000
    (told,) = await notices(shop, request.conversation_id)
    assert "đã báo là xong nhưng sau đó" in told
    assert request.id in told
    await assert_sound(shop)

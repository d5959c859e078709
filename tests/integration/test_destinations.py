"""Payout destinations: where cash and transfers are paid back to, and who may see the number."""

from datetime import timedelta

import pytest

from support_agent.domain.errors import (
    ApproverDisabled,
    CustomerNotFound,
    DestinationNotFound,
    InvalidInput,
    RecordChanged,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RequestStatus
from support_agent.services.destinations import check, newest_for, text_of
from tests.heart import (
    add_destination,
    assert_nothing_filed,
    assert_sound,
    attack,
    change_policy_body,
    error_of,
    events,
    file,
    observations,
    operator,
    problems,
    tasks,
)
from tests.kit import Shop

S = RequestStatus
NUMBER = "0123456789"
COD, TRANSFER = "A602", "A603"


class TestAdding:
    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("bank", "V"),
            ("bank", "V" * 41),
            ("bank", "VCB\u202eBCV"),
            ("bank", "VCB\nACB"),
            ("account_number", "12345"),
            ("account_number", "1" * 31),
            ("account_number", "0123 456 789"),
            ("account_number", "٠١٢٣٤٥٦٧٨٩"),
            ("account_number", "0123456789\x00"),
            ("holder", "A"),
            ("holder", "A" * 81),
            ("holder", "TRAN\x1b[2JVAN"),
            ("holder", "TRAN\u200bVAN"),
        ],
    )
    async def test_what_no_bank_would_take_is_a_field_error(self, shop: Shop, field, value):
        with pytest.raises(InvalidInput):
            await add_destination(shop, **{field: value})

        assert await shop.read(lambda tx: newest_for(tx, "C006")) is None

    async def test_a_customer_the_shop_does_not_know_is_refused(self, shop: Shop):
        with pytest.raises(CustomerNotFound):
            await add_destination(shop, "C999")

    async def test_the_history_knows_that_and_not_the_number(self, shop: Shop):
        added = await add_destination(shop)

        (event,) = await events(shop, "destination.added")
        assert event.subject == added.id
        assert event.data.keys() == {"customer", "digest", "created_at"}
        assert NUMBER not in str(event)
        assert "SAU" not in str(event)

    async def test_the_newest_is_the_one_in_use(self, shop: Shop):
        await add_destination(shop, account_number="1111111111", days_old=20)
        newer = await add_destination(shop, account_number="2222222222", days_old=10)
        await add_destination(shop, "C001", account_number="3333333333", days_old=9)

        assert await shop.read(lambda tx: newest_for(tx, "C006")) == newer


class TestQuoting:
    @pytest.mark.parametrize("order_id", [COD, TRANSFER])
    async def test_without_an_account_it_is_refused_and_a_person_suggested(
        self, shop: Shop, order_id
    ):
        refused = await shop.quote(order_id, customer="C006")

        assert error_of(refused) == "DESTINATION_MISSING"
        assert "gặp nhân viên" in observations(refused)[0]
        assert refused.quotes == ()

    @pytest.mark.parametrize(("order_id", "amount"), [(COD, 180_000), (TRANSFER, 640_000)])
    async def test_with_one_the_customer_sees_it_masked(self, shop: Shop, order_id, amount):
        account = await add_destination(shop)

        quoted = await shop.quote(order_id, customer="C006")

        (quote,) = quoted.quotes
        assert (quote.amount_minor, quote.destination) == (amount, text_of(account))
        assert "VCB ••••6789" in quoted.answer
        assert NUMBER not in quoted.answer + str(observations(quoted))
        assert Reason.PAYMENT_NEEDS_PERSON in quote.reasons

    async def test_it_is_never_automatic_however_small(self, shop: Shop):
        await add_destination(shop)

        request = await shop.filed(COD, customer="C006", amount=1)

        assert (request.status, request.required_level) == (S.PENDING_APPROVAL, 1)

    async def test_an_unclear_answer_files_it_because_a_person_decides_anyway(self, shop: Shop):
        await add_destination(shop)
        quoted = await shop.quote(COD, customer="C006", amount=1)

        asked = await file(shop, quoted, "bao lâu thì nhận được tiền?", customer="C006")

        assert asked.requests[0].status is S.PENDING_APPROVAL
        declined = await file(
            shop, await shop.quote(COD, customer="C006", amount=1), "không", customer="C006"
        )
        assert error_of(declined) == "CONSENT_REFUSED"

    @pytest.mark.parametrize(
        ("age", "level"),
        [
            (timedelta(days=7), 1),
            (timedelta(days=7) - timedelta(seconds=1), 2),
            (timedelta(0), 2),
        ],
    )
    async def test_younger_than_seven_days_a_higher_level_decides(self, shop: Shop, age, level):
        await add_destination(shop, days_old=0)
        shop.clock.advance(age)

        request = await shop.filed(COD, customer="C006")

        assert request.required_level == level
        assert (Reason.DESTINATION_NEW in request.reasons) is (level == 2)

    async def test_the_highest_level_there_is_stays_the_highest(self, shop: Shop):
        await add_destination(shop, days_old=0)
        limits = {"auto": 0, "levels": [1_000, 20_000_000]}
        await change_policy_body(shop, limits={"VND": limits})

        assert (await shop.filed(COD, customer="C006")).required_level == 2

    async def test_a_newer_account_since_the_quote_makes_it_stale(self, shop: Shop):
        await add_destination(shop, days_old=20)
        quoted = await shop.quote(COD, customer="C006")
        await add_destination(shop, account_number="9999999999", days_old=10)

        refused = await file(shop, quoted, customer="C006")

        assert error_of(refused) == "QUOTE_STALE"
        await assert_nothing_filed(shop)

    async def test_a_card_needs_no_account(self, shop: Shop):
        await add_destination(shop, "C001", days_old=0)

        quoted = await shop.quote("A102")

        assert quoted.quotes[0].destination.startswith("ledger:")
        assert quoted.quotes[0].needs_person is False


class TestForgery:
    """Somebody writes the database: the money may be stopped by that, never sent elsewhere."""

    async def test_a_changed_number_is_not_quoted(self, shop: Shop):
        await add_destination(shop)
        attack(shop.url, "UPDATE payout_destinations SET account_number = '666666666'")

        assert error_of(await shop.quote(COD, customer="C006")) == "RECORD_CHANGED"

    async def test_a_row_nobody_added_is_not_quoted(self, shop: Shop):
        await add_destination(shop)
        attack(
            shop.url,
            "INSERT INTO payout_destinations SELECT 'dst_forged', customer_id, bank, '666666666',"
            " holder, '2099-01-01 00:00:00.000000', added_by, salt FROM payout_destinations",
        )

        assert error_of(await shop.quote(COD, customer="C006")) == "RECORD_CHANGED"

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM payout_destinations",
            "UPDATE payout_destinations SET customer_id = 'C001'",
        ],
    )
    async def test_an_account_that_is_gone_does_not_bring_the_one_before_back(
        self, shop: Shop, statement
    ):
        await add_destination(shop, account_number="1111111111", days_old=20)
        await add_destination(shop, account_number="2222222222", days_old=10)
        attack(shop.url, f"{statement} WHERE account_number = '2222222222'")

        assert error_of(await shop.quote(COD, customer="C006")) == "RECORD_CHANGED"
        assert any("payout destination" in problem for problem in await problems(shop))

    async def test_the_audit_finds_one_that_was_changed_or_that_nobody_added(self, shop: Shop):
        await add_destination(shop)
        await add_destination(shop, "C001")
        assert await problems(shop) == ()
        attack(
            shop.url,
            "UPDATE payout_destinations SET account_number = '6' WHERE customer_id = 'C001'",
            "INSERT INTO payout_destinations SELECT 'dst_forged', customer_id, bank, '666666666',"
            " holder, created_at, added_by, salt FROM payout_destinations WHERE customer_id = 'C006'",
        )

        changed, forged = await problems(shop)

        assert changed.endswith("is not what its history says")
        assert forged == "payout destination 'dst_forged' has no history"

    async def test_an_account_made_older_than_it_is_is_not_quoted(self, shop: Shop):
        await add_destination(shop, days_old=0)
        attack(shop.url, "UPDATE payout_destinations SET created_at = '2026-01-01 00:00:00.000000'")

        assert error_of(await shop.quote(COD, customer="C006")) == "RECORD_CHANGED"

    async def test_one_changed_after_approval_is_not_handed_to_who_pays(self, shop: Shop):
        await add_destination(shop)
        request = await shop.filed(COD, customer="C006")
        approvals = shop.container.approvals()
        await approvals.approve(request.id, by=await shop.approver("lan"))
        attack(shop.url, "UPDATE payout_destinations SET account_number = '666666666'")

        stopped = await shop.container.payouts().pay(request.id)

        assert stopped.status is S.APPROVED
        assert len(await tasks(shop, "payout_refused")) == 1

    async def test_untouched_it_goes_to_a_person(self, shop: Shop):
        account = await add_destination(shop)
        request = await shop.filed(COD, customer="C006")
        await shop.container.approvals().approve(request.id, by=await shop.approver("lan"))

        by_hand = await shop.container.payouts().pay(request.id)

        assert by_hand.status is S.MANUAL_REVIEW
        keys = shop.container.keys()
        assert await shop.read(lambda tx: check(tx, by_hand.destination, keys)) == account
        await assert_sound(shop)

    async def test_the_text_of_one_account_does_not_fit_another(self, shop: Shop):
        account = await add_destination(shop)
        text, keys = text_of(account), shop.container.keys()

        for forged in (f"{text}0", text.replace(account.id, "dst_other"), "bank:x:y", "bank:"):
            with pytest.raises(RecordChanged):
                await shop.read(lambda tx, forged=forged: check(tx, forged, keys))
        assert await shop.read(lambda tx: check(tx, "ledger:shop-main:x", keys)) is None


class TestShowing:
    async def test_an_approver_sees_the_number_and_that_is_audited(self, shop: Shop):
        account = await add_destination(shop)

        shown = await shop.container.destinations().reveal(
            account.id, by=await shop.approver("huong")
        )

        assert shown.account_number == NUMBER
        (event,) = await events(shop, "account.shown")
        assert (event.actor.id, event.subject) == ("huong", account.id)

    async def test_who_is_no_approver_any_more_does_not(self, shop: Shop):
        account = await add_destination(shop)

        for by in (await shop.approver("dung"), operator("lan2")):
            with pytest.raises(ApproverDisabled):
                await shop.container.destinations().reveal(account.id, by=by)
        assert await events(shop, "account.shown") == []

    async def test_an_unknown_one_is_not_found(self, shop: Shop):
        with pytest.raises(DestinationNotFound):
            await shop.container.destinations().reveal("dst_none", by=await shop.approver())

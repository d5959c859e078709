"""Filing: what a customer's answer to a quote may turn into, and what it may not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.consent import Consent
from support_agent.domain.errors import QuoteNotFound, RefundRefused
from support_agent.domain.orders import OrderStatus
from support_agent.domain.policy import Verdict
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import StopReason
from tests.heart import (
    ANSWERED,
    add_destination,
    asker,
    assert_nothing_filed,
    assert_sound,
    books_of,
    calls,
    change_order,
    change_policy,
    change_policy_body,
    dispute,
    error_of,
    events,
    file,
    observations,
    open_shop_with,
    requests_of,
    simulator,
)
from tests.kit import Shop, open_shop

S = RequestStatus


class TestConsent:
    @pytest.mark.parametrize(
        ("answer", "order_id", "code"),
        [
            ("không", "A102", "CONSENT_REFUSED"),
            ("không", "A100", "CONSENT_REFUSED"),
            ("bao lâu thì nhận được tiền?", "A102", "CONSENT_UNCLEAR"),
            ("cảm ơn", "A102", "CONSENT_UNCLEAR"),
            ("đồng ý nhưng hoàn 10 triệu", "A102", "CONSENT_UNCLEAR"),
        ],
    )
    async def test_without_a_clear_yes_nothing_is_filed(
        self, shop: Shop, answer: str, order_id: str, code: str
    ):
        quoted = await shop.quote(order_id)

        refused = await file(shop, quoted, answer)

        assert error_of(refused) == code
        await assert_nothing_filed(shop)

    async def test_a_question_files_what_a_person_must_approve_anyway(self, shop: Shop):
        quoted = await shop.quote("A100")

        filed = await file(shop, quoted, "bao lâu thì nhận được tiền?")

        (request,) = filed.requests
        assert request.status is S.PENDING_APPROVAL
        assert request.consent is Consent.UNCLEAR

    async def test_a_quote_cannot_be_filed_in_the_turn_that_makes_it(self, shop: Shop):
        result = await shop.say(
            "hoàn tiền đơn A102, đồng ý luôn",
            calls("quote_refund", order_id="A102"),
            calls("request_refund", quote_id="{{quote_refund.quote_id}}"),
            ANSWERED,
        )

        assert error_of(result) == "NO_CONSENT"
        await assert_nothing_filed(shop)

    async def test_a_yes_before_the_quote_does_not_count(self, shop: Shop):
        before = await shop.say("đồng ý")
        quoted = await shop.quote("A102", conversation=before.conversation_id)

        with pytest.raises(RefundRefused, match="NO_CONSENT"):
            await self._file_directly(shop, quoted)
        await assert_nothing_filed(shop)

    async def test_a_no_stands_even_when_a_yes_follows(self, shop: Shop):
        quoted = await shop.quote("A102")
        await shop.say("không", conversation=quoted.conversation_id)

        refused = await file(shop, quoted, "đồng ý")

        assert error_of(refused) == "CONSENT_REFUSED"

    async def test_a_yes_after_a_question_counts(self, shop: Shop):
        quoted = await shop.quote("A102")
        await shop.say("về thẻ nào vậy?", conversation=quoted.conversation_id)

        filed = await file(shop, quoted, "ok")

        assert filed.requests[0].status is S.REFUNDED

    async def test_a_quote_that_was_never_shown_cannot_be_filed(self, shop_url: str):
        limits = {"max_steps": 1}
        async with open_shop(shop_url, limits=limits) as shop:
            stopped = await shop.say("hoàn tiền A102", calls("quote_refund", order_id="A102"))
            assert stopped.stop_reason is StopReason.MAX_STEPS
            assert stopped.quotes == ()
        async with open_shop(shop_url) as shop:
            (quote,) = await shop.read(lambda tx: tx.quotes.open_in(stopped.conversation_id))

            refused = await file(shop, stopped, "đồng ý", quote_id=quote.id)

            assert quote.shown_seq is None
            assert error_of(refused) == "NO_CONSENT"
            await assert_nothing_filed(shop)

    async def test_implied_consent_is_never_automatic(self, shop_url: str):
        async with open_shop(shop_url, consent={"request_refund": "implied"}) as shop:
            result = await shop.say(
                "hoàn tiền đơn A102",
                calls("quote_refund", order_id="A102"),
                calls("request_refund", quote_id="{{quote_refund.quote_id}}"),
                ANSWERED,
            )

            (request,) = result.requests
            assert request.status is S.PENDING_APPROVAL
            assert request.required_level == 1
            assert request.reasons == (Reason.CONSENT_IMPLIED,)
            await assert_sound(shop)

    async def test_a_notice_of_the_shop_is_no_answer(self, shop: Shop):
        waiting = await shop.filed("A100")
        quoted = await shop.quote("A102", conversation=waiting.conversation_id)
        await shop.container.approvals().reject(waiting.id, by=await shop.approver())

        with pytest.raises(RefundRefused, match="NO_CONSENT"):
            await self._file_directly(shop, quoted)

    async def _file_directly(self, shop: Shop, quoted) -> None:
        """File without any further message of the customer."""
        order = await shop.container.orders().get(quoted.quotes[0].order_id)
        await shop.write(
            lambda tx: shop.container.filing().file(
                tx,
                quote_id=quoted.quotes[0].id,
                order=order,
                asker=asker("C001", quoted.conversation_id),
            )
        )


class TestQuotes:
    async def test_an_expired_quote_is_refused_and_says_when(self, shop: Shop):
        quoted = await shop.quote("A102")
        shop.clock.advance(timedelta(minutes=30, seconds=1))

        refused = await file(shop, quoted)

        assert error_of(refused) == "QUOTE_EXPIRED"
        assert "2026-10-13T09:30+07:00" in observations(refused)[0]
        await assert_nothing_filed(shop)

    async def test_a_quote_is_good_until_the_last_second(self, shop: Shop):
        quoted = await shop.quote("A102")
        shop.clock.advance(timedelta(minutes=30))

        assert (await file(shop, quoted)).requests[0].status is S.REFUNDED

    async def test_a_newer_quote_supersedes_also_of_another_order(self, shop: Shop):
        first = await shop.quote("A102")
        second = await shop.quote("A103", conversation=first.conversation_id)

        refused = await file(shop, first)
        filed = await file(shop, second, "đồng ý")

        assert error_of(refused) == "QUOTE_SUPERSEDED"
        assert filed.requests[0].order_id == "A103"

    async def test_a_quote_that_was_refused_leaves_the_open_one(self, shop: Shop):
        first = await shop.quote("A102")
        refused = await shop.quote("A101", conversation=first.conversation_id)

        assert [quote.id for quote in refused.quotes] == [first.quotes[0].id]
        assert (await file(shop, first)).requests[0].status is S.REFUNDED

    @pytest.mark.parametrize("state", ["paid", "pending", "rejected", "cancelled", "expired"])
    async def test_the_same_quote_again_is_the_same_request_whatever_its_state(
        self, shop: Shop, state: str
    ):
        quoted = await shop.quote("A102" if state == "paid" else "A100")
        first = (await file(shop, quoted)).requests[0]
        if state == "rejected":
            await shop.container.approvals().reject(first.id, by=await shop.approver())
        elif state == "cancelled":
            who = asker("C001", quoted.conversation_id)
            await shop.write(lambda tx: shop.container.life().cancel(tx, first.id, who))
        elif state == "expired":
            shop.clock.advance(timedelta(days=4))
            await shop.container.life().expire_due(shop.container.database())
        before = await shop.request(first.id)

        again = await file(shop, quoted, "đồng ý")

        assert again.requests == (before,)
        assert await requests_of(shop) == (before,)
        await assert_sound(shop)

    async def test_another_customers_quote_is_as_if_it_did_not_exist(self, shop: Shop):
        theirs = await shop.quote("A204", customer="C002")

        refused = await shop.say(
            "đồng ý", calls("request_refund", quote_id=theirs.quotes[0].id), ANSWERED
        )
        unknown = await shop.say("đồng ý", calls("request_refund", quote_id="quo_none"), ANSWERED)

        assert error_of(refused) == error_of(unknown) == "QUOTE_NOT_FOUND"
        told, of_none = observations(refused)[0], observations(unknown)[0]
        assert told.replace(theirs.quotes[0].id, "quo_none") == of_none
        (denied,) = await events(shop, "access.denied")
        assert (denied.subject, denied.data["customer"]) == (theirs.quotes[0].id, "C001")
        await assert_nothing_filed(shop)

    async def test_a_quote_of_the_same_customers_other_conversation_is_refused(self, shop: Shop):
        quoted = await shop.quote("A102")
        elsewhere = await shop.say("xin chào")

        refused = await file(shop, quoted, conversation=elsewhere.conversation_id)

        assert error_of(refused) == "QUOTE_NOT_FOUND"
        await assert_nothing_filed(shop)

    async def test_the_service_refuses_foreign_quotes_whoever_calls_it(self, shop: Shop):
        quoted = await shop.quote("A102")
        order = await shop.container.orders().get("A102")
        for customer, conversation in (
            ("C002", quoted.conversation_id),
            ("C001", "con_other"),
        ):
            who = asker(customer, conversation)
            with pytest.raises(QuoteNotFound):
                await shop.write(
                    lambda tx, who=who: shop.container.filing().file(
                        tx, quote_id=quoted.quotes[0].id, order=order, asker=who
                    )
                )


class TestWorseThanQuoted:
    async def test_an_order_cancelled_since_makes_the_quote_stale(self, shop: Shop):
        quoted = await shop.quote("A102")
        await change_order(shop, "A102", status=OrderStatus.CANCELLED)

        await self._stale(shop, quoted)

    async def test_a_dispute_opened_since_makes_the_quote_stale(self, shop: Shop):
        quoted = await shop.quote("A102")
        await dispute(shop, "A102")

        await self._stale(shop, quoted)

    async def test_another_policy_since_makes_the_quote_stale(self, shop: Shop):
        quoted = await shop.quote("A102")
        await change_policy(shop, auto=200_001)

        await self._stale(shop, quoted)

    async def test_a_balance_taken_since_makes_the_quote_stale(self, shop: Shop):
        quoted = await shop.quote("A102")
        rival = await shop.quote("A102", amount=1)
        await file(shop, rival)

        assert error_of(await file(shop, quoted)) == "QUOTE_STALE"
        assert (await books_of(shop, "A102")).taken_minor == 1

    async def test_the_window_is_judged_at_filing(self, shop: Shop):
        shop.clock.set(shop.clock.now().replace(hour=16, minute=50))  # 23:50 in Vietnam, day 30
        quoted = await shop.quote("A200", customer="C002")
        shop.clock.advance(timedelta(minutes=11))

        refused = await file(shop, quoted, customer="C002")

        assert error_of(refused) == "QUOTE_STALE"

    async def test_another_payment_behind_the_same_id_makes_the_quote_stale(self, shop: Shop):
        quoted = await shop.quote("A102")
        order = await shop.container.orders().get("A102")
        moved = replace(order.payments[0], account="other")
        await change_order(shop, "A102", payments=(moved,))

        await self._stale(shop, quoted)

    async def test_doubts_since_quoting_send_it_to_a_person(self, shop: Shop):
        quoted = await shop.quote("A102")
        await change_order(shop, "A102", status=OrderStatus.UNKNOWN)

        (request,) = (await file(shop, quoted)).requests

        assert request.status is S.PENDING_APPROVAL
        assert request.verdict is Verdict.NEEDS_REVIEW

    async def _stale(self, shop: Shop, quoted) -> None:
        refused = await file(shop, quoted)
        assert error_of(refused) == "QUOTE_STALE"
        await assert_nothing_filed(shop)


class TestAmounts:
    @pytest.mark.parametrize("amount", [0, -1, "250.000", True, 1e9, 100.5, None, [], 10**30])
    async def test_what_is_no_amount_is_a_field_error(self, shop: Shop, amount: object):
        result = await shop.quote("A100", amount=amount)

        if amount is None:  # as if it had not been given: all of it
            assert result.quotes[0].amount_minor == 250_000
            return
        assert result.quotes == ()
        assert error_of(result) == "INVALID_ARGUMENTS"
        assert "amount" in observations(result)[0]

    async def test_one_above_the_balance_is_refused_and_names_the_most(self, shop: Shop):
        exact = await shop.quote("A100", amount=250_000)
        above = await shop.quote("A100", amount=250_001)

        assert exact.quotes[0].amount_minor == 250_000
        assert error_of(above) == "AMOUNT_TOO_HIGH"
        assert "250.000" in observations(above)[0]

    async def test_pending_money_is_gone_from_the_balance(self, shop: Shop):
        await shop.filed("A100", amount=210_000)

        above = await shop.quote("A100", amount=40_001)
        exact = await shop.quote("A100", amount=40_000)

        assert error_of(above) == "AMOUNT_TOO_HIGH"
        assert exact.quotes[0].amount_minor == 40_000

    async def test_above_the_top_limit_is_refused_a_part_is_not(self, shop: Shop):
        whole = await shop.quote("A304", customer="C003")
        part = await shop.quote("A304", customer="C003", amount=20_000_000)

        assert error_of(whole) == "ABOVE_POLICY_LIMIT"
        assert part.quotes[0].required_level == 2

    async def test_the_top_limit_holds_for_the_sum_of_parts(self, shop: Shop):
        await shop.filed("A304", customer="C003", amount=20_000_000)

        more = await shop.quote("A304", customer="C003", amount=1)

        assert error_of(more) == "ABOVE_POLICY_LIMIT"

    async def test_returning_one_by_one_never_exceeds_the_line(self, shop: Shop):
        """Cases row 22: three units at 100,000 together."""
        lines = [{"line_id": "A403-1", "quantity": 1}]
        paid = [await shop.filed("A403", customer="C004", lines=lines) for _ in range(3)]

        fourth = await shop.quote("A403", customer="C004", lines=lines)

        assert [request.amount_minor for request in paid] == [33_333, 33_333, 33_334]
        assert fourth.quotes == ()

    async def test_a_discount_is_shared_by_the_lines(self, shop: Shop):
        """Cases row 20: 60,000 + 40,000 less 10,000."""
        lines = [{"line_id": "A402-1", "quantity": 1}]

        quoted = await shop.quote("A402", customer="C004", lines=lines)

        assert quoted.quotes[0].amount_minor == 54_000


class TestTiers:
    @pytest.mark.parametrize(
        ("order_id", "customer", "level", "approvals"),
        [
            ("A204", "C002", 0, 1),
            ("A205", "C002", 1, 1),
            ("A300", "C003", 1, 1),
            ("A301", "C003", 2, 1),
            ("A302", "C003", 2, 1),
            ("A303", "C003", 2, 2),
            ("A600", "C006", 2, 1),
            ("A602", "C006", 1, 1),
        ],
    )
    async def test_the_amount_decides_who_must_approve(
        self, shop: Shop, order_id: str, customer: str, level: int, approvals: int
    ):
        await add_destination(shop)
        request = await shop.filed(order_id, customer=customer)

        assert request.status is (S.PENDING_APPROVAL if level else S.REFUNDED)
        assert (request.required_level, request.approvals_needed) == (level, approvals)

    async def test_parts_of_an_order_add_up(self, shop: Shop):
        """Splitting a large refund into small ones gains nothing."""
        first = await shop.filed("A400", customer="C004", amount=200_000)
        second = await shop.filed("A400", customer="C004", amount=1)

        assert first.status is S.REFUNDED
        assert second.status is S.PENDING_APPROVAL
        assert second.reasons == (Reason.ABOVE_AUTO_LIMIT,)

    async def test_what_only_waits_counts_too(self, shop: Shop):
        await shop.filed("A302", customer="C003", amount=2_000_000)

        more = await shop.filed("A302", customer="C003", amount=1)

        assert more.required_level == 2

    async def test_four_eyes_look_at_the_sum(self, shop: Shop):
        await shop.filed("A303", customer="C003", amount=9_999_999)

        more = await shop.filed("A303", customer="C003", amount=1)

        assert (more.required_level, more.approvals_needed) == (2, 2)


class TestCaps:
    """Caps send to a person, they do not refuse."""

    async def test_the_customers_day(self, shop: Shop):
        paid = [await shop.filed(order_id) for order_id in ("A102", "A103")]  # 300,000 of 400,000

        over = await shop.filed("A104")

        assert [request.status for request in paid] == [S.REFUNDED, S.REFUNDED]
        assert over.status is S.PENDING_APPROVAL
        assert (over.reasons, over.required_level) == ((Reason.CAP_CUSTOMER_DAY,), 1)
        await assert_sound(shop)

    async def test_the_day_is_the_shops_and_ends_at_its_midnight(self, shop: Shop):
        shop.clock.set(shop.clock.now().replace(hour=16, minute=59))
        for order_id in ("A102", "A103"):
            await shop.filed(order_id)
        shop.clock.advance(timedelta(minutes=1))

        assert (await shop.filed("A104")).status is S.REFUNDED

    async def test_exactly_the_cap_is_automatic(self, shop: Shop):
        await change_policy(shop, auto_per_customer_day=300_000)
        await shop.filed("A102")

        assert (await shop.filed("A103")).status is S.REFUNDED

    async def test_thirty_days_are_counted_over_several_days(self, shop: Shop):
        await change_policy(shop, auto_per_customer_30_days=300_000, auto_per_customer_day=None)
        await change_policy_body(shop, window_days=90)
        await shop.filed("A102")
        shop.clock.advance(timedelta(days=15))
        await shop.filed("A103")
        shop.clock.advance(timedelta(days=14))  # the 30th day, the first included

        over = await shop.filed("A104", amount=1)
        shop.clock.advance(timedelta(days=1))
        again = await shop.filed("A104", amount=2)

        assert over.status is S.PENDING_APPROVAL
        assert over.reasons == (Reason.CAP_CUSTOMER_30_DAYS,)
        assert again.status is S.REFUNDED
        await assert_sound(shop)

    async def test_the_installations_day_is_the_fuse_over_all_customers(self, shop: Shop):
        await change_policy(shop, auto_per_installation_day=300_000)
        await shop.filed("A204", customer="C002")

        over = await shop.filed("A102")
        small = await shop.filed("A103", amount=100_000)

        assert over.status is S.PENDING_APPROVAL
        assert over.reasons == (Reason.CAP_INSTALLATION_DAY,)
        assert small.status is S.REFUNDED  # what went to a person did not use the fuse up
        await assert_sound(shop)

    async def test_what_was_taken_back_frees_the_cap(self, shop_url: str):
        gateway = simulator()
        gateway.unreachable = True
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            await change_policy(shop, auto_per_customer_day=200_000)
            first = await shop.filed("A102")
            assert first.status is S.APPROVED
            who = asker("C001", first.conversation_id or "")
            await shop.write(lambda tx: shop.container.life().cancel(tx, first.id, who))

            second = await shop.filed("A103")

            assert second.status is S.APPROVED
            await assert_sound(shop)


async def test_a_request_needs_a_person_with_the_reasons_told(shop: Shop):
    doubtful = await shop.filed("A700", customer="C007")

    assert doubtful.status is S.PENDING_APPROVAL
    assert doubtful.verdict is Verdict.NEEDS_REVIEW
    assert Reason.DELIVERED_AT_MISSING in doubtful.reasons


async def test_an_unknown_order_and_somebody_elses_are_refused_alike(shop: Shop):
    theirs, unknown = await shop.quote("A204"), await shop.quote("A999")

    assert error_of(theirs) == error_of(unknown) == "ORDER_NOT_FOUND"
    assert observations(theirs)[0].replace("A204", "A999") == observations(unknown)[0]
    assert len(await events(shop, "access.denied")) == 1

"""The approval queue: who may decide what, when, and what a decision does."""

import asyncio
from datetime import timedelta

import pytest

from support_agent.domain.allocation import Wish
from support_agent.domain.approvals import Choice
from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    ApproverNotFound,
    DecisionRefused,
    InsufficientAuthority,
    NotProved,
    RequestExpired,
    RequestNotFound,
    SecondPersonNeeded,
    SelfApproval,
    StaleDecision,
)
from support_agent.domain.orders import OrderStatus
from support_agent.domain.people import SYSTEM, Approver, Proof
from support_agent.domain.refunds import RefundRequest, RequestStatus
from tests.heart import (
    ANSWERED,
    add_approver,
    asker,
    assert_sound,
    books_of,
    calls,
    change_approver,
    change_order,
    change_policy,
    change_policy_body,
    change_request,
    dispute,
    events,
    file,
    notices,
)
from tests.kit import Shop, open_shop

S = RequestStatus


@pytest.fixture
async def waiting(shop: Shop) -> RefundRequest:
    """250,000 of A100, which a person of level 1 must approve."""
    return await shop.filed("A100")


async def approve(shop: Shop, request: RefundRequest, name: str = "lan", **how) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.approvals().approve(request.id, by=by, **how)


async def reject(shop: Shop, request: RefundRequest, name: str = "lan", **how) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.approvals().reject(request.id, by=by, **how)


async def decisions(shop: Shop, request: RefundRequest):
    return await shop.read(lambda tx: tx.decisions.of(request.id))


async def assert_undecided(shop: Shop, request: RefundRequest) -> None:
    """Nothing of a refused decision is left."""
    assert await shop.request(request.id) == request
    assert await decisions(shop, request) == ()
    await assert_sound(shop)


async def test_an_approval_is_final_signed_and_pays(shop: Shop, waiting):
    approved = await approve(shop, waiting, note="khách quen")
    paid = await shop.container.payouts().pay(waiting.id)

    (decision,) = await decisions(shop, waiting)
    assert approved.status is S.APPROVED
    assert approved.approved_until == shop.clock.now() + timedelta(hours=72)
    assert paid.status is S.REFUNDED
    assert (decision.choice, decision.person_id, decision.name) == (Choice.APPROVE, "P-LAN", "lan")
    assert (decision.amount_minor, decision.limit_minor) == (250_000, 2_000_000)
    assert decision.note == "khách quen"
    await assert_sound(shop)


async def test_a_rejection_releases_the_reserve_and_tells_the_customer(shop: Shop, waiting):
    rejected = await reject(shop, waiting)

    assert rejected.status is S.REJECTED
    assert (await books_of(shop, "A100")).taken_minor == 0
    (notice,) = await notices(shop, waiting.conversation_id)
    assert "không được duyệt" in notice
    await assert_sound(shop)


async def test_an_unknown_request_is_not_found(shop: Shop):
    by = await shop.approver()
    for decide in (shop.container.approvals().approve, shop.container.approvals().reject):
        with pytest.raises(RequestNotFound):
            await decide("req_none", by=by)


class TestAlreadyDecided:
    @pytest.mark.parametrize("first", [approve, reject])
    @pytest.mark.parametrize("second", [approve, reject])
    async def test_a_second_decision_learns_who_decided_and_when(
        self, shop: Shop, waiting, first, second
    ):
        await first(shop, waiting, "lan")

        with pytest.raises(AlreadyDecided) as decided:
            await second(shop, waiting, "huong")

        assert (decided.value.by, decided.value.at) == ("lan", shop.clock.now())
        assert len(await decisions(shop, waiting)) == 1

    async def test_a_double_click_on_reject_is_one_decision_and_one_notice(
        self, shop: Shop, waiting
    ):
        clicks = await asyncio.gather(
            *(reject(shop, waiting) for _ in range(2)), return_exceptions=True
        )

        assert sorted(type(click).__name__ for click in clicks) == [
            "AlreadyDecided",
            "RefundRequest",
        ]
        assert len(await decisions(shop, waiting)) == 1
        assert len(await notices(shop, waiting.conversation_id)) == 1
        await assert_sound(shop)

    async def test_a_double_click_on_approve_is_one_decision_and_one_payout(
        self, shop: Shop, waiting
    ):
        """Cases row 15."""

        async def click():
            await approve(shop, waiting)
            return await shop.container.payouts().pay(waiting.id)

        clicks = await asyncio.gather(*(click() for _ in range(2)), return_exceptions=True)

        assert [type(c).__name__ for c in clicks].count("AlreadyDecided") == 1
        assert len(await decisions(shop, waiting)) == 1
        assert len(await notices(shop, waiting.conversation_id)) == 1
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 250_000
        await assert_sound(shop)

    async def test_of_two_runs_that_wait_one_approval_pays_once_and_both_learn_it(self, shop: Shop):
        """Cases row 29."""
        quoted = await shop.quote("A100")
        first, second = await file(shop, quoted), await file(shop, quoted)
        (request,) = first.requests
        assert second.requests[0].id == request.id
        await approve(shop, request)
        await shop.container.payouts().pay(request.id)

        for _ in range(2):
            told = await shop.say(
                "xong chưa?",
                calls("refund_status", request_id=request.id),
                ANSWERED,
                conversation=quoted.conversation_id,
            )
            assert told.requests[0].status is S.REFUNDED
        assert len(await shop.read(lambda tx: tx.attempts.of(request.id))) == 1
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 250_000

    async def test_what_waits_counts_against_what_is_asked_next(self, shop: Shop):
        """Cases row 5: captured 250,000, pending 200,000; of 100,000 more only 50,000 are left."""
        await change_policy(shop, auto=100_000)
        waiting = await shop.filed("A100", amount=200_000)
        refused = await shop.quote("A100", amount=100_000)

        assert waiting.status is S.PENDING_APPROVAL
        assert refused.quotes == ()
        assert "50.000" in str([c.observation for step in refused.steps for c in step.calls])

    async def test_what_the_customer_took_back_cannot_be_approved(self, shop: Shop, waiting):
        await shop.say(
            "thôi huỷ đi",
            calls("cancel_refund", request_id=waiting.id),
            ANSWERED,
            conversation=waiting.conversation_id,
        )

        with pytest.raises(AlreadyDecided, match="CANCELLED"):
            await approve(shop, waiting)


class TestStale:
    @pytest.mark.parametrize("decide", [approve, reject])
    async def test_another_version_than_expected_is_refused(self, shop: Shop, waiting, decide):
        with pytest.raises(StaleDecision, match="version 1, not 2"):
            await decide(shop, waiting, expect=2)

        await assert_undecided(shop, waiting)

    async def test_the_expected_version_is_decided(self, shop: Shop, waiting):
        assert (await approve(shop, waiting, expect=1)).status is S.APPROVED

    async def test_expired_by_a_second_is_refused(self, shop: Shop, waiting):
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))

        with pytest.raises(RequestExpired):
            await approve(shop, waiting)
        await assert_undecided(shop, waiting)

    @pytest.mark.parametrize("decide", [approve, reject])
    async def test_what_expired_already_says_when(self, shop: Shop, waiting, decide):
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))
        await shop.container.life().expire_due(shop.container.database())

        with pytest.raises(RequestExpired) as expired:
            await decide(shop, waiting)
        assert expired.value.at == waiting.expires_at

    async def test_the_last_second_still_counts(self, shop: Shop, waiting):
        shop.clock.set(waiting.expires_at)

        assert (await approve(shop, waiting)).status is S.APPROVED

    async def test_expiry_means_no(self, shop: Shop, waiting):
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))

        (expired,) = await shop.container.life().expire_due(shop.container.database())

        assert expired.status is S.EXPIRED
        assert (await books_of(shop, "A100")).taken_minor == 0
        assert "hết hạn" in (await notices(shop, waiting.conversation_id))[0]
        await assert_sound(shop)

    async def test_a_row_without_its_reserve_does_not_hold_up_the_others(self, shop: Shop):
        broken, fine = await shop.filed("A100"), await shop.filed("A205", customer="C002")
        await reject(shop, broken)
        change_request(shop, broken.id, "status = 'PENDING_APPROVAL'")
        shop.clock.advance(timedelta(days=4))

        expired = await shop.container.life().expire_due(shop.container.database())

        assert [request.id for request in expired] == [fine.id]


class TestSelfApproval:
    async def test_a_linked_customer_is_the_approver(self, shop: Shop):
        request = await shop.filed("A300", customer="C003")

        with pytest.raises(SelfApproval):
            await approve(shop, request, "minh")
        await assert_undecided(shop, request)
        assert (await approve(shop, request, "lan")).status is S.APPROVED

    async def test_an_own_request_may_not_even_be_rejected(self, shop: Shop):
        request = await shop.filed("A300", customer="C003")

        with pytest.raises(SelfApproval):
            await reject(shop, request, "minh")

    async def test_at_any_amount(self, shop: Shop):
        """Cases row 30: a check above a threshold only was a fault of somebody else's."""
        request = await shop.filed("A303", customer="C003", amount=200_001)
        await change_approver(shop, "lan", customer_ids=frozenset({"C003"}))

        with pytest.raises(SelfApproval):
            await approve(shop, request)

    async def test_a_second_account_of_the_person_is_the_person(self, shop: Shop):
        request = await shop.filed("A300", customer="C003")
        await add_approver(
            shop,
            Approver(name="minh2", person_id="P-MINH", level=2, limits={"VND": 20_000_000}),
        )

        with pytest.raises(SelfApproval):
            await approve(shop, request, "minh2")

    @pytest.mark.parametrize("who", ["lan", "P-LAN", "lan-at-the-desk"])
    async def test_the_operator_is_the_requester(self, shop: Shop, who: str):
        await add_approver(
            shop, Approver(name="lan-at-the-desk", person_id="P-LAN", level=1, limits={})
        )
        quoted = await shop.quote("A100")
        filed = await shop.say(
            "đồng ý",
            calls("request_refund", quote_id=quoted.quotes[0].id),
            ANSWERED,
            conversation=quoted.conversation_id,
            operator=who,
        )
        (request,) = filed.requests

        with pytest.raises(SelfApproval):
            await approve(shop, request, "lan")
        assert (await approve(shop, request, "huong")).status is S.APPROVED

    @pytest.mark.parametrize("order_id", ["A100", "A102"])  # above and below the automatic limit
    async def test_what_an_approver_filed_another_decides(self, shop: Shop, order_id: str):
        """Cases row 30: who creates a request in the shop's name is its requester."""
        desk = shop.container.staff()
        order = await desk.order(order_id)
        by = await shop.approver("lan")
        (request,) = await desk.file(order, Wish(), by=by, reference="T-1")

        assert request.status is S.PENDING_APPROVAL
        for decide in (approve, reject):
            with pytest.raises(SelfApproval):
                await decide(shop, request, "lan")
        assert (await approve(shop, request, "huong")).status is S.APPROVED

    async def test_a_customer_who_has_an_approvers_name_is_somebody_else(self, shop: Shop):
        request = await shop.filed("A100")
        await add_approver(
            shop,
            Approver(name="C001", person_id="P-NAMESAKE", level=1, limits={"VND": 2_000_000}),
        )

        assert (await approve(shop, request, "C001")).status is S.APPROVED


class TestAuthority:
    async def test_a_disabled_approver_decides_nothing(self, shop: Shop, waiting):
        for decide in (approve, reject):
            with pytest.raises(ApproverDisabled):
                await decide(shop, waiting, "dung")
        await assert_undecided(shop, waiting)

    async def test_disabled_after_proving_is_disabled(self, shop: Shop, waiting):
        by = await shop.approver("lan")
        await change_approver(shop, "lan", disabled=True)

        with pytest.raises(ApproverDisabled):
            await shop.container.approvals().approve(waiting.id, by=by)

    async def test_a_level_too_low_is_refused_and_names_the_one_needed(self, shop: Shop):
        request = await shop.filed("A301", customer="C003")

        with pytest.raises(InsufficientAuthority, match="needs level 2"):
            await approve(shop, request, "lan")
        with pytest.raises(InsufficientAuthority):
            await reject(shop, request, "lan")
        await assert_undecided(shop, request)

    async def test_who_may_instead_is_named(self, shop: Shop):
        request = await shop.filed("A301", customer="C003")

        for decide in (approve, reject):
            with pytest.raises(InsufficientAuthority, match="huong, tuan may decide") as refused:
                await decide(shop, request, "lan")
            assert refused.value.others == ("huong", "tuan")

    async def test_nobody_else_is_said_to_be_nobody(self, shop: Shop, waiting):
        for name in ("lan", "minh", "huong", "tuan"):
            await change_approver(shop, name, limits={"VND": 249_999})

        with pytest.raises(InsufficientAuthority, match="nobody's authority reaches") as refused:
            await approve(shop, waiting)
        assert refused.value.others == ()

    async def test_exactly_the_limit_is_allowed(self, shop: Shop, waiting):
        await change_approver(shop, "lan", limits={"VND": 250_000})

        assert (await approve(shop, waiting)).status is S.APPROVED

    async def test_one_over_the_limit_is_not(self, shop: Shop, waiting):
        await change_approver(shop, "lan", limits={"VND": 249_999})

        with pytest.raises(InsufficientAuthority) as refused:
            await approve(shop, waiting)
        assert refused.value.limit == 249_999
        await assert_undecided(shop, waiting)

    async def test_the_limit_is_held_against_the_sum_of_the_order(self, shop: Shop):
        await change_approver(shop, "lan", limits={"VND": 250_000})
        first = await shop.filed("A400", customer="C004", amount=200_001)
        second = await shop.filed("A400", customer="C004", amount=50_000)

        with pytest.raises(InsufficientAuthority):
            await approve(shop, second)
        with pytest.raises(InsufficientAuthority):
            await approve(shop, first)

    async def test_no_limit_in_the_currency_is_no_authority(self, shop: Shop):
        request = await shop.filed("A600", customer="C006")

        with pytest.raises(InsufficientAuthority, match="no limit in USD") as refused:
            await approve(shop, request, "tuan")
        assert refused.value.limit is None
        assert (await approve(shop, request, "huong")).status is S.APPROVED

    async def test_the_approvers_day_is_capped(self, shop: Shop):
        await change_policy(shop, per_approver_day=450_000)
        first, second = await shop.filed("A100"), await shop.filed("A205", customer="C002")
        await approve(shop, first)

        with pytest.raises(DecisionRefused, match="CAP_APPROVER_DAY"):
            await approve(shop, second)
        await reject(shop, second)  # saying no costs nothing

        assert len(await decisions(shop, second)) == 1
        await assert_sound(shop)

    async def test_exactly_the_cap_is_allowed_and_the_next_day_is_new(self, shop: Shop):
        await change_policy(shop, per_approver_day=250_000)
        first, second = await shop.filed("A100"), await shop.filed("A205", customer="C002")

        assert (await approve(shop, first)).status is S.APPROVED
        shop.clock.advance(timedelta(hours=24))
        assert (await approve(shop, second)).status is S.APPROVED

    async def test_two_accounts_of_a_person_share_the_cap(self, shop: Shop):
        await change_policy(shop, per_approver_day=250_000)
        first, second = await shop.filed("A100"), await shop.filed("A205", customer="C002")
        await add_approver(
            shop,
            Approver(name="lan2", person_id="P-LAN", level=1, limits={"VND": 2_000_000}),
        )
        await approve(shop, first, "lan")

        with pytest.raises(DecisionRefused, match="CAP_APPROVER_DAY"):
            await approve(shop, second, "lan2")


class TestFourEyes:
    @pytest.fixture
    async def large(self, shop: Shop) -> RefundRequest:
        return await shop.filed("A303", customer="C003")

    async def test_the_first_approval_keeps_it_pending_and_unpaid(self, shop: Shop, large):
        still = await approve(shop, large, "huong")
        unpaid = await shop.container.payouts().pay(large.id)

        assert still == unpaid == large
        (recorded,) = await events(shop, "approval.recorded")
        assert (recorded.data["have"], recorded.data["need"]) == ("1", "2")
        assert (await books_of(shop, "A303")).payments[0].refunded_minor == 0
        await assert_sound(shop)

    async def test_the_same_person_twice_is_refused(self, shop: Shop, large):
        await approve(shop, large, "huong")
        await add_approver(
            shop,
            Approver(name="huong2", person_id="P-HUONG", level=2, limits={"VND": 20_000_000}),
        )

        for name in ("huong", "huong2"):
            with pytest.raises(SecondPersonNeeded, match="another person with enough authority"):
                await approve(shop, large, name)
        assert (await shop.request(large.id)).status is S.PENDING_APPROVAL

    async def test_a_second_person_approves_and_it_is_paid(self, shop: Shop, large):
        await approve(shop, large, "huong")
        approved = await approve(shop, large, "tuan")
        paid = await shop.container.payouts().pay(large.id)

        assert approved.status is S.APPROVED
        assert paid.status is S.REFUNDED
        await assert_sound(shop)

    async def test_a_second_person_may_still_say_no(self, shop: Shop, large):
        await approve(shop, large, "huong")

        assert (await reject(shop, large, "tuan")).status is S.REJECTED
        assert (await books_of(shop, "A303")).taken_minor == 0
        await assert_sound(shop)

    async def test_what_the_customer_ended_after_a_first_approval_names_no_approver(
        self, shop: Shop, large
    ):
        await approve(shop, large, "huong")
        who = asker("C003", large.conversation_id)
        await shop.write(lambda tx: shop.container.life().cancel(tx, large.id, who))

        with pytest.raises(AlreadyDecided, match=r"is CANCELLED$") as decided:
            await approve(shop, large, "tuan")
        assert (decided.value.by, decided.value.at) == (None, None)

    async def test_two_at_once_are_two(self, shop: Shop, large):
        await asyncio.gather(approve(shop, large, "huong"), approve(shop, large, "tuan"))

        assert (await shop.request(large.id)).status is S.APPROVED
        assert len(await decisions(shop, large)) == 2

    async def test_a_threshold_lowered_since_filing_counts(self, shop: Shop):
        request = await shop.filed("A302", customer="C003")
        await change_policy(shop, four_eyes_from=5_000_000)

        assert (await approve(shop, request, "huong")).status is S.PENDING_APPROVAL
        assert (await approve(shop, request, "tuan")).status is S.APPROVED


class TestSinceFiling:
    async def test_a_dispute_refuses(self, shop: Shop, waiting):
        await dispute(shop, "A100")

        with pytest.raises(DecisionRefused, match="DISPUTED"):
            await approve(shop, waiting)
        await assert_undecided(shop, waiting)
        assert (await reject(shop, waiting)).status is S.REJECTED

    async def test_a_cancelled_order_refuses(self, shop: Shop, waiting):
        await change_order(shop, "A100", status=OrderStatus.CANCELLED)

        with pytest.raises(DecisionRefused, match="ORDER_CANCELLED"):
            await approve(shop, waiting)

    async def test_the_window_may_pass(self, shop_url: str):
        async with open_shop(shop_url, approvals={"proof": "asserted", "wait_hours": 24 * 40}) as s:
            request = await s.filed("A100")
            s.clock.advance(timedelta(days=35))

            assert (await approve(s, request)).status is S.APPROVED
            assert (await s.container.payouts().pay(request.id)).status is S.REFUNDED

    async def test_a_category_excluded_since_does_not_refuse(self, shop: Shop, waiting):
        await change_policy_body(shop, excluded_categories=["clothing"])

        assert (await approve(shop, waiting)).status is S.APPROVED

    async def test_an_order_that_became_another_customers_refuses(self, shop: Shop, waiting):
        await change_order(shop, "A100", customer_id="C002")

        with pytest.raises(DecisionRefused, match="STATUS_UNKNOWN"):
            await approve(shop, waiting)

    async def test_a_limit_lowered_since_filing_counts(self, shop: Shop):
        request = await shop.filed("A300", customer="C003")
        await change_policy(shop, levels=[1_000_000, 1_999_999])

        with pytest.raises(DecisionRefused, match="ABOVE_POLICY_LIMIT"):
            await approve(shop, request, "huong")
        assert (await reject(shop, request, "huong")).status is S.REJECTED

    @pytest.mark.parametrize(
        "change",
        [
            "amount_minor = 250",
            "destination = 'ledger:shop-main:led_A200_1'",
            "gateway_payment_id = 'led_A200_1'",
            "required_level = 0",
            "approvals_needed = 2",
            "operator = 'nobody'",
            "requester_id = 'C002'",
            "expires_at = '2027-01-01 00:00:00.000000'",
        ],
    )
    async def test_a_record_changed_by_hand_is_not_decided(self, shop: Shop, waiting, change: str):
        change_request(shop, waiting.id, change)

        for decide in (approve, reject):
            with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
                await decide(shop, waiting)
        assert await decisions(shop, waiting) == ()


class TestProof:
    @pytest.fixture
    async def guarded(self, shop_url: str):
        async with open_shop(shop_url, approvals={"proof": "token"}) as shop:
            await shop.container.approvers().set_token("lan", "the token", by=SYSTEM)
            yield shop

    @pytest.mark.parametrize("token", [None, "", "wrong", "the token ", "THE TOKEN"])
    async def test_without_the_right_token_nobody_is_lan(self, guarded: Shop, token: str | None):
        with pytest.raises(NotProved, match="'lan'"):
            await guarded.container.approvals().prove("lan", token, via="test")

    async def test_who_has_no_token_yet_cannot_prove_anything(self, guarded: Shop):
        with pytest.raises(NotProved):
            await guarded.container.approvals().prove("huong", "anything", via="test")

    async def test_the_right_token_is_recorded_as_the_proof(self, guarded: Shop):
        request = await guarded.filed("A100")
        by = await guarded.container.approvals().prove("lan", "the token", via="test")
        await guarded.container.approvals().approve(request.id, by=by)

        (decision,) = await decisions(guarded, request)
        (event,) = await events(guarded, "refund.approved")
        assert decision.proof is event.actor.proof is Proof.TOKEN

    async def test_an_asserted_name_is_recorded_as_such(self, shop: Shop, waiting):
        await approve(shop, waiting)

        (decision,) = await decisions(shop, waiting)
        (event,) = await events(shop, "refund.approved")
        assert decision.proof is event.actor.proof is Proof.ASSERTED
        assert (event.actor.id, event.actor.person_id) == ("lan", "P-LAN")

    @pytest.mark.parametrize("proof", ["token", "asserted"])
    async def test_a_name_that_does_not_exist_is_not_found(self, shop_url: str, proof: str):
        async with open_shop(shop_url, approvals={"proof": proof}) as shop:
            with pytest.raises(ApproverNotFound):
                await shop.container.approvals().prove("nobody", "x", via="test")


class TestBrief:
    async def test_it_shows_the_case_and_who_may_decide(self, shop: Shop, waiting):
        brief = await shop.container.approvals().brief(waiting.id)

        assert brief.request == waiting
        assert brief.order is not None
        assert brief.assessment is not None
        assert brief.assessment.max_refundable_minor == 250_000  # without its own reserve
        assert brief.cumulative_minor == 250_000
        assert brief.deciders == ("lan", "minh", "huong", "tuan")
        assert [message.text for message in brief.customer_words] == [
            "hoàn tiền đơn A100",
            "đồng ý",
        ]

    async def test_who_may_not_decide_is_not_named(self, shop: Shop):
        own = await shop.filed("A300", customer="C003")
        large = await shop.filed("A303", customer="C003")
        await approve(shop, large, "huong")

        assert (await shop.container.approvals().brief(own.id)).deciders == ("lan", "huong", "tuan")
        assert (await shop.container.approvals().brief(large.id)).deciders == ("tuan",)

    async def test_an_order_that_became_another_customers_is_not_shown(self, shop: Shop, waiting):
        await change_order(shop, "A100", customer_id="C002")

        brief = await shop.container.approvals().brief(waiting.id)

        assert (brief.order, brief.assessment) == (None, None)

    async def test_an_unknown_request_is_not_found(self, shop: Shop):
        with pytest.raises(RequestNotFound):
            await shop.container.approvals().brief("req_none")

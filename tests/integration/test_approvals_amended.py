"""Between pending and pending: an approver lowers the amount or asks, nobody decides in time."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from support_agent.domain.allocation import Wish
from support_agent.domain.approvals import Choice
from support_agent.domain.conversation import Author
from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    DecisionRefused,
    InsufficientAuthority,
    InvalidInput,
    RequestExpired,
    RequestNotFound,
    SelfApproval,
    StaleDecision,
)
from support_agent.domain.reasons import Reason
from support_agent.domain.reduction import reduced_lines
from support_agent.domain.refunds import RefundLine, RefundRequest, RequestStatus
from support_agent.ports.storage import RequestFilter
from tests.heart import (
    assert_sound,
    books_of,
    change_approver,
    change_policy,
    change_request,
    dispute,
    events,
    tasks,
)
from tests.kit import Shop, open_shop

S = RequestStatus


@pytest.fixture
async def waiting(shop: Shop) -> RefundRequest:
    """250,000 of A100, which a person of level 1 must approve."""
    return await shop.filed("A100")


@pytest.fixture
async def large(shop: Shop) -> RefundRequest:
    """12,000,000 of A303: level 2, two persons."""
    return await shop.filed("A303", customer="C003")


async def reduce(
    shop: Shop, request: RefundRequest, amount: int = 100_000, name: str = "lan", **how
) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.approvals().reduce(request.id, amount_minor=amount, by=by, **how)


async def ask(
    shop: Shop, request: RefundRequest, question: str = "Bạn gửi ảnh nhé?", name: str = "lan", **how
) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.approvals().ask(request.id, question=question, by=by, **how)


async def approve(shop: Shop, request: RefundRequest, name: str = "lan", **how) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.approvals().approve(request.id, by=by, **how)


async def escalate(shop: Shop) -> tuple[RefundRequest, ...]:
    return await shop.container.escalations().run()


async def assert_untouched(shop: Shop, request: RefundRequest) -> None:
    assert await shop.request(request.id) == request
    assert await shop.read(lambda tx: tx.decisions.of(request.id)) == ()
    await assert_sound(shop)


class TestReduce:
    async def test_a_lower_amount_waits_for_an_approval_and_frees_the_difference(
        self, shop: Shop, waiting
    ):
        lower = await reduce(shop, waiting, 100_000, note="đã mặc một lần")

        assert lower.status is S.PENDING_APPROVAL
        assert (lower.amount_minor, lower.filed_minor) == (100_000, 250_000)
        assert (lower.version, lower.round) == (2, 2)
        assert Reason.REDUCED in lower.reasons
        assert lower.fingerprint != waiting.fingerprint
        assert lower.expires_at == waiting.expires_at
        assert (await books_of(shop, "A100")).taken_minor == 100_000
        (decision,) = await shop.read(lambda tx: tx.decisions.of(waiting.id))
        assert (decision.choice, decision.round, decision.note) == (
            Choice.REDUCE,
            1,
            "đã mặc một lần",
        )
        await assert_sound(shop)

    @pytest.mark.parametrize("name", ["lan", "huong"])
    async def test_the_one_who_lowered_it_or_another_approves_it_and_only_that_is_paid(
        self, shop: Shop, waiting, name: str
    ):
        await reduce(shop, waiting, 100_000)
        await approve(shop, waiting, name, expect=2)

        assert (await shop.container.payouts().pay(waiting.id)).status is S.REFUNDED
        assert (await books_of(shop, "A100")).payments[0].refunded_minor == 100_000
        await assert_sound(shop)

    async def test_what_was_freed_can_be_asked_for_again(self, shop: Shop, waiting):
        await reduce(shop, waiting, 100_000)

        again = await shop.filed("A100", amount=150_000)

        assert again.amount_minor == 150_000
        assert (await books_of(shop, "A100")).taken_minor == 250_000
        await assert_sound(shop)

    async def test_a_reduced_request_can_be_reduced_rejected_and_filed_anew(
        self, shop: Shop, waiting
    ):
        """Each exchange of the reserve is posted under a round of its own."""
        await reduce(shop, waiting, 100_000)
        twice = await reduce(shop, waiting, 1)
        by = await shop.approver("huong")
        rejected = await shop.container.approvals().reject(waiting.id, by=by, expect=3)

        assert (twice.amount_minor, twice.filed_minor, twice.round) == (1, 250_000, 3)
        assert rejected.status is S.REJECTED
        assert (await books_of(shop, "A100")).taken_minor == 0
        await assert_sound(shop)

    @pytest.mark.parametrize("amount", [250_000, 250_001, 0, -1, 999_999_999])
    async def test_only_lower_is_lower(self, shop: Shop, waiting, amount: int):
        """Cases M6: an edit is checked against what was filed, not believed."""
        with pytest.raises(DecisionRefused, match=r"below 250\.000") as refused:
            await reduce(shop, waiting, amount)

        assert refused.value.reason is Reason.AMOUNT_NOT_LOWER
        assert "dưới 250.000\u00a0₫" in refused.value.sentence("vi")
        await assert_untouched(shop, waiting)

    @pytest.mark.parametrize("amount", [True, 99_999.5, "100000", 10**16])
    async def test_what_is_not_an_amount_is_refused(self, shop: Shop, waiting, amount):
        """Cases M6: a type a model or client may send."""
        with pytest.raises(InvalidInput, match="amount"):
            await reduce(shop, waiting, amount)
        await assert_untouched(shop, waiting)

    async def test_the_lower_amount_is_judged_again(self, shop: Shop, waiting):
        await dispute(shop, "A100")

        with pytest.raises(DecisionRefused, match="DISPUTED"):
            await reduce(shop, waiting)
        await assert_untouched(shop, waiting)

    async def test_an_escalation_stays_whatever_else_was_filed_of_the_order(self, shop: Shop):
        """Another refund made the usual level the escalated one: that does not undo it."""
        request = await shop.filed("A302", customer="C003", amount=2_000_000)
        shop.clock.set(request.due_at + timedelta(seconds=1))
        [escalated] = await shop.container.escalations().run()
        await shop.filed("A302", customer="C003", amount=1)

        lower = await reduce(shop, escalated, 1_999_999, "huong")

        assert (request.required_level, escalated.required_level) == (1, 2)
        assert lower.required_level == 2

    async def test_a_lower_amount_may_need_a_lower_level_and_fewer_persons(self, shop: Shop, large):
        lower = await reduce(shop, large, 2_000_000, "huong")

        assert (large.required_level, large.approvals_needed) == (2, 2)
        assert (lower.required_level, lower.approvals_needed) == (1, 1)
        assert (await approve(shop, lower, "lan")).status is S.APPROVED

    async def test_it_never_becomes_automatic(self, shop: Shop, waiting):
        assert (await reduce(shop, waiting, 1)).required_level == 1

    async def test_an_escalation_stays_on_top(self, shop: Shop, waiting):
        shop.clock.set(waiting.due_at + timedelta(seconds=1))
        await escalate(shop)

        assert (await reduce(shop, waiting, 100_000, "huong")).required_level == 2

    async def test_first_approvals_are_void_and_their_caps_given_back(self, shop: Shop, large):
        await change_policy(shop, per_approver_day=12_000_000)
        await approve(shop, large, "huong")
        lower = await reduce(shop, large, 11_000_000, "tuan")

        assert (await approve(shop, large, "huong", expect=2)).status is S.PENDING_APPROVAL
        assert (await approve(shop, large, "tuan", expect=2)).status is S.APPROVED
        assert lower.approvals_needed == 2
        await assert_sound(shop)

    async def test_units_follow_the_money(self, shop: Shop):
        request = await shop.filed("A401", customer="C004")
        half = await reduce(shop, request, request.amount_minor // 2)

        assert sum(line.amount_minor for line in half.lines) == request.amount_minor // 2
        for line, before in zip(half.lines, request.lines, strict=True):
            assert line.units == before.units * line.amount_minor // before.amount_minor
        await assert_sound(shop)

    async def test_two_at_once_are_one(self, shop: Shop, waiting):
        both = await asyncio.gather(
            reduce(shop, waiting, 100_000, "lan", expect=1),
            reduce(shop, waiting, 200_000, "huong", expect=1),
            return_exceptions=True,
        )

        assert [type(one) for one in both].count(StaleDecision) == 1
        assert (await books_of(shop, "A100")).taken_minor in {100_000, 200_000}
        await assert_sound(shop)


class TestAsk:
    async def test_the_question_reaches_the_customer_and_the_request_is_held(
        self, shop: Shop, waiting
    ):
        shop.clock.advance(timedelta(hours=1))
        held = await ask(shop, waiting, "Bạn gửi ảnh\nsản phẩm nhé?")

        messages = await shop.read(lambda tx: tx.conversations.messages(waiting.conversation_id))
        assert (messages[-1].author, messages[-1].text) == (
            Author.STAFF,
            "Bạn gửi ảnh\nsản phẩm nhé?",
        )
        assert (held.status, held.version, held.round) == (S.PENDING_APPROVAL, 2, 1)
        assert held.asked_at == shop.clock.now()
        assert (held.expires_at, held.fingerprint) == (waiting.expires_at, waiting.fingerprint)
        (event,) = await events(shop, "approval.asked")
        assert "ảnh" not in str(event.data)
        assert (event.actor.id, event.data["message"]) == ("lan", str(messages[-1].seq))
        await assert_sound(shop)

    async def test_the_answer_shows_up_in_the_brief(self, shop: Shop, waiting):
        await ask(shop, waiting)
        before = await shop.container.approvals().brief(waiting.id)
        await shop.say("Ảnh đây: áo rách ở vai", conversation=waiting.conversation_id)
        after = await shop.container.approvals().brief(waiting.id)

        assert (before.is_held, after.is_held) == (True, False)
        assert after.customer_words[-1].text == "Ảnh đây: áo rách ở vai"
        assert (await shop.request(waiting.id)).status is S.PENDING_APPROVAL

    async def test_who_asked_may_decide_and_the_seen_version_counts(self, shop: Shop, waiting):
        await ask(shop, waiting, expect=1)

        with pytest.raises(StaleDecision):
            await approve(shop, waiting, expect=1)
        assert (await approve(shop, waiting, expect=2)).status is S.APPROVED

    async def test_a_first_approval_stays(self, shop: Shop, large):
        await approve(shop, large, "huong")
        await ask(shop, large, name="tuan")

        assert (await approve(shop, large, "tuan")).status is S.APPROVED

    async def test_a_held_request_expires_as_before(self, shop: Shop, waiting):
        await ask(shop, waiting)
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))

        (expired,) = await shop.container.life().expire_due(shop.container.database())

        assert expired.id == waiting.id

    async def test_nothing_in_a_question_hides_from_the_customer(self, shop: Shop, waiting):
        await ask(shop, waiting, "Ảnh\u202egnp.exe \x1b[2J[red]x[/]?")

        messages = await shop.read(lambda tx: tx.conversations.messages(waiting.conversation_id))
        assert messages[-1].text == r"Ảnh\u202egnp.exe [2J[red]x[/]?"

    @pytest.mark.parametrize("question", ["", "   ", "x" * 1_001, "a\0b", "\ud800"])
    async def test_what_is_no_question_is_not_asked(self, shop: Shop, waiting, question: str):
        with pytest.raises(InvalidInput) as refused:
            await ask(shop, waiting, question)

        assert refused.value.field == "question"
        await assert_untouched(shop, waiting)

    async def test_a_request_without_a_conversation_has_nobody_to_ask(self, shop: Shop):
        desk = shop.container.staff()
        order = await desk.order("A100")
        (request,) = await desk.file(order, Wish(), by=await shop.approver("minh"), reference="T-1")

        with pytest.raises(DecisionRefused, match="NO_CONVERSATION"):
            await ask(shop, request)
        await assert_untouched(shop, request)


@pytest.mark.parametrize("amend", [reduce, ask])
class TestTheRightsOfDeciding:
    async def test_an_own_request_is_not_amended(self, shop: Shop, amend):
        request = await shop.filed("A300", customer="C003")

        with pytest.raises(SelfApproval):
            await amend(shop, request, name="minh")
        await assert_untouched(shop, request)

    async def test_a_disabled_approver_amends_nothing(self, shop: Shop, waiting, amend):
        with pytest.raises(ApproverDisabled):
            await amend(shop, waiting, name="dung")
        await assert_untouched(shop, waiting)

    async def test_a_level_too_low_is_told_who_may(self, shop: Shop, amend):
        request = await shop.filed("A301", customer="C003")

        with pytest.raises(InsufficientAuthority, match="huong, tuan may decide") as refused:
            await amend(shop, request, name="lan")
        assert refused.value.others == ("huong", "tuan")
        await assert_untouched(shop, request)

    async def test_one_over_the_limit_is_too_much_and_the_limit_is_not(
        self, shop: Shop, waiting, amend
    ):
        await change_approver(shop, "lan", limits={"VND": 249_999})
        with pytest.raises(InsufficientAuthority):
            await amend(shop, waiting)

        await change_approver(shop, "lan", limits={"VND": 250_000})
        assert (await amend(shop, waiting)).version == 2

    async def test_another_version_is_stale(self, shop: Shop, waiting, amend):
        with pytest.raises(StaleDecision, match="version 1, not 7"):
            await amend(shop, waiting, expect=7)
        await assert_untouched(shop, waiting)

    async def test_a_second_after_the_end_is_expired(self, shop: Shop, waiting, amend):
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))

        with pytest.raises(RequestExpired):
            await amend(shop, waiting)
        await assert_untouched(shop, waiting)

    async def test_a_decided_request_says_by_whom(self, shop: Shop, waiting, amend):
        await approve(shop, waiting)

        with pytest.raises(AlreadyDecided) as decided:
            await amend(shop, waiting, name="huong")
        assert (decided.value.by, decided.value.at) == ("lan", shop.clock.now())

    async def test_a_row_changed_by_hand_is_not_amended(self, shop: Shop, waiting, amend):
        change_request(shop, waiting.id, "destination = 'ledger:shop-main:led_A200_1'")

        with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
            await amend(shop, waiting)

    async def test_an_unknown_request_is_not_found(self, shop: Shop, waiting, amend):
        with pytest.raises(RequestNotFound):
            await amend(shop, replace(waiting, id="req_none"))


class TestEscalation:
    async def test_what_is_overdue_goes_one_level_up_and_first(self, shop: Shop):
        other = await shop.filed("A205", customer="C002")
        shop.clock.advance(timedelta(hours=1))
        request = await shop.filed("A100")
        shop.clock.set(request.due_at + timedelta(seconds=1))
        by = await shop.approver("lan")
        await shop.container.approvals().reject(other.id, by=by)

        (escalated,) = await escalate(shop)

        assert escalated.id == request.id
        assert (escalated.required_level, escalated.escalations) == (2, 1)
        assert escalated.due_at == request.due_at + timedelta(hours=24)
        assert escalated.expires_at == request.expires_at
        assert (escalated.version, escalated.round) == (2, 2)
        assert escalated.reasons[-1] is Reason.ESCALATED
        assert escalated.status is S.PENDING_APPROVAL
        with pytest.raises(InsufficientAuthority):
            await approve(shop, request, "lan")
        assert (await approve(shop, request, "huong")).status is S.APPROVED
        await assert_sound(shop)

    async def test_it_stands_before_what_was_filed_earlier(self, shop: Shop):
        first = await shop.filed("A205", customer="C002")
        shop.clock.advance(timedelta(hours=30))
        await escalate(shop)
        second = await shop.filed("A100")
        shop.clock.advance(timedelta(hours=25))
        third = await shop.filed("A304", customer="C003", amount=1_000_000)
        await escalate(shop)

        pending = RequestFilter(status=S.PENDING_APPROVAL)
        queue = await shop.read(lambda tx: tx.requests.list(pending, limit=10))
        assert [r.id for r in queue.data] == [first.id, second.id, third.id]
        assert [r.escalations for r in queue.data] == [2, 1, 0]

    async def test_nothing_is_escalated_before_its_time_or_twice(self, shop: Shop, waiting):
        shop.clock.set(waiting.due_at)
        assert await escalate(shop) == ()
        shop.clock.advance(timedelta(seconds=1))
        assert len(await escalate(shop)) == 1
        assert await escalate(shop) == ()

    async def test_after_a_long_silence_there_is_one_step_and_a_whole_term_again(
        self, shop_url: str
    ):
        async with open_shop(shop_url, approvals={"proof": "asserted", "wait_hours": 24 * 30}) as s:
            request = await s.filed("A100")
            s.clock.advance(timedelta(days=10))

            (escalated,) = await escalate(s)
            assert escalated.due_at == s.clock.now() + timedelta(hours=24)
            assert escalated.required_level == request.required_level + 1
            assert await escalate(s) == ()

    async def test_a_first_approval_below_the_new_level_is_void(self, shop: Shop):
        await change_policy(shop, four_eyes_from=200_001)
        request = await shop.filed("A100")
        await approve(shop, request, "lan")
        shop.clock.set(request.due_at + timedelta(seconds=1))
        await escalate(shop)

        assert (await approve(shop, request, "huong")).status is S.PENDING_APPROVAL
        assert (await approve(shop, request, "tuan")).status is S.APPROVED
        await assert_sound(shop)

    async def test_at_the_top_a_task_is_made_each_time_and_approvals_stay(self, shop: Shop, large):
        await approve(shop, large, "huong")
        for _ in range(2):
            shop.clock.advance(timedelta(hours=24, seconds=1))
            (escalated,) = await escalate(shop)

        assert (escalated.required_level, escalated.round, escalated.escalations) == (2, 1, 2)
        assert [task.subject for task in await tasks(shop, "overdue_approval")] == [large.id] * 2
        assert (await approve(shop, large, "tuan")).status is S.APPROVED
        await assert_sound(shop)

    async def test_expired_is_not_escalated(self, shop: Shop, waiting):
        shop.clock.set(waiting.expires_at + timedelta(seconds=1))

        assert await escalate(shop) == ()
        assert await shop.request(waiting.id) == waiting

    async def test_a_row_changed_by_hand_is_not_signed_by_moving_it(self, shop: Shop, waiting):
        change_request(shop, waiting.id, "amount_minor = 1")
        shop.clock.set(waiting.due_at + timedelta(seconds=1))

        assert await escalate(shop) == ()
        with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
            await approve(shop, waiting)


def test_lines_are_spread_by_largest_remainder_and_keep_whole_units():
    lines = (
        RefundLine(line_id="a", units=3, amount_minor=300),
        RefundLine(line_id="b", units=0, amount_minor=100),
        RefundLine(line_id="c", units=1, amount_minor=1),
    )

    lower = reduced_lines(lines, 250)

    assert lower == (
        RefundLine(line_id="a", units=1, amount_minor=187),
        RefundLine(line_id="b", units=0, amount_minor=62),
        RefundLine(line_id="c", units=1, amount_minor=1),
    )

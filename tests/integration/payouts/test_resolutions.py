"""Ending a manual review: with a proof, by a second person, once."""

import asyncio
import shutil

import pytest

from support_agent.domain.approvals import Choice
from support_agent.domain.errors import (
    AlreadyDecided,
    ApproverDisabled,
    ApproverNotFound,
    DecisionRefused,
    IllegalTransition,
    InsufficientAuthority,
    InvalidInput,
    PaymentOutcomeUnknown,
    RequestNotFound,
    SelfApproval,
    StaleDecision,
)
from support_agent.domain.people import Approver
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import AttemptStatus, RefundRequest, RequestStatus
from support_agent.services.resolutions import clean_evidence
from support_agent.testing.gateway import Act
from tests.heart import (
    add_approver,
    approved,
    assert_sound,
    attempts,
    balance,
    change_approver,
    change_policy,
    change_request,
    events,
    notices,
    open_shop_with,
    operator,
    pay,
    tasks,
)
from tests.kit import Shop

S = RequestStatus
PROOF = "FT26287000123"


async def under_review(
    shop: Shop, gateway, order_id: str = "A100", by: str = "lan"
) -> RefundRequest:
    """A request whose key the gateway says it knows with other facts; lan approved what had to be."""
    gateway.will(Act.REFUSE_KEY)
    request = await shop.filed(order_id)
    if request.status is S.PENDING_APPROVAL:
        await shop.container.approvals().approve(request.id, by=await shop.approver(by))
        request = await pay(shop, request)
    assert request.status is S.MANUAL_REVIEW
    return request


async def resolve(
    shop: Shop,
    request: RefundRequest,
    name: str = "huong",
    *,
    paid: bool = True,
    evidence: str = PROOF,
    **more,
) -> RefundRequest:
    by = await shop.approver(name)
    return await shop.container.resolutions().resolve(
        request.id, paid=paid, evidence=evidence, by=by, **more
    )


async def assert_unchanged(shop: Shop, request: RefundRequest) -> None:
    assert await shop.request(request.id) == request
    decisions = await shop.read(lambda tx: tx.decisions.of(request.id))
    assert not any(decision.evidence for decision in decisions)


class TestPaid:
    async def test_it_is_refunded_with_a_signed_proof_and_the_customer_hears(self, shop, gateway):
        request = await under_review(shop, gateway)

        done = await resolve(shop, request, note="checked with the bank")

        assert done == await shop.request(request.id)
        assert done.status is S.REFUNDED
        assert await balance(shop) == (0, 250_000)
        decision = (await shop.read(lambda tx: tx.decisions.of(request.id)))[-1]
        assert (decision.choice, decision.evidence) == (Choice.PAID, PROOF)
        assert (decision.person_id, decision.note) == ("P-HUONG", "checked with the bank")
        [attempt] = await attempts(shop, request)
        assert attempt.status is AttemptStatus.SUCCEEDED
        assert "Đã hoàn 250.000" in (await notices(shop, request.conversation_id))[-1]
        [event] = await events(shop, "refund.refunded")
        assert (event.actor.id, event.data["evidence"]) == ("huong", PROOF)
        await assert_sound(shop)

    async def test_it_is_booked_as_paid_by_hand(self, shop, gateway):
        request = await under_review(shop, gateway)
        await resolve(shop, request)

        def kinds(tx):
            rows = tx.books._connection.exec_driver_sql(
                f"SELECT DISTINCT kind FROM ledger_entries WHERE request_id = '{request.id}'"  # noqa: S608
            )
            return {kind for (kind,) in rows}

        assert "MANUAL" in await shop.read(kinds)
        assert "SETTLE" not in await shop.read(kinds)

    @pytest.mark.parametrize("act", [Act.REFUSE_KEY, Act.MISMATCH])
    async def test_the_reconciler_leaves_it_at_that(self, shop, gateway, act):
        gateway.will(act)
        request = await resolve(shop, await pay(shop, await approved(shop)))

        await shop.container.payouts().reconcile()
        await shop.container.gateway_refunds().compare()

        assert await shop.request(request.id) == request
        assert await balance(shop) == (0, 250_000)
        await assert_sound(shop)


class TestNotPaid:
    async def test_it_failed_and_the_amount_is_free_again(self, shop, gateway):
        request = await under_review(shop, gateway)

        done = await resolve(shop, request, paid=False)

        assert done.status is S.FAILED
        assert await balance(shop) == (0, 0)
        [attempt] = await attempts(shop, request)
        assert attempt.status is AttemptStatus.FAILED
        decision = (await shop.read(lambda tx: tx.decisions.of(request.id)))[-1]
        assert (decision.choice, decision.evidence) == (Choice.NOT_PAID, PROOF)
        assert "không thực hiện được" in (await notices(shop, request.conversation_id))[-1]
        await assert_sound(shop)

    async def test_and_can_be_retried_then(self, shop, gateway):
        request = await resolve(shop, await under_review(shop, gateway), paid=False)
        by = await shop.approver("huong")

        again = await shop.container.retries().retry(request.id, by=by)

        assert (again.status, again.attempt_no) == (S.PENDING_APPROVAL, 2)
        await assert_sound(shop)

    async def test_the_gateway_that_did_pay_is_believed(self, shop, gateway):
        gateway.will(Act.MISMATCH)
        request = await pay(shop, await approved(shop))
        assert request.status is S.MANUAL_REVIEW

        with pytest.raises(DecisionRefused) as caught:
            await resolve(shop, request, paid=False)

        assert caught.value.reason is Reason.PAID_AFTER_ALL
        assert [task.subject for task in await tasks(shop, "paid_after_all")] == [request.id]
        await assert_unchanged(shop, request)
        assert (await resolve(shop, request, paid=True)).status is S.REFUNDED

    async def test_also_of_a_payout_that_our_books_forgot(self, shop_url, gateway, tmp_path):
        """The database was put back to before it was sent: no attempt of it is left."""
        path, earlier = shop_url.removeprefix("sqlite:///"), tmp_path / "earlier.db"
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            request = await approved(shop)
        shutil.copy(path, earlier)
        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            assert (await pay(shop, request)).status is S.REFUNDED
        shutil.copy(earlier, path)

        async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
            request = await pay(shop, request)
            assert request.status is S.MANUAL_REVIEW
            with pytest.raises(DecisionRefused) as caught:
                await resolve(shop, request, paid=False)
            assert caught.value.reason is Reason.PAID_AFTER_ALL
            assert (await resolve(shop, request, paid=True)).status is S.REFUNDED

    async def test_a_gateway_that_cannot_be_asked_leaves_it_as_it_is(self, shop, gateway):
        request = await under_review(shop, gateway)
        gateway.unreachable = True

        with pytest.raises(PaymentOutcomeUnknown):
            await resolve(shop, request, paid=False)
        await assert_unchanged(shop, request)


class TestWho:
    async def test_the_approver_of_this_round_may_not(self, shop, gateway):
        request = await under_review(shop, gateway)

        with pytest.raises(DecisionRefused) as caught:
            await resolve(shop, request, "lan")

        assert caught.value.reason is Reason.SECOND_PERSON_NEEDED
        await assert_unchanged(shop, request)

    async def test_nor_under_another_name(self, shop, gateway):
        other = Approver(name="lan2", person_id="P-LAN", level=2, limits={"VND": 20_000_000})
        await add_approver(shop, other)
        request = await under_review(shop, gateway)

        with pytest.raises(DecisionRefused, match="SECOND_PERSON_NEEDED"):
            await resolve(shop, request, "lan2")

    async def test_nor_who_filed_it_or_is_the_customer(self, shop, gateway):
        await change_approver(shop, "huong", customer_ids=frozenset({"C001"}))
        request = await under_review(shop, gateway)

        with pytest.raises(SelfApproval):
            await resolve(shop, request, "huong")
        await assert_unchanged(shop, request)

    async def test_nor_who_asked_to_pay_it_again(self, shop, gateway):
        failed = await resolve(shop, await under_review(shop, gateway), "huong", paid=False)
        by = await shop.approver("tuan")
        again = await shop.container.retries().retry(failed.id, by=by)
        await shop.container.approvals().approve(again.id, by=await shop.approver("lan"))
        gateway.will(Act.REFUSE_KEY)
        again = await pay(shop, again)
        assert again.status is S.MANUAL_REVIEW

        with pytest.raises(SelfApproval):
            await resolve(shop, again, "tuan", evidence="FT-2")
        assert (await resolve(shop, again, "huong", evidence="FT-2")).status is S.REFUNDED

    async def test_nor_one_whose_level_or_limit_is_too_low(self, shop, gateway):
        await change_policy(shop, levels=[200_001, 20_000_000])
        request = await under_review(shop, gateway, "A100", "tuan")

        with pytest.raises(InsufficientAuthority, match="level 2"):
            await resolve(shop, request, "lan")
        await change_approver(shop, "huong", limits={"VND": 249_999})
        with pytest.raises(InsufficientAuthority, match=r"249\.999"):
            await resolve(shop, request, "huong")
        await change_approver(shop, "huong", limits={"VND": 250_000})
        assert (await resolve(shop, request, "huong")).status is S.REFUNDED

    async def test_nor_one_who_is_disabled_or_unknown_or_no_approver(self, shop, gateway):
        request = await under_review(shop, gateway)
        by = await shop.approver("huong")
        await change_approver(shop, "huong", disabled=True)

        for who, error in ((by, ApproverDisabled), (operator("thu"), ApproverNotFound)):
            with pytest.raises(error):
                await shop.container.resolutions().resolve(
                    request.id, paid=True, evidence=PROOF, by=who
                )
        await assert_unchanged(shop, request)

    async def test_of_an_automatic_one_any_approver_is_the_second_person(self, shop, gateway):
        request = await under_review(shop, gateway, "A102")
        assert request.required_level == 0

        assert (await resolve(shop, request, "lan")).status is S.REFUNDED


class TestEvidence:
    @pytest.mark.parametrize(
        "evidence",
        [
            "",
            "   ",
            "ab",
            "x" * 101,
            "FT 123",
            "FT\n123",
            "FT\x00123",
            "FT\u202e123",
            "FT\u200b123",
        ],
    )
    async def test_what_is_no_id_is_refused(self, shop, gateway, evidence):
        request = await under_review(shop, gateway)

        with pytest.raises(InvalidInput) as caught:
            await resolve(shop, request, evidence=evidence)

        assert caught.value.field == "evidence"
        await assert_unchanged(shop, request)

    @pytest.mark.parametrize(
        ("written", "kept"),
        [
            ("  abc ", "abc"),
            ("x" * 100, "x" * 100),
            ("\uff26\uff34-1", "FT-1"),
            ("chứng-từ", "chứng-từ"),
        ],
    )
    def test_the_same_id_is_the_same_text(self, written, kept):
        assert clean_evidence(written) == kept

    @pytest.mark.parametrize("paid", [True, False])
    async def test_it_proves_one_request_only(self, shop, gateway, paid):
        first, second = await under_review(shop, gateway), await under_review(shop, gateway, "A102")
        await resolve(shop, first)

        with pytest.raises(DecisionRefused) as caught:
            await resolve(shop, second, paid=paid)

        assert caught.value.reason is Reason.EVIDENCE_USED
        assert PROOF in str(caught.value)
        await assert_unchanged(shop, second)
        await assert_sound(shop)

    async def test_nor_another_one_in_small_letters(self, shop, gateway):
        first, second = await under_review(shop, gateway), await under_review(shop, gateway, "A102")
        await resolve(shop, first)

        with pytest.raises(DecisionRefused) as caught:
            await resolve(shop, second, evidence=PROOF.lower())

        assert caught.value.reason is Reason.EVIDENCE_USED
        await assert_unchanged(shop, second)

    async def test_a_refund_of_another_request_proves_nothing(self, shop, gateway):
        paid = await shop.filed("A103")
        [attempt] = await attempts(shop, paid)
        request = await under_review(shop, gateway)

        with pytest.raises(DecisionRefused) as caught:
            await resolve(shop, request, evidence=attempt.provider_refund_id)

        assert caught.value.reason is Reason.EVIDENCE_USED
        await assert_unchanged(shop, request)


class TestRefused:
    async def test_an_unknown_request(self, shop):
        by = await shop.approver("huong")
        with pytest.raises(RequestNotFound):
            await shop.container.resolutions().resolve("req_no", paid=True, evidence=PROOF, by=by)

    async def test_one_that_is_not_in_review(self, shop, gateway):
        request = await under_review(shop, gateway)
        for status in set(RequestStatus) - {S.MANUAL_REVIEW}:
            change_request(shop, request.id, f"status = '{status}'")
            before = await shop.request(request.id)

            with pytest.raises(IllegalTransition, match=status):
                await resolve(shop, request)
            await assert_unchanged(shop, before)

    async def test_a_version_that_is_not_the_one_seen(self, shop, gateway):
        request = await under_review(shop, gateway)

        with pytest.raises(StaleDecision):
            await resolve(shop, request, expect=request.version - 1)
        assert (await resolve(shop, request, expect=request.version)).status is S.REFUNDED

    @pytest.mark.parametrize(
        "change",
        ["destination = 'ledger:shop-main:mine'", "operator = 'huong'", "required_level = 0"],
    )
    async def test_a_row_that_somebody_changed(self, shop, gateway, change):
        request = await under_review(shop, gateway)
        change_request(shop, request.id, change)

        with pytest.raises(Exception, match=r"RECORD_CHANGED|operator"):
            await resolve(shop, request)
        assert (await shop.request(request.id)).status is S.MANUAL_REVIEW

    async def test_one_without_its_reserve(self, shop, gateway):
        request = await under_review(shop, gateway)
        change_request(shop, request.id, "lines = '[]'")

        with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
            await resolve(shop, request)


async def test_of_two_at_once_one_ends_it(shop, gateway):
    request = await under_review(shop, gateway)

    results = await asyncio.gather(
        resolve(shop, request, "huong", evidence="FT-1"),
        resolve(shop, request, "tuan", evidence="FT-2"),
        return_exceptions=True,
    )

    [late] = [result for result in results if not isinstance(result, RefundRequest)]
    assert isinstance(late, AlreadyDecided | IllegalTransition)
    assert await balance(shop) == (0, 250_000)
    await assert_sound(shop)

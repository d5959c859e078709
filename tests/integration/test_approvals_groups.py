"""A refund over several payments is one decision; caps count each part of it."""

from datetime import timedelta

import pytest

from support_agent.domain.errors import (
    AlreadyDecided,
    DecisionRefused,
    InsufficientAuthority,
    SelfApproval,
)
from support_agent.domain.people import Approver
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import CapKey, CapScope
from support_agent.testing.gateway import Act
from tests.heart import (
    add_approver,
    assert_sound,
    balance,
    books_of,
    change_approver,
    change_policy,
    change_request,
    notices,
    open_shop_with,
    pay,
    simulator,
)
from tests.kit import TODAY, Shop

S = RequestStatus


async def filed_over_two_payments(shop: Shop) -> tuple[RefundRequest, ...]:
    """600,000 of A605: 400,000 by card and 200,000 by gift card."""
    quoted = await shop.quote("A605", customer="C006")
    result = await shop.answer(quoted, customer="C006")
    first = result.requests[0]
    return await shop.read(lambda tx: tx.requests.of_group(first.group_id))


@pytest.fixture
async def parts(shop: Shop) -> tuple[RefundRequest, ...]:
    found = await filed_over_two_payments(shop)
    assert {part.amount_minor for part in found} == {400_000, 200_000}
    return found


async def decide(shop: Shop, word: str, request: RefundRequest, name: str = "lan", **how):
    by = await shop.approver(name)
    return await getattr(shop.container.approvals(), word)(request.id, by=by, **how)


async def statuses(shop: Shop, parts: tuple[RefundRequest, ...]) -> list[RequestStatus]:
    return [(await shop.request(part.id)).status for part in parts]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("word", "status"), [("approve", S.APPROVED), ("reject", S.REJECTED)])
async def test_a_decision_on_one_part_is_one_on_all(
    shop: Shop, parts, which: int, word: str, status: RequestStatus
):
    decided = await decide(shop, word, parts[which], expect=1)

    assert (decided.id, decided.status) == (parts[which].id, status)
    assert await statuses(shop, parts) == [status, status]
    for part in parts:
        (decision,) = await shop.read(lambda tx, part=part: tx.decisions.of(part.id))
        assert (decision.name, decision.amount_minor) == ("lan", part.amount_minor)
    await assert_sound(shop)


async def test_a_rejection_frees_all_and_tells_the_customer_once(shop: Shop, parts):
    await decide(shop, "reject", parts[0])

    assert await balance(shop, "A605") == (0, 0)
    assert len(await notices(shop, parts[0].conversation_id)) == 1


async def test_the_level_is_that_of_the_sum(shop: Shop, parts):
    await change_approver(shop, "lan", limits={"VND": 599_999})
    for word in ("approve", "reject"):
        with pytest.raises(InsufficientAuthority, match="minh, huong, tuan may decide"):
            await decide(shop, word, parts[1])  # 200,000 alone

    await change_approver(shop, "lan", limits={"VND": 600_000})
    await decide(shop, "approve", parts[1])

    assert await statuses(shop, parts) == [S.APPROVED, S.APPROVED]


async def test_the_cap_counts_each_part(shop: Shop, parts):
    await change_policy(shop, per_approver_day=599_999)
    with pytest.raises(DecisionRefused, match="CAP_APPROVER_DAY"):
        await decide(shop, "approve", parts[0])
    assert await statuses(shop, parts) == [S.PENDING_APPROVAL] * 2

    await change_policy(shop, per_approver_day=600_000)
    await decide(shop, "approve", parts[0])
    await assert_sound(shop)


async def test_with_four_eyes_the_first_approval_moves_none_and_the_second_all(shop: Shop, parts):
    await change_policy(shop, four_eyes_from=600_000)

    await decide(shop, "approve", parts[0], "lan")
    assert await statuses(shop, parts) == [S.PENDING_APPROVAL] * 2
    with pytest.raises(AlreadyDecided):
        await decide(shop, "approve", parts[1], "lan")
    await decide(shop, "approve", parts[1], "minh")

    assert await statuses(shop, parts) == [S.APPROVED] * 2
    await assert_sound(shop)


async def test_one_forged_part_stops_the_decision_on_all(shop: Shop, parts):
    change_request(shop, parts[1].id, "amount_minor = 1")

    for word in ("approve", "reject"):
        with pytest.raises(DecisionRefused, match="RECORD_CHANGED"):
            await decide(shop, word, parts[0])


async def test_an_own_order_is_refused_through_either_part(shop: Shop, parts):
    await change_approver(shop, "lan", customer_ids=frozenset({"C006"}))

    for part in parts:
        with pytest.raises(SelfApproval):
            await decide(shop, "approve", part)


async def test_it_is_not_reduced(shop: Shop, parts):
    with pytest.raises(DecisionRefused) as refused:
        await decide(shop, "reduce", parts[0], amount_minor=1)

    assert refused.value.reason is Reason.GROUP_NOT_REDUCED
    assert await statuses(shop, parts) == [S.PENDING_APPROVAL] * 2


async def test_a_question_holds_all_and_is_put_once(shop: Shop, parts):
    await decide(shop, "ask", parts[1], question="Bạn gửi ảnh nhé?")

    held = [await shop.request(part.id) for part in parts]
    assert [(one.version, one.asked_at) for one in held] == [(2, shop.clock.now())] * 2
    brief = await shop.container.approvals().brief(parts[0].id)
    assert [m.text for m in brief.conversation].count("Bạn gửi ảnh nhé?") == 1


async def test_all_parts_are_escalated_as_one(shop: Shop, parts):
    shop.clock.set(parts[0].due_at + timedelta(seconds=1))

    escalated = await shop.container.escalations().run()

    assert len(escalated) == 1
    raised = [await shop.request(part.id) for part in parts]
    assert [(one.required_level, one.escalations, one.round) for one in raised] == [(2, 1, 2)] * 2
    await assert_sound(shop)


async def test_the_brief_names_the_parts_beside_it(shop: Shop, parts):
    brief = await shop.container.approvals().brief(parts[0].id)

    assert [other.id for other in brief.group] == [parts[1].id]
    assert parts[1].id not in [other.id for other in brief.earlier]
    assert brief.cumulative_minor == 600_000


class TestPairCap:
    """One approver, one customer, one day: what two who know each other could do together."""

    @pytest.fixture
    async def two(self, shop: Shop) -> list[RefundRequest]:
        """250,000 and 250,000 of C004's orders."""
        return [await shop.filed("A400", customer="C004", amount=250_000) for _ in range(2)]

    async def test_exactly_the_cap_is_allowed_and_one_over_is_not(self, shop: Shop, two):
        await change_policy(shop, per_pair_day=499_999)
        await decide(shop, "approve", two[0])
        with pytest.raises(DecisionRefused, match="CAP_PAIR_DAY") as refused:
            await decide(shop, "approve", two[1])
        assert "499.999" in refused.value.sentence("vi")
        assert await shop.request(two[1].id) == two[1]

        await change_policy(shop, per_pair_day=500_000)
        assert (await decide(shop, "approve", two[1])).status is S.APPROVED
        await assert_sound(shop)

    async def test_another_person_another_customer_and_another_day_are_free(self, shop: Shop, two):
        await change_policy(shop, per_pair_day=250_000)
        other = await shop.filed("A100")
        await decide(shop, "approve", two[0])

        assert (await decide(shop, "approve", other)).status is S.APPROVED
        assert (await decide(shop, "approve", two[1], "minh")).status is S.APPROVED
        third = await shop.filed("A400", customer="C004", amount=250_000)
        shop.clock.advance(timedelta(hours=24))
        assert (await decide(shop, "approve", third)).status is S.APPROVED

    async def test_two_accounts_of_a_person_share_it(self, shop: Shop, two):
        await change_policy(shop, per_pair_day=250_000)
        await add_approver(
            shop, Approver(name="lan2", person_id="P-LAN", level=1, limits={"VND": 2_000_000})
        )
        await decide(shop, "approve", two[0])

        with pytest.raises(DecisionRefused, match="CAP_PAIR_DAY"):
            await decide(shop, "approve", two[1], "lan2")

    async def test_a_rejection_after_a_first_approval_gives_it_back(self, shop: Shop, two):
        await change_policy(shop, per_pair_day=250_000, four_eyes_from=200_001)
        await decide(shop, "approve", two[0], "lan")
        await decide(shop, "reject", two[0], "minh")
        pair = CapKey(scope=CapScope.PAIR, subject="P-LAN|C004", day=TODAY.date(), currency="VND")

        assert await shop.read(lambda tx: tx.books.cap_used(pair, since=pair.day)) == 0
        assert (await decide(shop, "approve", two[1], "lan")).status is S.PENDING_APPROVAL
        await assert_sound(shop)


class TestAnApprovalSaysNothingAboutAnythingElse:
    """Cases M7, M8 and M10: no standing grants, and a stored decision is never asked again."""

    async def test_an_approved_order_lets_no_other_pass(self, shop: Shop):
        first = await shop.filed("A400", customer="C004", amount=250_000)
        await decide(shop, "approve", first)
        second = await shop.filed("A400", customer="C004", amount=250_000)
        other = await shop.filed("A100")

        assert [r.status for r in (second, other)] == [S.PENDING_APPROVAL] * 2
        for request in (second, other):
            assert (await shop.container.payouts().pay(request.id)).status is S.PENDING_APPROVAL

    async def test_a_rejection_stands_whatever_the_policy_says_later(self, shop: Shop):
        request = await shop.filed("A100")
        await decide(shop, "reject", request)
        await change_policy(shop, auto=1_000_000)

        assert (await shop.container.payouts().pay(request.id)).status is S.REJECTED
        assert await shop.container.payouts().pay_due() == ()
        assert (await books_of(shop, "A100")).taken_minor == 0

    async def test_of_two_requests_one_may_be_approved_and_one_rejected(self, shop: Shop):
        one, two = await shop.filed("A100"), await shop.filed("A205", customer="C002")
        await decide(shop, "approve", one)
        await decide(shop, "reject", two)

        assert await statuses(shop, (one, two)) == [S.APPROVED, S.REJECTED]
        await assert_sound(shop)


async def test_a_part_that_was_retried_is_decided_alone(shop_url: str):
    """Who approves the other part, as it was seen, has not seen this one come back."""
    gateway = simulator()
    async with open_shop_with(shop_url, overrides={"gateway": gateway}) as shop:
        failing, other = await filed_over_two_payments(shop)
        await decide(shop, "approve", failing)
        gateway.will(Act.DECLINE)
        assert (await pay(shop, failing)).status is S.FAILED
        await change_approver(shop, "lan", disabled=True)
        back = await pay(shop, other)
        assert back.status is S.PENDING_APPROVAL
        await change_approver(shop, "lan", disabled=False)
        shop.clock.advance(timedelta(minutes=1))
        await shop.container.retries().retry(failing.id, by=await shop.approver("huong"))

        await decide(shop, "approve", other, expect=back.version)

        assert await statuses(shop, (failing, other)) == [S.PENDING_APPROVAL, S.APPROVED]
        await decide(shop, "approve", failing)
        assert await statuses(shop, (failing, other)) == [S.APPROVED, S.APPROVED]
        await assert_sound(shop)

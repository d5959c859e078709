"""All accounts of a person are one, and a row that was changed by hand does not part them."""

from dataclasses import replace

import pytest

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import RecordChanged, SelfApproval
from support_agent.domain.people import SYSTEM, Approver
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.services.approvers import record_approvers
from support_agent.services.authority import APPROVER_CHANGED, authority_facts
from tests.heart import (
    add_approver,
    approved,
    assert_sound,
    attack,
    events,
    problems,
)
from tests.kit import Shop

S = RequestStatus
LAN2 = Approver(
    name="lan2",
    person_id="P-LAN",
    level=1,
    limits={"VND": 2_000_000},
    customer_ids=frozenset({"C001"}),
)
BY_HAND = {
    "unlinked": "UPDATE approvers SET customer_ids = '[]' WHERE name = 'lan2'",
    "deleted": "DELETE FROM approvers WHERE name = 'lan2'",
    "another person's": "UPDATE approvers SET person_id = 'P-X' WHERE name = 'lan2'",
}
by_hand = pytest.mark.parametrize("statement", BY_HAND.values(), ids=BY_HAND)


@pytest.fixture
async def own(shop: Shop) -> RefundRequest:
    """A request of the customer that lan is under another name."""
    await add_approver(shop, LAN2)
    request = await shop.filed("A100")
    with pytest.raises(SelfApproval):
        await approve(shop, request)
    return request


async def approve(shop: Shop, request: RefundRequest, name: str = "lan") -> RefundRequest:
    return await shop.container.approvals().approve(request.id, by=await shop.approver(name))


@by_hand
async def test_a_person_whose_other_account_was_changed_by_hand_decides_nothing(
    shop: Shop, own: RefundRequest, statement: str
):
    attack(shop.url, statement)

    for decide in (shop.container.approvals().approve, shop.container.approvals().reject):
        with pytest.raises(RecordChanged, match="accounts of person 'P-LAN'"):
            await decide(own.id, by=await shop.approver("lan"))
    assert await shop.request(own.id) == own
    assert any("accounts of person 'P-LAN'" in problem for problem in await problems(shop))
    assert (await approve(shop, own, "huong")).status is S.APPROVED


@by_hand
async def test_such_a_person_ends_no_review_either(shop: Shop, statement: str):
    request = await approved(shop, "A100", "huong")
    await add_approver(shop, replace(LAN2, level=2, limits={"VND": 20_000_000}))
    attack(shop.url, statement)

    with pytest.raises(RecordChanged, match="accounts of person 'P-LAN'"):
        await shop.container.resolutions().resolve(
            request.id, paid=True, evidence="FT-1", by=await shop.approver("lan")
        )


async def test_an_account_that_was_written_by_hand_is_one_too_many(shop: Shop):
    request = await shop.filed("A100")
    columns = "person_id, level, limits, customer_ids, disabled, token_hash"
    attack(
        shop.url,
        f"INSERT INTO approvers (name, {columns}) "  # noqa: S608 - the attack
        f"SELECT 'lan3', {columns} FROM approvers WHERE name = 'lan'",
    )

    with pytest.raises(RecordChanged, match="accounts of person 'P-LAN'"):
        await approve(shop, request)


async def test_adding_the_account_again_mends_it(shop: Shop, own: RefundRequest):
    attack(shop.url, BY_HAND["deleted"])

    await shop.container.approvers().add(LAN2, by=SYSTEM)

    with pytest.raises(SelfApproval):
        await approve(shop, own)
    await assert_sound(shop)


async def test_a_change_signs_what_was_signed_and_not_what_was_forged(
    shop: Shop, own: RefundRequest
):
    attack(shop.url, BY_HAND["unlinked"])

    await shop.container.approvers().set_limits("lan", {"VND": 3_000_000}, by=SYSTEM)

    with pytest.raises(RecordChanged):
        await approve(shop, own)
    await shop.container.approvers().set_disabled("lan2", disabled=True, by=SYSTEM)
    with pytest.raises(SelfApproval):
        await approve(shop, own)
    await assert_sound(shop)


async def test_accounts_that_are_added_together_know_each_other(shop: Shop):
    pair = [Approver(name=name, person_id="P-BA", level=1, limits={}) for name in ("ba", "ba2")]

    def add(tx) -> None:
        for approver in pair:
            tx.people.put(approver)
        record_approvers(tx, pair, shop.clock, by=SYSTEM)

    await shop.write(add)

    told = (await events(shop, "person.accounts"))[-1]
    assert (told.subject, told.data) == ("P-BA", {"account_ba": "", "account_ba2": ""})
    await assert_sound(shop)


async def test_a_person_from_before_decides_as_before_until_an_account_is_changed(shop: Shop):
    """Then all the accounts are signed, those that were not changed as they were made."""
    request = await shop.filed("A100")
    pair = [replace(LAN2, name=name, person_id="P-BA") for name in ("ba", "ba2")]
    pair[0] = replace(pair[0], customer_ids=frozenset())
    for approver in pair:
        await shop.write(lambda tx, new=approver: written_before(tx, new, shop))
    await assert_sound(shop)
    with pytest.raises(SelfApproval):
        await approve(shop, request, "ba")

    await shop.container.approvers().set_limits("ba", {"VND": 3_000_000}, by=SYSTEM)
    attack(shop.url, "UPDATE approvers SET customer_ids = '[]' WHERE name = 'ba2'")

    with pytest.raises(RecordChanged):
        await approve(shop, request, "ba")


def written_before(tx, approver: Approver, shop: Shop) -> None:
    """As it was done when nothing was signed about persons."""
    tx.people.put(approver)
    tx.audit.append(
        AuditEvent(
            action=APPROVER_CHANGED,
            actor=SYSTEM,
            subject=approver.name,
            at=shop.clock.now(),
            data=authority_facts(approver),
        )
    )

"""Who can write the database gives nobody authority: rows are held against the signed history."""

from dataclasses import replace

import pytest

from support_agent.domain.errors import ConfigurationError, RecordChanged
from support_agent.domain.people import SYSTEM
from support_agent.domain.refunds import RequestStatus
from tests.heart import attack, problems
from tests.kit import Shop


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE approvers SET level = 2 WHERE name = 'lan'",
        """UPDATE approvers SET limits = '{"VND":900000000}' WHERE name = 'lan'""",
        "UPDATE approvers SET person_id = 'P-other' WHERE name = 'lan'",
        "UPDATE approvers SET token_hash = 'of a token I know' WHERE name = 'lan'",
        "UPDATE approvers SET customer_ids = '[\"C009\"]' WHERE name = 'lan'",
    ],
)
async def test_an_approver_changed_by_hand_decides_nothing(shop: Shop, change: str):
    request = await shop.filed("A100")
    by = await shop.approver("lan")
    attack(shop.url, change)

    with pytest.raises(RecordChanged, match="audit verify"):
        await shop.approver("lan")
    with pytest.raises(RecordChanged):
        await shop.container.approvals().approve(request.id, by=by)
    assert (await shop.request(request.id)).status is RequestStatus.PENDING_APPROVAL


@pytest.mark.parametrize(
    "forged",
    [
        "level = 2",
        """limits = '{"VND":900000000}'""",
        "person_id = 'P-other'",
        "customer_ids = '[\"C009\"]'",
        """limits = '{"VND":5}', level = 2""",
    ],
)
async def test_a_change_by_us_does_not_sign_what_was_changed_by_hand(shop: Shop, forged: str):
    """It starts from what was signed last, which also puts the row right again."""
    before = await shop.read(lambda tx: tx.people.get("lan"))
    attack(shop.url, f"UPDATE approvers SET {forged} WHERE name = 'lan'")  # noqa: S608 - the attack

    await shop.container.approvers().set_limits("lan", {"VND": 5}, by=SYSTEM)

    after = await shop.read(lambda tx: tx.people.get("lan"))
    assert after == replace(before, limits={"VND": 5})
    await shop.approver("lan")
    assert await problems(shop) == ()


async def test_an_approver_made_by_hand_cannot_be_changed_into_ours(shop: Shop):
    attack(
        shop.url,
        "INSERT INTO approvers (name, person_id, level, limits, customer_ids, disabled) "
        "SELECT 'mallory', 'P-m', 9, limits, '[]', 0 FROM approvers WHERE name = 'huong'",
    )

    with pytest.raises(RecordChanged):
        await shop.container.approvers().set_disabled("mallory", disabled=False, by=SYSTEM)
    with pytest.raises(RecordChanged):
        await shop.approver("mallory")


async def test_a_disabled_approver_enabled_by_hand_decides_nothing(shop: Shop):
    request = await shop.filed("A100")
    attack(shop.url, "UPDATE approvers SET disabled = 0 WHERE name = 'dung'")

    with pytest.raises(RecordChanged):
        await shop.approver("dung")
    assert (await shop.request(request.id)).status is RequestStatus.PENDING_APPROVAL


async def test_an_approver_made_by_hand_decides_nothing(shop: Shop):
    attack(
        shop.url,
        "INSERT INTO approvers (name, person_id, level, limits, customer_ids, disabled) "
        "SELECT 'mallory', 'P-m', 9, limits, '[]', 0 FROM approvers WHERE name = 'huong'",
    )

    with pytest.raises(RecordChanged):
        await shop.approver("mallory")


async def test_a_policy_put_in_force_by_hand_is_not_the_law(shop: Shop):
    """Also one that was the law before: the newest signed activation decides."""
    attack(
        shop.url,
        "INSERT INTO policies (id, version, hash, body, valid_from) "
        "SELECT 'lax', 1, hash, body, valid_from FROM policies WHERE id = 'standard'",
        "INSERT INTO policy_activations (policy_id, version, activated_at, activated_by) "
        "SELECT 'lax', 1, activated_at, activated_by FROM policy_activations",
    )

    quoted = await shop.quote("A100")

    assert quoted.quotes == ()
    with pytest.raises(ConfigurationError, match="put in force by something else"):
        await shop.read(shop.container.policies().current)

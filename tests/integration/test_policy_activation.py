"""A policy that lets more money pass is the word of two persons; any other is one's."""

from typing import Any

import pytest

from support_agent.domain.errors import (
    ConfigurationError,
    DecisionRefused,
    InsufficientAuthority,
    NotProved,
    RecordChanged,
)
from support_agent.domain.people import Approver
from support_agent.domain.policy import Policy
from support_agent.domain.policy_change import raised_by
from support_agent.domain.reasons import Reason
from support_agent.services.policy_activation import Activation, Step
from tests.heart import add_approver, assert_sound, attack, change_approver, events, operator
from tests.kit import Shop


async def body_with(shop: Shop, *, newer: int = 1, **changes: Any) -> dict[str, Any]:
    """The sample's body with a newer version and other fields; `vnd` are limits."""
    stored = (await shop.read(lambda tx: tx.policies.list()))[0]
    body = dict(stored.body) | {"version": stored.version + newer}
    vnd = changes.pop("vnd", None)
    if vnd is not None:
        body["limits"] = {"VND": {**body["limits"]["VND"], **vnd}}
    return body | changes


def parsed(shop: Shop, body: dict[str, Any]) -> Policy:
    return shop.container.policies()._parse(body)


async def put(shop: Shop, body: dict[str, Any], who: str | None) -> Activation:
    by = await shop.approver(who) if who else operator("owner")
    activation = shop.container.policy_activation()
    policy = parsed(shop, body)
    return await shop.write(lambda tx: activation.put_in_force(tx, policy=policy, body=body, by=by))


async def newer(shop: Shop) -> int:
    """By how many versions the policy in force is newer than the sample's."""
    first = (await shop.read(lambda tx: tx.policies.list()))[0]
    return (await shop.read(lambda tx: tx.policies.in_force())).version - first.version


LAXER = {
    "automatic": {"vnd": {"auto": 200_001}},
    "a level": {"vnd": {"levels": [2_000_001, 20_000_000]}},
    "the top": {"vnd": {"levels": [2_000_000, 20_000_001]}},
    "fewer levels": {"vnd": {"levels": [20_000_000]}},
    "a top level that lower ones have": {"vnd": {"levels": [2_000_000]}},
    "more levels": {"vnd": {"levels": [2_000_000, 20_000_000, 30_000_000]}},
    "four eyes later": {"vnd": {"four_eyes_from": 10_000_001}},
    "four eyes never": {"vnd": {"four_eyes_from": None}},
    "a cap": {"vnd": {"auto_per_customer_day": 400_001}},
    "no cap": {"vnd": {"auto_per_installation_day": None}},
    "the approver's day": {"vnd": {"per_approver_day": None}},
    "the approver's day with one customer": {"vnd": {"per_pair_day": 20_000_001}},
    "a promotion that is kept": {"clawback": False},
    "a longer window": {"window_days": 31},
    "no window": {"window_days": None},
    "fewer exclusions": {"excluded_categories": ["underwear", "food", "cosmetics"]},
    "no limits at all": {"limits": {}},
}
STRICTER = {
    "automatic": {"vnd": {"auto": 199_999}},
    "levels": {"vnd": {"levels": [1_000_000, 20_000_000]}},
    "a lower top": {"vnd": {"levels": [1_000_000, 2_000_000]}},
    "four eyes sooner": {"vnd": {"four_eyes_from": 9_000_000}},
    "a cap": {"vnd": {"per_approver_day": 1}},
    "a shorter window": {"window_days": 7},
    "more exclusions": {"excluded_categories": ["underwear", "food", "cosmetics", "voucher", "x"]},
    "no shipping": {"shipping": "never"},
    "goods that have to come back": {"return_required": True},
    "fewer statuses": {"refundable_statuses": ["DELIVERED"]},
    "nothing": {},
}
TEXT = {"text": {"vi": "Hoàn tiền.", "en": "Refunds."}}  # names no limit that a case takes away


class TestWhatRaises:
    @pytest.mark.parametrize("changes", LAXER.values(), ids=LAXER.keys())
    async def test_each_way_of_letting_more_pass(self, shop, changes):
        before = parsed(shop, await body_with(shop, newer=0))
        after = parsed(shop, await body_with(shop, **changes, **TEXT))

        assert raised_by(before, after)

    @pytest.mark.parametrize("changes", STRICTER.values(), ids=STRICTER.keys())
    async def test_nothing_else_does(self, shop, changes):
        before = parsed(shop, await body_with(shop, newer=0))
        after = parsed(shop, await body_with(shop, **changes, **TEXT))

        assert raised_by(before, after) == ()

    async def test_what_was_strict_by_rule_and_no_longer_is(self, shop):
        lax = await body_with(shop)
        strict = lax | {"shipping": "never", "return_required": True}

        assert len(raised_by(parsed(shop, strict), parsed(shop, lax))) == 2

    async def test_a_currency_without_limits_that_gets_some(self, shop):
        body = await body_with(shop)
        usd = {**body["limits"]["VND"], "auto": 1, "levels": [2], "four_eyes_from": None}
        after = parsed(shop, body | {"limits": {**body["limits"], "USD": usd}})
        before = parsed(shop, body)

        assert "USD" in raised_by(before, after)[0]


class TestOnePerson:
    async def test_lowers_a_limit_alone(self, shop):
        body = await body_with(shop, vnd={"auto": 100_000})

        assert (await put(shop, body, None)).step is Step.ACTIVATED
        assert (await put(shop, body, None)).step is Step.UNCHANGED
        assert await newer(shop) == 1

    async def test_does_not_raise_one_without_proof(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000})

        with pytest.raises(NotProved, match="level 2"):
            await put(shop, body, None)
        assert await events(shop, "policy.proposed") == []

    async def test_does_not_raise_one_below_the_top_level(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000})

        with pytest.raises(InsufficientAuthority, match="level 2"):
            await put(shop, body, "lan")

    async def test_is_never_two(self, shop):
        other = Approver(name="huong2", person_id="P-HUONG", level=2, limits={"VND": 1})
        await add_approver(shop, other)
        body = await body_with(shop, vnd={"auto": 300_000})
        await put(shop, body, "huong")

        for name in ("huong", "huong2"):
            with pytest.raises(DecisionRefused) as caught:
                await put(shop, body, name)
            assert caught.value.reason is Reason.SECOND_PERSON_NEEDED
        assert await newer(shop) == 0


class TestTwoPersons:
    async def test_the_first_proposes_and_the_second_puts_it_in_force(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000})

        first = await put(shop, body, "huong")
        assert (first.step, first.others) == (Step.PROPOSED, ("tuan",))
        assert "200.000" in first.raised[0]
        assert await newer(shop) == 0
        second = await put(shop, body, "tuan")

        assert second.step is Step.ACTIVATED
        assert await newer(shop) == 1
        [proposed] = await events(shop, "policy.proposed")
        assert (proposed.subject, proposed.data["person"]) == ("policy", "P-HUONG")
        [*_, activated] = await events(shop, "policy.activated")
        assert activated.actor.id == "tuan"
        await assert_sound(shop)

    async def test_a_changed_file_starts_over(self, shop):
        await put(shop, await body_with(shop, vnd={"auto": 300_000}), "huong")

        other = await put(shop, await body_with(shop, vnd={"auto": 400_000}), "tuan")

        assert other.step is Step.PROPOSED
        assert await newer(shop) == 0

    async def test_a_proposal_against_an_earlier_policy_starts_over(self, shop):
        wanted = await body_with(shop, newer=2, vnd={"auto": 300_000})
        await put(shop, wanted, "huong")
        await put(shop, await body_with(shop, newer=1, vnd={"auto": 100_000}), None)

        assert (await put(shop, wanted, "tuan")).step is Step.PROPOSED
        assert (await put(shop, wanted, "huong")).step is Step.ACTIVATED

    async def test_the_word_of_one_who_was_disabled_counts_no_more(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000})
        await put(shop, body, "huong")
        await change_approver(shop, "huong", disabled=True)

        assert (await put(shop, body, "tuan")).step is Step.PROPOSED

    async def test_a_proposal_by_another_hand_counts_for_nothing(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000})
        await put(shop, body, "huong")
        attack(
            shop.url,
            "UPDATE audit_events SET data = replace(data, 'P-HUONG', 'P-TUAN') "
            "WHERE action = 'policy.proposed'",
        )

        for name in ("huong", "tuan"):
            with pytest.raises(RecordChanged):  # nothing in a broken history gives authority
                await put(shop, body, name)
        assert await newer(shop) == 0


class TestRefused:
    async def test_a_known_version_with_other_contents(self, shop):
        with pytest.raises(ConfigurationError, match="new version"):
            await put(shop, await body_with(shop, newer=0, vnd={"auto": 300_000}), "huong")

    async def test_one_that_is_not_valid_yet_is_not_even_proposed(self, shop):
        body = await body_with(shop, vnd={"auto": 300_000}, valid_from="2027-01-01T00:00:00+07:00")

        with pytest.raises(ConfigurationError, match="valid from"):
            await put(shop, body, "huong")
        assert await events(shop, "policy.proposed") == []

    async def test_a_policy_that_somebody_put_in_force_by_hand_is_replaced_by_two(self, shop):
        await put(shop, await body_with(shop, vnd={"auto": 100_000}), None)
        attack(
            shop.url,
            "UPDATE policies SET hash = 'x' WHERE version = (SELECT max(version) FROM policies)",
        )
        body = await body_with(shop, newer=2)

        assert (await put(shop, body, "huong")).step is Step.PROPOSED
        assert (await put(shop, body, "tuan")).step is Step.ACTIVATED
        assert await newer(shop) == 2

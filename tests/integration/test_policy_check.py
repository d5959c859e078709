"""Which requests a new policy would change, with the requests' own facts."""

from datetime import timedelta
from typing import Any

from support_agent.domain.policy import Verdict
from support_agent.services.policy_check import Effect, PolicyReport
from tests.heart import approved, change_order, pay
from tests.kit import Shop


async def compare(shop: Shop, *, days: int = 90, vnd: dict[str, Any] | None = None, **changes: Any):
    stored = await shop.read(lambda tx: tx.policies.in_force())
    body = dict(stored.body) | {"version": stored.version + 1}
    body["limits"] = {"VND": {**body["limits"]["VND"], **(vnd or {})}}
    policy = shop.container.policies()._parse(body | changes)
    return await shop.container.policy_check().compare(policy, days=days)


def only(report: PolicyReport) -> Effect:
    (effect,) = report.effects
    return effect


async def test_the_same_rules_change_nothing(shop):
    await shop.filed("A100")

    report = await compare(shop)

    assert (report.checked, report.effects, report.raised) == (1, (), ())


async def test_an_open_request_that_would_need_a_higher_level(shop):
    request = await shop.filed("A100")

    effect = only(await compare(shop, vnd={"levels": [249_999, 20_000_000]}))

    assert effect.request.id == request.id
    assert (effect.before.level, effect.after.level) == (1, 2)
    assert effect.before.verdict is effect.after.verdict


async def test_a_paid_one_that_would_have_been_automatic(shop):
    await pay(shop, await approved(shop, "A100"))

    report = await compare(shop, vnd={"auto": 250_000})

    assert (only(report).before.level, only(report).after.level) == (1, 0)
    assert "250.000" in report.raised[0]


async def test_one_that_would_need_a_second_person_or_would_be_refused(shop):
    await shop.filed("A100")

    assert only(await compare(shop, vnd={"four_eyes_from": 250_000})).after.approvals == 2
    refused = only(
        await compare(shop, vnd={"auto": 1_000, "levels": [2_000], "four_eyes_from": None})
    )
    assert refused.after.level is None


async def test_a_shorter_window_is_judged_as_of_filing_for_what_is_done(shop):
    """Filed on day 8; twenty days later it is still day 8 that counts."""
    await shop.filed("A102")  # delivered on the 5th, paid on the 13th
    shop.clock.advance(timedelta(days=20))

    assert only(await compare(shop, window_days=8)).after.verdict is Verdict.ELIGIBLE
    assert only(await compare(shop, window_days=7)).after.verdict is Verdict.INELIGIBLE


async def test_the_last_day_moves_with_the_window(shop):
    await shop.filed("A100")

    effect = only(await compare(shop, window_days=29))

    assert (str(effect.before.last_day), str(effect.after.last_day)) == ("2026-10-31", "2026-10-30")


async def test_past_ones_beyond_the_days_asked_for_are_left_out_and_open_ones_are_not(shop):
    await shop.filed("A102")
    waiting = await shop.filed("A100")
    shop.clock.advance(timedelta(days=2))

    report = await compare(shop, days=1, window_days=29)

    assert [effect.request.id for effect in report.effects] == [waiting.id]


async def test_an_order_that_is_no_longer_theirs_is_named(shop):
    await shop.filed("A100")
    await change_order(shop, "A100", customer_id="C002")

    report = await compare(shop, window_days=29)

    assert (report.missing, report.effects) == (("A100",), ())


async def test_it_changes_nothing(shop):
    await shop.filed("A100")
    before = await shop.read(lambda tx: tx.audit.head())

    await compare(shop, vnd={"auto": 250_000})

    assert await shop.read(lambda tx: tx.audit.head()) == before

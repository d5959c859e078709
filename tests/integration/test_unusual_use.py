"""Who is far above the usual: more than five times the median customer-day, and than a floor."""

from datetime import date, timedelta

import pytest

from support_agent.domain.runs import Usage
from support_agent.domain.usage import UsageAccount
from support_agent.services.usage_tasks import Threshold, UnusualRule, UnusualUse
from tests.heart import tasks
from tests.kit import Shop

DAY = date(2026, 10, 13)
NOTHING = Usage()


async def use(shop: Shop, customer: str, day: date, requests: int, tokens: int = 0) -> None:
    account = UsageAccount(conversation_id=f"con_{customer}", customer_id=customer, channel="cli")
    used = Usage(requests=requests, input_tokens=tokens)
    await shop.write(lambda tx: tx.usage.move(account, day, add=used, take=NOTHING))


def rule(shop: Shop, **changed: int) -> UnusualUse:
    values = {"factor": 5, "least_requests": 20, "least_tokens": 1000} | changed
    return UnusualUse(
        database=shop.container.database(),
        clock=shop.clock,
        zone=shop.container.terms().zone,
        rule=UnusualRule(**values),
    )


async def threshold(shop: Shop, **changed: int) -> Threshold:
    found: Threshold = await shop.read(lambda tx: rule(shop, **changed).threshold(tx, DAY))
    return found


async def test_without_a_past_the_floor_says_what_is_usual(shop: Shop):
    await use(shop, "C001", DAY, 500, 90_000)  # today is no past

    assert await threshold(shop) == Threshold(requests=20, tokens=1000)


async def test_with_a_past_it_is_a_multiple_of_the_median_of_thirty_days(shop: Shop):
    for customer, requests, tokens in (("C001", 3, 900), ("C002", 7, 300), ("C003", 90, 400)):
        await use(shop, customer, DAY - timedelta(days=30), requests, tokens)
    await use(shop, "C004", DAY - timedelta(days=31), 1_000, 1_000_000)
    await use(shop, "C005", DAY - timedelta(days=31), 1_000, 1_000_000)

    assert await threshold(shop) == Threshold(requests=35, tokens=2000)
    assert await threshold(shop, factor=10) == Threshold(requests=70, tokens=4000)
    assert await threshold(shop, least_requests=36) == Threshold(requests=36, tokens=2000)


async def test_who_was_refused_and_used_nothing_is_not_what_is_usual(shop: Shop):
    day = DAY - timedelta(days=1)
    await use(shop, "C001", day, 10, 900)
    for refused in ("C002", "C003", "C004"):
        await use(shop, refused, day, 0)

    assert await threshold(shop) == Threshold(requests=50, tokens=4500)


@pytest.mark.parametrize(
    ("requests", "tokens", "told"),
    [(20, 1000, []), (21, 0, ["C001"]), (1, 1001, ["C001"])],
)
async def test_staff_is_told_of_who_is_above(shop: Shop, requests: int, tokens: int, told):
    await use(shop, "C001", DAY, requests, tokens)
    await use(shop, "C002", DAY, 20, 1000)

    assert await rule(shop).tell() == len(told)
    assert [task.subject for task in await tasks(shop, "usage.unusual")] == told


async def test_a_customer_is_one_task_a_day_and_a_day_that_just_ended_is_not_forgotten(shop: Shop):
    await use(shop, "C001", DAY, 21)
    unusual = rule(shop)

    made = [await unusual.tell(), await unusual.tell()]
    shop.clock.advance(timedelta(days=1))
    await use(shop, "C002", DAY, 30)  # counted before midnight, after the last tick
    made += [await unusual.tell()]
    await use(shop, "C001", DAY + timedelta(days=1), 200)
    made += [await unusual.tell()]
    shop.clock.advance(timedelta(days=2))
    made += [await unusual.tell()]

    assert made == [1, 0, 1, 1, 0]
    assert {task.id for task in await tasks(shop, "usage.unusual")} == {
        "task_usage.unusual_C001_2026-10-13",
        "task_usage.unusual_C002_2026-10-13",
        "task_usage.unusual_C001_2026-10-14",
    }

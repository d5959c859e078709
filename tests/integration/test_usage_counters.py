"""Counters of use on SQLite and PostgreSQL: held before a call, settled after it, never passed."""

import asyncio
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.errors import ConfigurationError, InvalidInput
from support_agent.domain.runs import Usage
from support_agent.domain.usage import (
    Allowance,
    Hold,
    Measure,
    OverBudget,
    Scope,
    UsageAccount,
)
from support_agent.ports.storage import UsageFilter
from support_agent.services.usage import UsageMeter
from support_agent.testing.clock import FixedClock
from tests.kit import TODAY

ZONE = ZoneInfo("Asia/Ho_Chi_Minh")
DAY = date(2026, 10, 13)
AN = UsageAccount(conversation_id="con_1", customer_id="C001", channel="cli")
NOTHING = Usage()


def use(requests: int = 1, tokens: int = 0, cost: int = 0) -> Usage:
    """Two thirds of the tokens went in."""
    out = tokens // 3
    return Usage(requests=requests, input_tokens=tokens - out, output_tokens=out, cost_micros=cost)


def meter(clock: FixedClock | None = None, **limits: Allowance) -> UsageMeter:
    allowances = {scope: limits[scope] for scope in Scope if scope in limits}
    return UsageMeter(allowances=allowances, clock=clock or FixedClock(TODAY), zone=ZONE)


async def exchange(database: SqlDatabase, metering: UsageMeter, account=AN, **amounts):
    amounts = {"held": None, "spent": NOTHING, "ahead": None} | amounts
    return await database.transact(lambda tx: metering.exchange(tx, account, **amounts))


async def counted(
    database: SqlDatabase, scope: Scope = Scope.CUSTOMER, subject: str = "C001", day=DAY
) -> Usage | None:
    where = UsageFilter(scope=scope, subject=subject, day=day)
    page = await database.read(lambda tx: tx.usage.list(where, limit=10, cursor=None))
    return page.data[0].usage if page.data else None


async def test_a_call_is_counted_for_everyone_before_it_is_made_and_set_right_after(database):
    everyone = (
        *((Scope.CONVERSATION, "con_1", None), (Scope.CUSTOMER, "C001", DAY)),
        *((Scope.CHANNEL, "cli", DAY), (Scope.INSTALLATION, "installation", DAY)),
    )

    held = await exchange(database, meter(), ahead=use(tokens=3000, cost=70))

    assert held == Hold(usage=use(tokens=3000, cost=70), day=DAY)
    for scope, subject, day in everyone:
        assert await counted(database, scope, subject, day) == use(tokens=3000, cost=70)

    again = await exchange(
        database, meter(), held=held, spent=use(tokens=900, cost=20), ahead=use(tokens=600)
    )
    for scope, subject, day in everyone:
        assert await counted(database, scope, subject, day) == use(2, tokens=1500, cost=20)

    assert await exchange(database, meter(), held=again, spent=use(tokens=300, cost=9)) is None
    for scope, subject, day in everyone:
        assert await counted(database, scope, subject, day) == use(2, tokens=1200, cost=29)


async def test_nothing_to_count_leaves_no_row(database):
    assert await exchange(database, meter()) is None
    assert await counted(database, Scope.INSTALLATION, "installation") is None


async def test_somebody_unknown_is_counted_without_a_customer(database):
    nobody = UsageAccount(conversation_id="con_9", customer_id=None, channel="web")

    await exchange(database, meter(customer=Allowance(requests=1)), nobody, ahead=use(7))

    assert await counted(database, Scope.CONVERSATION, "con_9", None) == use(7)
    assert await counted(database, Scope.CHANNEL, "web") == use(7)
    page = await database.read(
        lambda tx: tx.usage.list(UsageFilter(scope=Scope.CUSTOMER), limit=10, cursor=None)
    )
    assert page.data == ()


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(
    ("limit", "measure", "call"),
    [
        (Allowance(requests=3), Measure.REQUESTS, use()),
        (Allowance(tokens=3000), Measure.TOKENS, use(0, tokens=1000)),
        (Allowance(cost_micros=30), Measure.COST, use(0, cost=10)),
    ],
)
async def test_each_limit_of_each_scope_is_reached_and_not_passed(
    database, scope: Scope, limit: Allowance, measure: Measure, call: Usage
):
    metering = meter(**{scope: limit})
    held = None
    for _ in range(3):
        held = await exchange(
            database, metering, held=held, spent=held.usage if held else NOTHING, ahead=call
        )
        assert isinstance(held, Hold)

    over = await exchange(database, metering, held=held, spent=call, ahead=call)

    most = {Measure.REQUESTS: 3, Measure.TOKENS: 3000, Measure.COST: 30}[measure]
    assert over == OverBudget(scope=scope, measure=measure, limit=most)
    three = call + call + call
    assert await counted(database) == three  # what was spent stays, nothing is held
    assert await counted(database, Scope.INSTALLATION, "installation") == three


async def test_what_was_held_before_midnight_is_settled_on_its_own_day(database):
    clock = FixedClock(datetime(2026, 10, 13, 16, 59, tzinfo=UTC))  # 23:59 in Vietnam
    metering = meter(clock)
    held = await exchange(database, metering, ahead=use(tokens=3000))
    clock.advance(timedelta(minutes=2))

    new = await exchange(
        database, metering, held=held, spent=use(tokens=900), ahead=use(tokens=1500)
    )

    tomorrow = DAY + timedelta(days=1)
    assert new == Hold(usage=use(tokens=1500), day=tomorrow)
    assert await counted(database) == use(tokens=900)
    assert await counted(database, day=tomorrow) == use(tokens=1500)
    whole_life = await counted(database, Scope.CONVERSATION, "con_1", None)
    assert whole_life == use(2, tokens=2400)


async def test_a_new_day_gives_new_room_but_the_conversation_has_one_life(database):
    clock = FixedClock(TODAY)
    limits = {"customer": Allowance(requests=1), "conversation": Allowance(requests=2)}
    metering = meter(clock, **limits)
    outcomes = []
    for _ in range(3):
        outcomes.append(await exchange(database, metering, ahead=use()))
        clock.advance(timedelta(days=1))

    assert [type(outcome) for outcome in outcomes] == [Hold, Hold, OverBudget]
    assert outcomes[2].scope is Scope.CONVERSATION


async def test_two_conversations_of_one_customer_share_the_day(database):
    metering = meter(customer=Allowance(tokens=1000))
    other = UsageAccount(conversation_id="con_2", customer_id="C001", channel="web")
    stranger = UsageAccount(conversation_id="con_3", customer_id="C002", channel="web")

    first = await exchange(database, metering, ahead=use(tokens=600))
    second = await exchange(database, metering, other, ahead=use(tokens=600))
    third = await exchange(database, metering, stranger, ahead=use(tokens=600))

    assert isinstance(first, Hold)
    assert second == OverBudget(scope=Scope.CUSTOMER, measure=Measure.TOKENS, limit=1000)
    assert isinstance(third, Hold)


async def test_a_counter_that_somebody_reset_does_not_fall_below_zero(database):
    held = await exchange(database, meter(), ahead=use(5, tokens=3000))
    await database.transact(lambda tx: tx.usage.move(AN, DAY, add=NOTHING, take=use(5, 3000)))

    await exchange(database, meter(), held=held, spent=use(tokens=300))

    assert await counted(database) == NOTHING


async def test_forty_calls_at_once_against_a_limit_of_seven_are_seven(database):
    metering = meter(installation=Allowance(requests=7))

    async def one(number: int) -> str:
        account = UsageAccount(
            conversation_id=f"con_{number}", customer_id=f"C{number % 3}", channel="cli"
        )
        return type(await exchange(database, metering, account, ahead=use(tokens=30))).__name__

    outcomes = Counter(await asyncio.gather(*map(one, range(40))))

    assert outcomes == {"Hold": 7, "OverBudget": 33}
    assert await counted(database, Scope.INSTALLATION, "installation") == use(7, tokens=210)


def test_a_budget_below_one_call_stops_the_start_and_names_the_variable():
    call = use(tokens=3000, cost=5)
    metering = meter(conversation=Allowance(tokens=2999), customer=Allowance(requests=1))

    with pytest.raises(ConfigurationError) as raised:
        metering.check(call)

    assert raised.value.setting == "SUPPORT_AGENT_BUDGETS__CONVERSATION_TOKENS"
    meter(conversation=Allowance(tokens=3000), customer=Allowance(requests=1)).check(call)


@pytest.fixture
async def month(database: SqlDatabase) -> SqlDatabase:
    """Three customers on two days."""
    used = {"C001": (3, 900), "C002": (5, 300), "C003": (4, 900)}

    def fill(tx):
        for day in (DAY - timedelta(days=1), DAY):
            for customer, (requests, tokens) in used.items():
                account = UsageAccount(
                    conversation_id=f"con_{customer}", customer_id=customer, channel="cli"
                )
                tx.usage.move(account, day, add=use(requests, tokens), take=NOTHING)

    await database.transact(fill)
    return database


@pytest.mark.parametrize(
    ("by", "order"),
    [
        (Measure.TOKENS, ["C001", "C003", "C002"]),
        (Measure.REQUESTS, ["C002", "C003", "C001"]),
        (Measure.COST, ["C001", "C002", "C003"]),
    ],
)
async def test_the_top_of_a_day_is_paged_by_what_is_asked_for(month, by: Measure, order):
    found, cursor = [], None
    for _ in order:
        page = await month.read(lambda tx, at=cursor: tx.usage.top(DAY, by, limit=1, cursor=at))
        found += [count.subject for count in page.data]
        cursor = page.next_cursor

    assert found == order
    assert cursor is None


async def test_days_are_listed_newest_first_and_a_foreign_cursor_is_refused(month):
    where = UsageFilter(scope=Scope.INSTALLATION, subject="installation")
    first = await month.read(lambda tx: tx.usage.list(where, limit=1, cursor=None))
    rest = await month.read(lambda tx: tx.usage.list(where, limit=5, cursor=first.next_cursor))

    assert [(c.day, c.usage) for c in (*first.data, *rest.data)] == [
        (DAY, use(12, 2100)),
        (DAY - timedelta(days=1), use(12, 2100)),
    ]
    assert rest.next_cursor is None
    with pytest.raises(InvalidInput):
        await month.read(
            lambda tx: tx.usage.top(DAY, Measure.COST, limit=1, cursor=first.next_cursor)
        )


async def test_the_median_is_that_of_customer_days_in_the_window(month):
    def median(measure: Measure, since: date, before: date):
        return month.read(lambda tx: tx.usage.median(measure, since=since, before=before))

    yesterday = DAY - timedelta(days=1)
    assert await median(Measure.REQUESTS, yesterday, DAY) == 4
    assert await median(Measure.TOKENS, yesterday, DAY) == 900
    assert await median(Measure.TOKENS, DAY + timedelta(days=1), DAY + timedelta(days=9)) == 0

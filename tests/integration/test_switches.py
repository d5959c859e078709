"""Kill switches: what stands in the row counts only while the signed history says the same."""

import pytest

from support_agent.ports.storage import SwitchName
from tests.heart import assert_sound, attack, events, operator, problems

PAYOUTS = SwitchName.PAYOUTS
AUTO = SwitchName.AUTO_APPROVAL


async def turn(shop, name, *, on: bool, by: str = "owner") -> bool:
    board = shop.container.switchboard()
    return await shop.write(lambda tx: board.turn(tx, name, on=on, by=operator(by)))


async def is_on(shop, name) -> bool:
    board = shop.container.switchboard()
    return await shop.read(lambda tx: board.is_on(tx, name))


@pytest.mark.parametrize("name", list(SwitchName))
async def test_a_switch_that_nobody_touched_is_on(shop, name):
    assert await is_on(shop, name)


async def test_turning_one_leaves_the_other_and_is_audited(shop):
    assert await turn(shop, PAYOUTS, on=False, by="thu")

    assert not await is_on(shop, PAYOUTS)
    assert await is_on(shop, AUTO)
    [event] = await events(shop, "switch.changed")
    assert (event.subject, event.actor.id) == ("payouts", "thu")
    assert event.data == {
        "on": "false",
        "by": "thu",
        "changed_at": shop.clock.now().isoformat(),
    }
    await assert_sound(shop)


@pytest.mark.parametrize("before", [(), (False, True)])
async def test_turning_it_on_when_it_is_on_changes_nothing(shop, before):
    for on in before:
        await turn(shop, PAYOUTS, on=on)

    assert not await turn(shop, PAYOUTS, on=True)

    assert len(await events(shop, "switch.changed")) == len(before)


async def test_pausing_twice_is_pausing_once(shop):
    assert await turn(shop, PAYOUTS, on=False)
    assert not await turn(shop, PAYOUTS, on=False, by="other")
    assert await turn(shop, PAYOUTS, on=True)
    assert await is_on(shop, PAYOUTS)


HANDS = {
    "a row somebody turned on": "UPDATE switches SET is_on = 1",
    "a row with another moment": "UPDATE switches SET changed_at = '2026-01-01 00:00:00.000000'",
    "a row with another name": "UPDATE switches SET changed_by = 'somebody'",
    "a row that is gone": "DELETE FROM switches",
}


@pytest.mark.parametrize("statement", HANDS.values(), ids=HANDS.keys())
async def test_a_hand_in_the_database_does_not_turn_it_on(shop, statement):
    await turn(shop, PAYOUTS, on=False)

    attack(shop.url, statement)

    assert not await is_on(shop, PAYOUTS)
    assert await problems(shop) == ("switch 'payouts' is not what its history says",)


@pytest.mark.parametrize("on", [0, 1])
async def test_a_row_that_no_event_speaks_of_is_off(shop, on):
    row = ("payouts", on, "2026-10-13 00:00:00.000000", "eve")
    attack(shop.url, ("INSERT INTO switches VALUES (?, ?, ?, ?)", row))

    assert not await is_on(shop, PAYOUTS)


@pytest.mark.parametrize("statement", HANDS.values(), ids=HANDS.keys())
async def test_turning_it_makes_a_row_that_was_changed_ours_again(shop, statement):
    await turn(shop, PAYOUTS, on=False)
    attack(shop.url, statement)

    assert await turn(shop, PAYOUTS, on=True)

    assert await is_on(shop, PAYOUTS)

"""A conversation is taken over from an owner that was thought dead and was not: it stores nothing."""

import pytest

from tests.crashes import let_leases_end
from tests.heart import assert_sound
from tests.killed_turns import asked_in, ticks, work_off
from tests.owners import Owner, agreed, owner_of
from tests.places import Places
from tests.stored import everything


@pytest.fixture(scope="module")
def template(places: Places) -> tuple[str, str]:
    """A shop with a conversation in which a quote was shown and answered; nobody has read it yet."""
    return agreed(places)


class Two:
    """The older owner is held back somewhere, the younger takes over and comes to the end."""

    def __init__(self, older: Owner, younger: Owner, conversation: str) -> None:
        self.older, self.younger = older, younger
        self.conversation = conversation

    async def take_over_at(self, number: int) -> bool:
        """False when the turn has no such commit."""
        self.older.stops_at(number)
        if not await self.older.starts(self.older.agent.work(self.conversation)):
            return False
        await let_leases_end(self.younger.shop)
        assert await self.younger.agent.work(self.conversation) is None
        return True

    async def stored(self) -> dict[str, list[str]]:
        return await self.younger.shop.container.database().run_read(everything)


async def told_alone(places: Places, template: tuple[str, str]) -> tuple[dict[str, list[str]], int]:
    """What is stored in the end when one owner does it all, and in how many commits."""
    url = places.copy(template[0])
    async with owner_of(url, places.folder / "alone.notes") as owner:
        first = owner.database.begun
        await work_off(owner.shop, template[1])
        commits = owner.database.begun - first
        await ticks(owner.shop, template[1])
        stored = await owner.shop.container.database().run_read(everything)
    places.drop(url)
    return stored, commits


MONEY = (
    *("quotes", "refund_requests", "refund_decisions", "refund_attempts", "ledger_entries"),
    *("ledger_payouts", "order_balances", "payment_balances", "cap_counters", "tasks"),
)
OF_THE_TURN = ("runs", "steps", "tool_calls")


async def test_whatever_the_older_owner_was_about_to_store_is_refused(places, template):
    """At each commit of a turn with a refund in it; what it may still do is end its payout."""
    alone, commits = await told_alone(places, template)
    assert commits > 6

    for number in range(commits):
        url, notes = places.copy(template[0]), places.folder / f"two.{number}.notes"
        async with owner_of(url, notes) as older, owner_of(url, notes) as younger:
            two = Two(older, younger, template[1])
            if not await two.take_over_at(number):
                raise AssertionError(f"the turn has no commit {number}")
            then = await two.stored()
            agents = [text for text in then["messages"] if '"author": "agent"' in text]

            assert await older.goes_on() is None, number
            await ticks(younger.shop, template[1])
            end = await two.stored()
            await assert_sound(younger.shop)

        places.drop(url)
        assert {name: then[name] for name in OF_THE_TURN} == {
            name: end[name] for name in OF_THE_TURN
        }, number
        assert agents == [text for text in end["messages"] if '"author": "agent"' in text], number
        assert {name: end[name] for name in MONEY} == {name: alone[name] for name in MONEY}, number
        assert sum("Đã hoàn 120.000" in text for text in end["messages"]) == 1, end["messages"]
        assert max(asked_in(str(notes))) <= 2, number

"""What streams tell, looked at between any two commits: each thing once, and none left out."""

from typing import Any

import pytest

from support_agent.api.events import RunPlace, RunStory, TalkPlace, TalkStory
from tests.killed_turns import work_off
from tests.owners import Died, Owner, agreed, end_everything, owner_of
from tests.places import Places


@pytest.fixture(scope="module")
def agreed_shop(places: Places) -> tuple[str, str]:
    """A conversation in which a quote was answered with a yes; nobody has read that yet."""
    return agreed(places)


class Follower:
    """Follows a conversation and its newest run; at each look it comes back with the last id."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.talk: list[Any] = []
        self.runs: dict[str, list[Any]] = {}

    async def look(self, owner: Owner) -> None:
        read = owner.shop.container.database().read
        while True:
            last = self.talk[-1].id if self.talk else None
            told = await read(TalkStory(self.conversation, TalkPlace.read(last)).look)
            self.talk += told.events
            if not told.more:
                break
        for run in await read(
            lambda tx: tx.runs.list(conversation_id=self.conversation, limit=9, before=None)
        ):
            heard = self.runs.setdefault(run.id, [])
            last = heard[-1].id if heard else None
            heard += (await read(RunStory(run.id, RunPlace.read(last), for_staff=True).look)).events

    @property
    def told(self) -> list[Any]:
        """Without the epochs in the ids, which a take-over changes."""
        return [
            *((event.name, getattr(event.data, "seq", None) or _run(event)) for event in self.talk),
            *(
                (run, event.name, "" if event.name == "done" else event.id)
                for run, heard in sorted(self.runs.items())
                for event in heard
            ),
        ]


def _run(event: Any) -> tuple[str, str]:
    return event.data.id, event.data.phase


async def told_at_once(url: str, places: Places, conversation: str) -> list[Any]:
    follower = Follower(conversation)
    async with owner_of(url, places.folder / "look.notes") as owner:
        await follower.look(owner)
    return follower.told


async def test_whenever_it_is_looked_at_the_same_is_told(places, agreed_shop):
    url, conversation = places.copy(agreed_shop[0]), agreed_shop[1]
    follower = Follower(conversation)
    async with owner_of(url, places.folder / "live.notes") as owner:

        async def look(_: int) -> None:
            await follower.look(owner)

        owner.database.before = look
        await work_off(owner.shop, conversation)
        await look(0)
    (run, *_) = sorted(follower.runs, reverse=True)
    assert [event.name for event in follower.runs[run]] == ["step", "observation", "step", "done"]
    assert follower.told == await told_at_once(url, places, conversation)
    places.drop(url)


async def test_a_run_that_others_go_on_with_is_told_of_as_one(places, agreed_shop):
    """Its process dies at any of its commits; who follows it has seen all there was by then."""
    conversation = agreed_shop[1]
    for number in (1, 3, 6) if agreed_shop[0].startswith("sqlite") else (3,):
        url, notes = places.copy(agreed_shop[0]), places.folder / f"dies.{number}.notes"
        follower = Follower(conversation)
        async with owner_of(url, notes) as owner:
            owner.dies_at(number)
            with pytest.raises(Died):
                await work_off(owner.shop, conversation)
            owner.database.dead = False
            await follower.look(owner)
        await end_everything(url, notes, conversation)
        async with owner_of(url, notes) as last:
            await follower.look(last)
        assert follower.told == await told_at_once(url, places, conversation), number
        places.drop(url)

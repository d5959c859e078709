"""Faults sown on purpose that what is looked at after each step of the interleavings has to catch."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support_agent.adapters.db.stores.runs import SqlRuns
from support_agent.agent.loop import AgentLoop
from support_agent.services import filing
from support_agent.services.consent import consent_to
from support_agent.services.refunds import RefundLife
from tests.killed_turns import WANTS_SMALL, message
from tests.kit import copy_database, open_shop
from tests.places import places_in
from tests.talk_world import CONVERSATIONS, TalkWorld

WANTS = WANTS_SMALL


@pytest.fixture
def world(template: Path, tmp_path: Path) -> Iterator[TalkWorld]:
    url = copy_database(template, tmp_path / "first.db")

    async def enter() -> str:
        async with open_shop(url) as shop:
            desk, binding = shop.container.desk(), message(WANTS, None).binding
            entered = await desk.enter(binding, conversation_id=None, first_text=WANTS)
            return entered.id

    conversations = (asyncio.run(enter()),) * CONVERSATIONS
    with places_in(tmp_path, None) as places:
        opened = TalkWorld(places, places.copy(url), conversations)
        yield opened
        opened.close()


def everything_wrong(world: TalkWorld) -> list[str]:
    try:
        world.ends()
    except AssertionError as never:
        return [str(never)]
    return world.broken(at_the_end=True)


def dies_deciding(world: TalkWorld) -> None:
    world.agrees(0, WANTS)
    world.dies(0, 2)


def is_overtaken_paying(world: TalkWorld) -> None:
    """The gateway was told, and our books do not know what it did."""
    world.agrees(0, WANTS)
    world.sleeps(0, 4)
    world.leases_end()
    world.works(0)


def agrees_too_early(world: TalkWorld) -> None:
    world.agrees_too_early(0, WANTS, 3)
    world.works(0)


def no_orphan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqlRuns, "take_over", lambda *_, **__: None)


def open_calls_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def forget(_: AgentLoop, state) -> None:
        state.left_open = None

    monkeypatch.setattr(AgentLoop, "_finish_step", forget)


def nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefundLife, "tell_unless_stated", lambda *_: None)


def any_yes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was said before the quote was shown."""
    monkeypatch.setattr(
        filing, "consent_to", lambda tx, quote: consent_to(tx, replace(quote, shown_seq=1))
    )


Sown = Callable[[pytest.MonkeyPatch], None]
FAULTS: dict[str, tuple[Sown, Callable[[TalkWorld], None]]] = {
    "never comes to an end": (no_orphan_is_found, dies_deciding),
    "was never answered": (open_calls_are_forgotten, dies_deciding),
    "the customer was told": (nobody_tells, is_overtaken_paying),
    "nobody had said yes": (any_yes_counts, agrees_too_early),
}


@pytest.mark.parametrize("says", FAULTS)
def test_a_fault_that_is_sown_is_caught(world: TalkWorld, monkeypatch, says: str):
    sow, story = FAULTS[says]
    sow(monkeypatch)

    story(world)

    assert any(says in wrong for wrong in everything_wrong(world))


@pytest.mark.parametrize("says", FAULTS)
def test_the_same_story_without_the_fault_breaks_nothing(world: TalkWorld, says: str):
    _, story = FAULTS[says]

    story(world)

    assert everything_wrong(world) == []

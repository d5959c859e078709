"""A process that answers a customer is killed at every commit: in the end nobody can tell."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from tests.killed_turns import (
    ANSWERED,
    ASKED,
    DECIDED,
    STORIES,
    WAITED_FOR,
    message,
    said,
    said_in_between,
)
from tests.kit import open_shop
from tests.places import Places
from tests.stored import differences
from tests.workers import run_once, run_together

CORES = 2
AT_ONCE = 16  # databases that are there
POSTED = "after Agent.post.post"
PAYING, PAID = "after Payouts._try", "after Outcomes.answered"  # in between a payout is under way


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A story told to its end: the points it has, and what is stored then."""

    points: list[str]
    end: dict[str, Any]


class Matrix:
    """One story, told once to its end and once to each of its points, each time on a copy."""

    def __init__(self, places: Places, empty: tuple[str, str], story: str) -> None:
        self._places = places
        self._template, self._conversation = empty
        self._story = story
        self.told = self._tell()

    def _tell(self) -> Told:
        (job,) = self._jobs([None])
        points, (end,) = run_once(job), run_once(rest([job]))
        self._places.drop(job["url"])
        return Told(points=points, end=end)

    def _jobs(self, points: list[int | None]) -> list[dict[str, Any]]:
        return [
            {
                "do": "play_turns",
                "url": (url := self._places.copy(self._template)),
                "notes": f"{self._places.folder / url.rsplit('/', 1)[1]}.notes",
                "conversation": self._conversation,
                "story": self._story,
                "at": point,
            }
            for point in points
        ]

    def ends(self, points: list[int]) -> dict[int, dict[str, Any]]:
        """What is stored in the end, after a death at each of the points."""
        ends: dict[int, dict[str, Any]] = {}
        for first in range(0, len(points), AT_ONCE):
            some = points[first : first + AT_ONCE]
            jobs = self._jobs(list(some))
            for few in (jobs[i : i + CORES] for i in range(0, len(jobs), CORES)):
                assert run_together(few) == [None] * len(few)  # nobody came to the end
            halves = run_together([rest(jobs[i::CORES]) for i in range(CORES)])
            for core, found in enumerate(halves):
                ends |= dict(zip(some[core::CORES], found, strict=True))
            self._places.drop(*(job["url"] for job in jobs))
        return dict(sorted(ends.items()))


def rest(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """What another process does for each of them, one after the other."""
    kept = ("url", "notes", "conversation", "story")
    return {"do": "recover_turns", "each": [{key: job[key] for key in kept} for job in jobs]}


@pytest.fixture(scope="module")
def empty(places: Places) -> tuple[str, str]:
    """A shop with a conversation in which nobody has said anything, and its id."""
    url = places.shop()

    async def enter() -> str:
        async with open_shop(url) as shop:
            first = message("Xin chào", None)
            desk = shop.container.desk()
            entered = await desk.enter(first.binding, conversation_id=None, first_text=first.text)
            return entered.id

    return url, asyncio.run(enter())


def deaths(points: list[str], story: str, *, both_sides: bool) -> list[int]:
    """In each commit and after it, and where an answer of the model is not kept yet.

    What is stored after a commit is what is stored in the next one, so one side is enough where the
    other has been tried. Of what both stories begin with, so is one of them.
    """
    sides = ("in ", "after ") if both_sides else ("in ", "after gateway refund")
    first = points.index(POSTED) if story == "approved" else 0
    return [
        number
        for number, point in enumerate(points)
        if number > first and (point.startswith(sides) or point == ANSWERED)
    ]


def is_lost(points: list[str], at: int) -> bool:
    """Whether the model had been asked, and its answer was not stored, when the process died."""
    before = [point for point in points[: at + 1] if point in {ASKED, DECIDED}]
    return bool(before) and before[-1] == ASKED


def is_under_way(points: list[str], at: int) -> bool:
    """Whether the gateway may have paid, and our books did not know of it."""
    return PAYING in points[: at + 1] and PAID not in points[: at + 1]


def wrong(story: str, told: Told, at: int, end: dict[str, Any]) -> list[str]:
    """What is not as it is when nobody dies."""
    found = [
        f"{name}: {told.end[name]} -> {end[name]}"
        for name in ("refunds", "due", "books", "history")
        if end[name] != told.end[name]
    ]
    asked = told.end["asked"]
    times = sum(asked) + is_lost(told.points, at)
    if (len(end["asked"]), sum(end["asked"])) != (len(asked), times):
        found.append(f"the model was asked {end['asked']} times")
    free = {"outbox"} if story == WAITED_FOR else set()  # nobody waits for the dead: it is sent
    expected = said(told.end["stored"])
    if is_under_way(told.points, at):  # the clockwork ends it, and a notice tells of that
        free |= {"outbox", "audit_events", "conversations", "messages"}
        expected = said_in_between(expected)
    if said(end["stored"]) != expected:
        found.append(f"said: {expected} -> {said(end['stored'])}")
    return found + differences(told.end["stored"], end["stored"], but=free)


@pytest.mark.parametrize("story", STORIES)
def test_whoever_is_killed_at_any_commit_the_conversation_ends_as_if_nobody_was(
    places, empty, story
):
    matrix = Matrix(places, empty, story)
    told = matrix.told
    both_sides = empty[0].startswith("sqlite") and story != WAITED_FOR
    points = deaths(told.points, story, both_sides=both_sides)
    assert len(points) >= (35 if both_sides else 15)

    ends = matrix.ends(points)

    problems = {at: wrong(story, told, at, end) for at, end in ends.items()}
    assert {f"{at} {told.points[at]}": found for at, found in problems.items() if found} == {}

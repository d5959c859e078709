"""Whatever customers, workers, approvers and clocks do, in any order: each message is answered once."""

import asyncio
import os
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.killed_turns import message
from tests.kit import open_shop
from tests.places import Places
from tests.talk_world import CONVERSATIONS, TEXTS, WANTS, TalkWorld

# More than CI takes: SUPPORT_AGENT_TEST_EXAMPLES=500 for an afternoon.
EXAMPLES = int(os.environ.get("SUPPORT_AGENT_TEST_EXAMPLES", "9"))
STEPS = 15 if EXAMPLES < 100 else 40
PHASES = set(Phase) - ({Phase.shrink, Phase.explain} if EXAMPLES < 100 else set())

which = st.integers(0, CONVERSATIONS - 1)
text = st.sampled_from(TEXTS)
wants = st.sampled_from(WANTS)
commit = st.integers(0, 9)
number = st.integers(0, 7)


class Talk(RuleBasedStateMachine):
    """Rules do what may happen; after each, everything that must hold by then is looked at."""

    places: Places
    template: tuple[str, tuple[str, ...]]

    @initialize(first=wants)
    def opened(self, first):
        url, conversations = self.template
        self.world = TalkWorld(self.places, self.places.copy(url), conversations)
        self.world.agrees(0, first)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            self.world.ends()
            assert self.world.broken(at_the_end=True) == []
        finally:
            self.world.close()

    @invariant()
    def nothing_is_broken(self):
        assert self.world.broken() == []

    @rule(which=which, text=text, with_id=st.booleans(), dies=st.sampled_from([False, False, True]))
    def says(self, which, text, with_id, dies):
        self.world.says(which, text, with_id=with_id, dies=dies)

    @rule(which=which, text=wants)
    def agrees(self, which, text):
        """So that there is enough of what money depends on."""
        self.world.agrees(which, text)

    @rule(which=which, number=number)
    def delivers_again(self, which, number):
        self.world.delivers_again(which, number)

    @rule(which=which)
    def works(self, which):
        self.world.works(which)

    @rule(which=which, number=commit)
    def dies(self, which, number):
        self.world.dies(which, number)

    @rule(which=which, number=commit)
    def sleeps(self, which, number):
        self.world.sleeps(which, number)

    @rule(which=which, number=commit)
    def is_stopped(self, which, number):
        self.world.is_stopped(which, number)

    @rule(number=number)
    def wakes_up(self, number):
        self.world.wakes_up(number)

    @rule(which=which)
    def is_taken_over(self, which):
        self.world.leases_end()
        self.world.works(which)

    @rule(which=which, text=wants, number=commit)
    def agrees_too_early(self, which, text, number):
        self.world.agrees_too_early(which, text, number)
        self.world.works(which)

    @rule(which=which, text=wants, first=commit, second=commit)
    def is_taken_over_twice(self, which, text, first, second):
        """The first owner goes on while the second, too, is in the middle of it."""
        self.world.agrees(which, text)
        for number in (first, second):
            self.world.sleeps(which, number)
            self.world.leases_end()
        self.world.wakes_up(-2)

    @rule(which=which, text=wants, number=commit, dies=st.booleans())
    def agrees_and_is_taken_over(self, which, text, number, dies):
        """From an owner that is dead, or only sleeps."""
        self.world.agrees(which, text)
        if dies:
            self.world.dies(which, number)
        else:
            self.world.sleeps(which, number)
        self.is_taken_over(which)

    @rule(number=number, how=st.sampled_from(["approve", "approve", "reject"]))
    def decides(self, number, how):
        self.world.decides(number, how)

    @rule(hours=st.sampled_from([0.2, 0.2, 80]))
    def time_passes(self, hours):
        self.world.waits(hours)
        self.world.ticks()


@pytest.fixture(scope="module")
def template(places: Places) -> tuple[str, tuple[str, ...]]:
    """A shop with conversations in which nobody has said anything."""
    url = places.shop()

    async def enter() -> tuple[str, ...]:
        async with open_shop(url) as shop:
            binding = message("Chào shop", None).binding
            desk = shop.container.desk()
            return tuple(
                [
                    (await desk.enter(binding, conversation_id=None, first_text="Chào shop")).id
                    for _ in range(CONVERSATIONS)
                ]
            )

    return url, asyncio.run(enter())


def test_whatever_happens_each_message_is_answered_once_and_in_order(places, template):
    machine = type("TalkHere", (Talk,), {"places": places, "template": template})

    run_state_machine_as_test(
        machine,
        settings=settings(
            # A server takes three times as long, and differs in what races do, not in stories.
            max_examples=EXAMPLES if template[0].startswith("sqlite") else EXAMPLES // 3,
            stateful_step_count=STEPS,
            phases=PHASES,
            deadline=timedelta(minutes=1),
            suppress_health_check=list(HealthCheck),
        ),
    )

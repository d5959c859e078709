"""Whatever happens to refunds, in any order: no promise about money is broken. On both databases."""

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

from support_agent.ports.events import EventKind
from support_agent.ports.payments import GatewayStatus
from support_agent.testing.gateway import Act
from tests.money_world import APPROVERS, ORDERS, World
from tests.places import Places
from tests.promises import EDITS, Promises, paid_more_after

# More than CI takes: SUPPORT_AGENT_TEST_EXAMPLES=500 for an afternoon.
EXAMPLES = int(os.environ.get("SUPPORT_AGENT_TEST_EXAMPLES", "10"))
STEPS = 25 if EXAMPLES < 100 else 50
# Shrinking a world takes minutes: only for whoever asked for more than CI takes.
PHASES = set(Phase) - ({Phase.shrink, Phase.explain} if EXAMPLES < 100 else set())

order = st.sampled_from(sorted(ORDERS))
amount = st.one_of(st.none(), st.sampled_from([1, 54_000, 200_000, 200_001, 300_000, 2_000_000]))
which = st.integers(0, 7)
name = st.sampled_from(APPROVERS)
share = st.sampled_from([1, 50, 99, 100])
hows = st.sampled_from(["approve", "approve", "approve", "reject", "reduce", "ask"])
# All but those that never answer: a test would wait for the time-out.
act = st.sampled_from([act for act in Act if act not in {Act.HANG_BEFORE, Act.HANG_AFTER}])


class Money(RuleBasedStateMachine):
    """Rules do what may happen; after each, every promise is looked at."""

    places: Places
    template: str

    @initialize(told=st.lists(st.tuples(order, amount, act), min_size=3, max_size=3))
    def opened(self, told) -> None:
        self.world = World(self.places, self.places.copy(self.template))
        self.promises = Promises(self.world)
        self.world.file("A400", 300_000)
        for story in told:
            self.file_approve_and_pay(*story)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.promises.broken() == []

    @rule(order=order, amount=amount)
    def file(self, order, amount):
        self.world.file(order, amount)

    @rule(order=order, amount=amount, act=act)
    def file_approve_and_pay(self, order, amount, act):
        """So that there is enough of what the other rules need."""
        self.world.file(order, amount)
        for name in ("huong", "tuan"):
            self.world.decide(-1, name, "approve", 100)
        self.world.pay(-1, act)

    @rule(order=order, amount=amount, name=st.one_of(name, st.just("op")))
    def file_by_staff(self, order, amount, name):
        self.world.file_by_staff(order, amount, name)

    @rule(number=which, name=name, how=hows, share=share)
    def decide(self, number, name, how, share):
        self.world.decide(number, name, how, share)

    @rule(number=which)
    def cancel(self, number):
        self.world.cancel(number)

    @rule(number=which, act=act)
    def pay(self, number, act):
        self.world.pay(number, act)

    @rule(act=act, hours=st.sampled_from([0.02, 0.2, 25]))
    def reconcile(self, act, hours):
        self.world.wait(hours=hours)
        self.world.reconcile(act)

    @rule(hours=st.sampled_from([0.2, 5, 25, 73]))
    def tick(self, hours):
        self.world.wait(hours=hours)
        self.world.tick()

    @rule(number=which, name=name)
    def retry_or_resolve(self, number, name):
        self.world.retry(number)
        self.world.resolve(number, name)

    @rule(business=st.sampled_from([0, 0, -30, 30]), database=st.sampled_from([0, 0, -24, 24]))
    def set_clocks_wrong(self, business, database):
        self.world.set_clocks_wrong(business=business, database=database)

    @rule(number=which, status=st.sampled_from([GatewayStatus.SUCCEEDED, GatewayStatus.FAILED]))
    def settle(self, number, status):
        self.world.settle(number, status)

    @rule(order=order, share=share, number=which, how=st.sampled_from(["outside", "lose"]))
    def surprise(self, order, share, number, how):
        if how == "lose":
            self.world.lose(number)
        else:
            self.world.refund_outside(order, share)

    @rule(order=order, kind=st.sampled_from([kind for kind in EventKind if "dispute" in kind]))
    def dispute(self, order, kind):
        self.world.dispute(order, kind)

    @rule(number=which, old=st.booleans())
    def receive(self, number, old):
        self.world.receive(number, old=old)

    @rule(number=which, edit=st.sampled_from(sorted(EDITS)))
    def write_by_hand(self, number, edit):
        """In a world of its own, which is forgotten: it cannot be made good."""
        assert paid_more_after(self.world, edit, number) == []

    @rule(back=st.booleans())
    def keep_a_copy_or_put_it_back(self, back):
        if back and self.world.backup is not None:
            self.world.restore()
            self.promises.forget()
        else:
            self.world.keep_a_copy()


@pytest.fixture(scope="module")
def template(places: Places) -> str:
    return places.shop()


def test_whatever_happens_no_promise_is_broken(places, template):
    machine = type("MoneyHere", (Money,), {"places": places, "template": template})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            phases=PHASES,
            deadline=timedelta(minutes=1),
            suppress_health_check=list(HealthCheck),
        ),
    )

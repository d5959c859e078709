"""Stories that chance finds too seldom, and faults sown on purpose that the promises have to catch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from support_agent.domain.refunds import RequestStatus
from support_agent.ports.payments import GatewayRefund, RefundInstruction
from support_agent.testing.gateway import Act
from tests.money_world import Greedy, World
from tests.places import Places
from tests.promises import Promises

S = RequestStatus


@pytest.fixture(scope="module")
def template(places: Places) -> str:
    return places.shop()


@pytest.fixture
def world(places: Places, template: str) -> Iterator[World]:
    opened = World(places, places.copy(template))
    yield opened
    opened.close()


def broken(world: World) -> list[str]:
    return Promises(world).broken()


def approve_all(world: World) -> None:
    for name in ("huong", "tuan"):
        world.decide(-1, name, "approve", 100)


def test_a_database_set_back_to_before_the_payout_pays_no_second_time(world: World):
    """Also when the gateway has forgotten the key, and people approve whatever they are shown."""
    world.file("A400", 300_000)
    approve_all(world)
    world.keep_a_copy()
    world.pay(-1)
    world.restore()
    assert world.requests()[-1].status is S.APPROVED

    for hours in (0.2, 25, 25, 25):
        world.wait(hours=hours)
        world.tick()
        approve_all(world)
        world.pay(-1)
        assert broken(world) == []
    assert world.gateway.paid_for(world.requests()[-1].id) == 300_000


def test_a_database_set_back_to_before_the_approval_pays_no_second_time(world: World):
    world.file("A400", 300_000)
    world.keep_a_copy()
    approve_all(world)
    world.pay(-1)
    world.restore()
    assert world.requests()[-1].status is S.PENDING_APPROVAL

    for hours in (25, 20, 20):
        world.wait(hours=hours)
        approve_all(world)
        world.pay(-1)
        approve_all(world)
        world.pay(-1)
        assert broken(world) == []


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_database_clock_that_is_off_sends_nothing_again(world: World, hours):
    world.file("A400", 300_000)
    approve_all(world)
    world.pay(-1, Act.LOSE_ANSWER)
    world.gateway._made[-1].lost = True  # so that only the age is left to go by
    world.wait(hours=25)
    world.set_clocks_wrong(database=hours)

    world.reconcile()

    assert len(world.gateway.sent) == 1
    assert world.requests()[-1].status is S.MANUAL_REVIEW


# Faults, each of a kind that was found in somebody's refund code.


class NewKeyEachTime(Greedy):
    """The key is made where it is sent, so that a retry is another refund."""

    calls = 0

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        self.calls += 1
        key = f"{instruction.key}:{self.calls}"
        answer = await super().refund(replace(instruction, key=key))
        return replace(answer, key=instruction.key)


def new_key_each_time(world: World) -> None:
    world.gateway.__class__ = NewKeyEachTime


def no_attempt_is_kept(world: World) -> None:
    """It calls the gateway from what it read, and keeps nothing when the answer is lost."""
    payouts = world.shop.container.payouts()

    async def blind(request_id: str, *, notify: bool = True) -> Any:
        request, _ = await payouts._database.read(lambda tx: payouts._seen(tx, request_id))
        attempt = payouts._attempt(request, world.now)
        attempt = replace(attempt, key=f"refund:{request.id}:{len(world.gateway.sent)}")
        return await payouts._sending.send(attempt, notify=notify)

    payouts.pay = blind


def silence_is_failure(world: World) -> None:
    outcomes = world.shop.container.outcomes()
    outcomes.unknown = lambda attempt, *, notify: outcomes.declined(
        attempt, code="timeout", notify=notify
    )


def history_is_not_told(world: World) -> None:
    world.shop.container.life()._record = lambda *_: None


def settling_is_not_booked(world: World) -> None:
    life = world.shop.container.life()
    book = life._book

    def forgetful(tx: Any, request: Any, moved: Any, effect: Any) -> Any:
        return None if moved.status is S.REFUNDED else book(tx, request, moved, effect)

    life._book = forgetful


@pytest.mark.parametrize(
    ("sow", "says"),
    [
        (new_key_each_time, "may have paid"),
        (no_attempt_is_kept, "may have paid"),
        (silence_is_failure, "is FAILED and 300000 was paid for it"),
        (history_is_not_told, "the history tells"),
        (settling_is_not_booked, "outside"),
    ],
)
def test_a_fault_that_is_sown_is_caught(world: World, sow: Callable[[World], None], says: str):
    sow(world)

    found: list[str] = []
    world.file("A400", 300_000)
    for step in (
        lambda: approve_all(world),
        lambda: world.pay(-1, Act.LOSE_ANSWER),
        lambda: world.wait(minutes=10),
        lambda: world.pay(-1),
        world.tick,
    ):
        step()
        found += broken(world)

    assert any(says in wrong for wrong in found), found


def test_the_same_story_without_a_fault_breaks_nothing(world: World):
    world.file("A400", 300_000)
    approve_all(world)
    world.pay(-1, Act.LOSE_ANSWER)
    world.wait(minutes=10)
    world.tick()

    assert broken(world) == []
    assert world.requests()[-1].status is S.REFUNDED

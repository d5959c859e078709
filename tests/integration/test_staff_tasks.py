"""Staff tasks: done once, by somebody who is named; and those of what is unclear for too long."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.domain.errors import TaskAlreadyDone, TaskNotFound
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.storage import Task
from support_agent.services.overdue import LASTS_TOO_LONG, find_overdue, overdue_tasks
from support_agent.testing.gateway import Act
from tests.heart import (
    assert_sound,
    calls,
    change_request,
    events,
    open_shop_with,
    operator,
    simulator,
    tasks,
)
from tests.kit import Shop

S = RequestStatus


async def done(shop: Shop, task_id: str, by: str = "thu") -> Task:
    return await shop.container.hand_off_desk().finish(task_id, by=operator(by))


async def handed_off(shop: Shop) -> str:
    """A conversation that a person took over."""
    result = await shop.say("cho tôi gặp nhân viên", calls("hand_off", reason="asked for it"))
    return result.conversation_id


class TestDone:
    async def test_it_leaves_the_list_and_says_who_did_it(self, shop):
        await handed_off(shop)
        [task] = await tasks(shop, "hand_off")
        shop.clock.advance(timedelta(hours=1))

        finished = await done(shop, task.id)

        assert (finished.done_by, finished.done_at) == ("thu", shop.clock.now())
        assert await tasks(shop, "hand_off") == []
        [event] = await events(shop, "task.done")
        assert (event.subject, event.actor.id) == (task.id, "thu")
        assert event.data == {"kind": "hand_off", "subject": task.subject}
        await assert_sound(shop)

    async def test_a_second_time_it_says_by_whom_and_when(self, shop):
        await handed_off(shop)
        [task] = await tasks(shop, "hand_off")
        first = await done(shop, task.id)
        shop.clock.advance(timedelta(hours=1))

        with pytest.raises(TaskAlreadyDone, match="thu") as caught:
            await done(shop, task.id, "hai")

        assert (caught.value.by, caught.value.at) == ("thu", first.done_at)
        assert len(await events(shop, "task.done")) == 1

    @pytest.mark.parametrize("task_id", ["task_no", "", "\0"])
    async def test_an_unknown_one_is_not_found(self, shop, task_id):
        with pytest.raises(TaskNotFound):
            await done(shop, task_id)


class TestHandOff:
    async def test_one_that_is_done_gives_the_conversation_back_to_the_agent(self, shop):
        talk = await handed_off(shop)
        silent = await shop.say("còn đó không?", conversation=talk)
        assert silent.stop_reason == "handed_off"
        [task] = await tasks(shop, "hand_off")

        await done(shop, task.id)
        answered = await shop.say("cảm ơn", {"answer": "Chào bạn."}, conversation=talk)

        assert answered.stop_reason == "answered"
        [event] = await events(shop, "conversation.given_back")
        assert (event.subject, event.actor.id, event.data["task"]) == (talk, "thu", task.id)

    async def test_and_can_be_handed_off_again(self, shop):
        talk = await handed_off(shop)
        [task] = await tasks(shop, "hand_off")
        await done(shop, task.id)

        await shop.say("gặp nhân viên", calls("hand_off", reason="again"), conversation=talk)

        [again] = await tasks(shop, "hand_off")
        assert (again.subject, again.id != task.id) == (talk, True)

    async def test_any_other_task_of_the_conversation_leaves_it_with_the_person(self, shop):
        talk = await handed_off(shop)
        other = Task(
            id="task_x",
            kind="payout_problem",
            subject="req_x",
            conversation_id=talk,
            created_at=shop.clock.now(),
        )
        await shop.write(lambda tx: tx.tasks.add(other))

        await done(shop, "task_x")

        conversation = await shop.read(lambda tx: tx.conversations.get(talk))
        assert conversation.handed_off


class DatabaseClock:
    """The database's own clock, as far ahead as a test says."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self, connection) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def database_clock() -> DatabaseClock:
    return DatabaseClock()


@pytest.fixture
async def unclear(shop_url: str, keys, database_clock) -> AsyncIterator[Shop]:
    """A shop whose gateway leaves A102 in doubt and A103 pending, and does not know A204's key."""
    gateway = simulator()
    gateway.will(Act.LOSE_ANSWER, Act.PENDING, Act.REFUSE_KEY)
    async with open_shop_with(shop_url) as seeded:
        database = SqlDatabase(shop_url, seeded.container.keys(), now=database_clock)
        parts = {"gateway": gateway, "database": database}
        async with open_shop_with(shop_url, overrides=parts) as shop:
            for order_id, customer in (("A102", "C001"), ("A103", "C001"), ("A204", "C002")):
                await shop.filed(order_id, customer=customer)
            yield shop
        await database.aclose()


async def overdue(shop: Shop) -> dict[str, str]:
    found = await shop.read(find_overdue)
    statuses = {}
    for one in found:
        request = await shop.request(one.request_id)
        statuses[request.order_id] = str(one.status)
    return statuses


class TestOverdue:
    @pytest.mark.parametrize(
        ("ahead", "expected"),
        [
            (timedelta(minutes=55), {}),
            (timedelta(minutes=65), {"A102": "IN_DOUBT"}),
            (timedelta(hours=25), {"A102": "IN_DOUBT", "A204": "MANUAL_REVIEW"}),
            (
                timedelta(days=11),
                {"A102": "IN_DOUBT", "A204": "MANUAL_REVIEW", "A103": "PROVIDER_PENDING"},
            ),
        ],
    )
    async def test_each_state_has_its_own_time_by_the_databases_clock(
        self, unclear, database_clock, ahead, expected
    ):
        database_clock.ahead = ahead

        assert await overdue(unclear) == expected

    async def test_business_time_alone_makes_nothing_overdue(self, unclear):
        unclear.clock.advance(timedelta(days=30))

        assert await overdue(unclear) == {}

    async def test_each_gets_one_task_with_a_due_time(self, unclear, database_clock):
        database_clock.ahead = timedelta(days=11)
        database = unclear.container.database()

        made = [await overdue_tasks(database, unclear.clock) for _ in range(2)]

        assert made == [3, 0]
        for status in LASTS_TOO_LONG:
            [task] = await tasks(unclear, f"still_{status.lower()}")
            assert task.due_at == unclear.clock.now() + timedelta(hours=24)

    async def test_looking_changes_nothing(self, unclear, database_clock):
        database_clock.ahead = timedelta(days=11)
        before = await unclear.read(lambda tx: tx.audit.head())

        await overdue(unclear)

        assert await unclear.read(lambda tx: tx.audit.head()) == before
        assert await tasks(unclear, "still_in_doubt") == []

    async def test_what_has_moved_meanwhile_gets_none(self, unclear, database_clock):
        database_clock.ahead = timedelta(hours=2)
        await unclear.container.payouts().reconcile()

        assert await overdue(unclear) == {}

    async def test_a_row_that_cannot_be_read_keeps_no_other_waiting(self, unclear, database_clock):
        database_clock.ahead = timedelta(days=11)
        [first, *_] = await unclear.read(find_overdue)
        change_request(unclear, first.request_id, "lines = 'x'")

        assert await overdue_tasks(unclear.container.database(), unclear.clock) == 2

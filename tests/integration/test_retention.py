"""Retention: what is old and over goes, class by class; what is open, new or in the books stays."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from support_agent.adapters.db.migrations import exclusive
from support_agent.domain.errors import ConversationNotFound
from support_agent.ports.storage import InboxEntry, Task
from support_agent.services import retention
from support_agent.services.inbox import Incoming
from support_agent.settings.sections import RetentionSettings
from tests.catalogue import rows_of
from tests.heart import assert_sound, calls, events
from tests.kit import Shop, binding_of, open_shop

YEAR = timedelta(days=366)


async def let_go(shop: Shop, after: timedelta = YEAR) -> dict[str, int]:
    shop.clock.advance(after)
    return dict(await shop.container.retention().run())


async def texts(shop: Shop, conversation: str) -> list[str]:
    messages = await shop.read(lambda tx: tx.conversations.messages(conversation))
    return [message.text for message in messages]


async def test_a_quiet_conversation_loses_its_texts_and_keeps_its_shape(shop_on_each: Shop):
    shop = shop_on_each
    told = await shop.say(
        "Đơn A100 của tôi đâu?", calls("lookup_order", order_id="A100"), {"answer": "Đã giao."}
    )

    gone = await let_go(shop)

    assert gone["CONVERSATIONS"] == 1
    assert await texts(shop, told.conversation_id) == ["", ""]
    (looked, answered) = await shop.read(lambda tx: tx.runs.steps(told.run_id))
    (call,) = looked.calls
    assert (call.call.name, call.call.arguments) == ("lookup_order", "")
    assert (call.observation.ok, call.observation.content) == (True, "")
    assert answered.decision.text == ""
    assert (await let_go(shop, timedelta(0))) == {}


async def test_the_history_says_that_they_went_by_themselves(shop: Shop):
    await shop.say("Xin chào")

    await let_go(shop)

    (event,) = await events(shop, "retention.applied")
    assert (event.actor.id, event.data["count"]) == ("system", "1")
    await assert_sound(shop)


async def test_it_counts_from_the_last_message(shop: Shop):
    told = await shop.say("Xin chào")
    shop.clock.advance(timedelta(days=300))
    await shop.say("Còn đó không?", conversation=told.conversation_id)

    assert "CONVERSATIONS" not in await let_go(shop, timedelta(days=364))
    assert (await let_go(shop, timedelta(days=2)))["CONVERSATIONS"] == 1


async def test_a_conversation_that_was_let_go_is_closed(shop: Shop):
    told = await shop.say("Xin chào")
    await let_go(shop)

    with pytest.raises(ConversationNotFound):
        await shop.say("Còn đó không?", conversation=told.conversation_id)
    assert await events(shop, "access.denied") == []


class TestWhatStays:
    async def test_while_a_request_of_the_customer_is_open(self, shop_on_each: Shop):
        shop = shop_on_each
        request = await shop.filed("A100")

        assert "CONVERSATIONS" not in await let_go(shop)

        await shop.container.life().expire_due(shop.container.database())
        assert "CONVERSATIONS" not in await let_go(shop, timedelta(0))  # the customer was told
        assert (await let_go(shop))["CONVERSATIONS"] == 1
        assert (await shop.request(request.id)).status == "EXPIRED"

    async def test_while_a_task_is_open_or_a_person_has_it(self, shop: Shop):
        told = await shop.say("Xin chào")
        task = Task(
            id="task_1",
            kind="unusual",
            subject="C001",
            conversation_id=told.conversation_id,
            created_at=shop.clock.now(),
        )
        await shop.write(lambda tx: tx.tasks.add(task))
        await shop.write(lambda tx: tx.conversations.hand_off(told.conversation_id))

        assert "CONVERSATIONS" not in await let_go(shop)
        await shop.write(lambda tx: tx.tasks.finish("task_1", by="thu", at=shop.clock.now()))
        assert "CONVERSATIONS" not in await let_go(shop)
        await shop.write(lambda tx: tx.conversations.give_back(told.conversation_id))
        assert (await let_go(shop))["CONVERSATIONS"] == 1

    async def test_while_something_is_unread(self, shop: Shop):
        await shop.container.agent().post(Incoming(text="Alo", binding=binding_of("C001")))

        assert "CONVERSATIONS" not in await let_go(shop)

    async def test_the_books(self, shop_on_each: Shop):
        shop = shop_on_each
        await shop.filed("A102")
        before = rows_of(shop.url)

        await let_go(shop, timedelta(days=4_000))

        after = rows_of(shop.url)
        for table in ("ledger_entries", "refund_requests", "refund_decisions", "refund_attempts"):
            assert len(before[table]) > 1
            assert after[table] == before[table]
        assert after["audit_events"][: len(before["audit_events"])] == before["audit_events"]

    async def test_everything_where_no_days_are_set(self, shop_url):
        never = dict.fromkeys(RetentionSettings.model_fields, 0)
        async with open_shop(shop_url, retention=never) as shop:
            await shop.say("Please answer in English.")

            assert await let_go(shop, timedelta(days=36_000)) == {}


async def test_what_is_remembered_goes_with_the_last_conversation(shop: Shop):
    await shop.say("Please answer in English.")
    shop.clock.advance(timedelta(days=200))
    await shop.say("Where is A100?")

    gone = await let_go(shop, timedelta(days=200))
    assert (gone["CONVERSATIONS"], gone.get("PREFERENCES")) == (1, None)
    gone = await let_go(shop, timedelta(days=200))
    assert (gone["CONVERSATIONS"], gone["PREFERENCES"]) == (1, 1)
    assert await shop.read(lambda tx: tx.preferences.of("C001")) == ()


async def test_events_that_were_delivered_go_and_those_that_wait_stay(shop_on_each: Shop):
    shop = shop_on_each

    def add(tx) -> None:
        for key in ("told", "waits"):
            tx.outbox.add("test.done", key=key, body={"id": key}, at=shop.clock.now())

    await shop.write(add)
    with exclusive(shop.url) as connection:
        delivered = "UPDATE outbox SET delivered_at = created_at WHERE key = 'told'"
        connection.execute(sa.text(delivered))

    assert (await let_go(shop, timedelta(days=29))) == {}
    assert (await let_go(shop, timedelta(days=2)))["DELIVERIES"] == 1
    columns, *rows = rows_of(shop.url)["outbox"]
    assert [row[columns.index("key")] for row in rows] == ["waits"]


async def test_provider_events_and_counters_of_days_go_in_their_time(shop_on_each: Shop):
    shop = shop_on_each
    now = shop.clock.now()
    entry = InboxEntry(
        event_id="evt_1",
        gateway="stripe",
        kind="refund.updated",
        subject="re_1",
        created_at=now,
        received_at=now,
        outcome="booked",
    )
    await shop.write(lambda tx: tx.inbox.add(entry))
    told = await shop.say("Xin chào")
    counted = rows_of(shop.url)["usage_counters"]

    assert "PROVIDER_EVENTS" not in await let_go(shop, timedelta(days=89))
    assert (await let_go(shop, timedelta(days=2)))["PROVIDER_EVENTS"] == 1
    assert await shop.read(lambda tx: tx.inbox.get("stripe", "evt_1")) is None
    assert rows_of(shop.url)["usage_counters"] == counted
    gone = await let_go(shop, timedelta(days=400))
    assert gone["USAGE"] == len([row for row in counted[1:] if told.conversation_id not in row])
    assert rows_of(shop.url)["usage_counters"][1:] == []


async def test_a_run_of_it_is_bounded_and_the_next_goes_on(shop: Shop, monkeypatch):
    for name in ("PAGE", "MOST_PAGES"):
        monkeypatch.setattr(retention, name, 2)
    for _ in range(5):
        await shop.say("Xin chào")

    assert (await let_go(shop))["CONVERSATIONS"] == 4
    assert (await let_go(shop, timedelta(0)))["CONVERSATIONS"] == 1
    assert await let_go(shop, timedelta(0)) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"conversation_days": -1},
        {"conversation_days": "a year"},
        {"usage_days": 30},
        {"provider_event_days": 1},
        {"books_days": 10},
    ],
)
def test_days_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RetentionSettings(**wrong)


async def test_it_is_one_of_the_things_that_happen_by_themselves(shop: Shop):
    await shop.say("Xin chào")
    shop.clock.advance(YEAR)
    (chore,) = [one for one in shop.container.chores() if one.name == "retention"]

    assert (await chore.run())["CONVERSATIONS"] == 1

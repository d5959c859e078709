"""The outbox on its way out: in order, at least once to a channel, and past whatever fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
import structlog

from support_agent.domain.conversation import Author
from support_agent.ports.storage import Transaction
from support_agent.services.delivery import CALL_STAFF_AT, MOST_TRIES, UNDELIVERED
from support_agent.services.outgoing import send_later
from tests.heart import operator, tasks
from tests.kit import Shop, seed
from tests.outgoing import Customers, Outside, later, open_outside, rows


@pytest.fixture
async def outside(shop_url: str) -> AsyncIterator[Outside]:
    async with open_outside(shop_url) as opened:
        yield opened


async def talk_of(shop: Shop, *texts: str, customer: str = "C001") -> str:
    """A conversation with messages of staff that are to leave."""
    talk = (await shop.say("xin chào", customer=customer)).conversation_id
    for text in texts:
        await write(shop, talk, text)
    return talk


async def write(shop: Shop, talk: str, text: str) -> int:
    def add(tx: Transaction) -> int:
        now = shop.clock.now()
        seq = tx.conversations.append(talk, author=Author.STAFF, text=text, at=now, run_id=None)
        send_later(tx, talk, seq, at=now)
        return seq

    return await shop.write(add)


class TestWhatLeaves:
    async def test_a_message_leaves_with_what_a_channel_needs(self, outside: Outside):
        talk = await talk_of(outside.shop, "Đang kiểm tra.")

        assert await outside.deliver() == 1

        [sent] = outside.customers.sent
        assert sent.id == f"{talk}:3"
        assert (sent.channel, sent.account, sent.external_contact) == ("cli", "local", "C001")
        assert (sent.conversation_id, sent.seq, sent.text) == (talk, 3, "Đang kiểm tra.")
        assert sent.language == "vi"

    async def test_it_leaves_once(self, outside: Outside):
        await talk_of(outside.shop, "một")

        await outside.deliver()
        await outside.all_out()

        assert outside.customers.texts == ["một"]

    async def test_an_answer_somebody_waited_for_does_not(self, outside: Outside):
        await outside.shop.say("xin chào")

        await outside.all_out()

        assert outside.customers.sent == []

    async def test_the_outbox_holds_ids_and_no_text(self, outside: Outside):
        talk = await talk_of(outside.shop, "Số tài khoản của bạn?")

        [row] = await rows(outside.shop)

        assert (row.topic, row.key) == ("conversation.message", f"{talk}:3")
        assert row.body == {"conversation_id": talk, "seq": "3"}

    async def test_events_that_nobody_reads_are_over_without_being_sent(self, outside: Outside):
        shop = outside.shop
        await shop.filed("A102")  # pays itself
        at = shop.clock.now()
        await shop.write(lambda tx: tx.outbox.add("other.thing", key="x", body={}, at=at))

        assert await outside.deliver() == 0

        assert {row.topic for row in await rows(shop)} >= {"refund.refunded", "other.thing"}
        assert all(row.delivered_at for row in await rows(shop))
        assert outside.customers.tried == []

    async def test_customers_of_a_channel_without_an_adapter_read_in_the_conversation(
        self, shop_url: str
    ):
        async with open_outside(shop_url) as outside:
            outside.shop.container.customer_channels().clear()
            await talk_of(outside.shop, "một")

            assert await outside.deliver() == 0

            assert all(row.delivered_at for row in await rows(outside.shop))
            assert await tasks(outside.shop, UNDELIVERED) == []


class TestAChannelThatIsDown:
    async def test_messages_wait_in_order_and_all_arrive(self, outside: Outside):
        talk = await talk_of(outside.shop, "một", "hai", "ba")
        outside.customers.fails = lambda _: True
        for _ in range(3):
            await outside.deliver_later()
        assert outside.customers.tried == [f"{talk}:3"] * 3

        outside.customers.fails = lambda _: False
        await outside.all_out()

        assert outside.customers.texts == ["một", "hai", "ba"]

    async def test_what_comes_after_waits_too(self, outside: Outside):
        talk = await talk_of(outside.shop, "một")
        outside.customers.fails = lambda _: True
        await outside.deliver()
        await write(outside.shop, talk, "hai")
        outside.customers.fails = lambda _: False

        await outside.deliver()  # the pause is not over
        assert outside.customers.texts == []
        await outside.deliver_later()

        assert outside.customers.texts == ["một", "hai"]

    async def test_other_conversations_do_not_wait(self, outside: Outside):
        bad = await talk_of(outside.shop, "một")
        await talk_of(outside.shop, "hai", customer="C002")
        outside.customers.fails = lambda message: message.conversation_id == bad

        await outside.deliver()

        assert outside.customers.texts == ["hai"]

    async def test_its_pauses_grow(self, outside: Outside):
        await talk_of(outside.shop, "một")
        outside.customers.fails = lambda _: True
        pauses = []
        for _ in range(3):
            before = await outside.shop.read(lambda tx: tx.database_now())
            await outside.deliver_later()
            [row] = await rows(outside.shop)
            pauses.append(round((row.retry_at - before.timestamp()) / 5))

        assert pauses == [1, 2, 4]

    async def test_in_the_end_a_person_is_called_and_later_it_is_given_up(self, outside: Outside):
        talk = await talk_of(outside.shop, "một", "hai")
        outside.customers.fails = lambda message: message.text == "một"
        for _ in range(CALL_STAFF_AT - 1):
            await outside.deliver_later()
        assert await tasks(outside.shop, UNDELIVERED) == []

        await outside.deliver_later()
        [task] = await tasks(outside.shop, UNDELIVERED)
        assert (task.subject, task.conversation_id) == (talk, talk)
        assert outside.customers.sent == []

        for _ in range(MOST_TRIES - CALL_STAFF_AT):
            await outside.deliver_later()
        await outside.all_out()
        assert outside.customers.texts == ["hai"]
        assert len(outside.customers.tried) == MOST_TRIES + 1
        assert len(await tasks(outside.shop, UNDELIVERED)) == 1


class TestBadEvents:
    async def test_one_that_cannot_be_read_keeps_no_other(self, outside: Outside):
        shop = outside.shop
        talk = await talk_of(shop)
        at = shop.clock.now()
        for key, body in (("bad:1", {"conversation_id": "con_bad"}), ("bad:2", {})):
            await shop.write(
                lambda tx, key=key, body=body: tx.outbox.add(
                    "conversation.message", key=key, body=body, at=at
                )
            )
        await write(shop, talk, "một")

        await outside.deliver()

        assert outside.customers.texts == ["một"]
        waiting = [row.key for row in await rows(shop) if row.delivered_at is None]
        assert waiting == ["bad:1", "bad:2"]

    async def test_a_customers_own_words_are_not_sent_back(self, outside: Outside):
        talk = await talk_of(outside.shop)
        at = outside.shop.clock.now()
        await outside.shop.write(lambda tx: send_later(tx, talk, 1, at=at))

        await outside.all_out()

        assert outside.customers.tried == []

    async def test_a_bug_in_a_channel_is_tried_again_like_an_outage(self, outside: Outside):
        await talk_of(outside.shop, "một")

        def break_down(_: object) -> bool:
            raise RuntimeError("a bug")

        outside.customers.fails = break_down
        assert await outside.deliver() == 0
        outside.customers.fails = lambda _: False
        await outside.deliver_later()

        assert outside.customers.texts == ["một"]


async def test_what_is_erased_between_claim_and_sending_is_not_sent_and_no_fault(
    outside: Outside,
):
    await talk_of(outside.shop, "một")
    delivery = outside.shop.container.delivery()
    (claimed,) = await outside.shop.write(delivery._claim)
    await outside.shop.container.privacy().erase("C001", by=operator("thu"))

    with structlog.testing.capture_logs() as logs:
        await delivery._deliver(claimed)

    assert outside.customers.tried == []
    assert logs == []


class TestSeveralWorkers:
    """On each database, two containers stand for two processes: they share nothing else."""

    @pytest.fixture
    async def both(self, database_url: str) -> AsyncIterator[tuple[Outside, Outside]]:
        await seed(database_url)
        customers = Customers()
        async with (
            open_outside(database_url, customers=customers) as first,
            open_outside(database_url, customers=customers) as second,
        ):
            yield first, second

    async def test_each_message_leaves_once_and_in_order(self, both: Sequence[Outside]):
        shop = both[0].shop
        talks = [await talk_of(shop, *map(str, range(4))) for _ in range(12)]

        for _ in range(4):  # one that finds nothing for itself leaves the rest to the other
            await asyncio.gather(*(one.deliver() for one in (*both, *both)))

        sent = both[0].customers.ids
        assert len(sent) == len(set(sent)) == 48
        for talk in talks:
            assert [id_ for id_ in sent if id_.startswith(talk)] == [
                f"{talk}:{seq}" for seq in range(3, 7)
            ]

    async def test_one_that_died_between_sending_and_saying_so_sends_the_same_id_again(
        self, both: Sequence[Outside]
    ):
        dying, other = both
        talk = await talk_of(dying.shop, "một", "hai")
        out = dying.customers.hangs_after = asyncio.Event()
        delivering = asyncio.create_task(dying.deliver())
        await out.wait()
        delivering.cancel()
        await asyncio.wait([delivering])
        dying.customers.hangs_after = None

        assert await other.deliver() == 0  # the lease of the dead one runs
        await later(other.shop)
        assert await other.deliver() == 2

        assert other.customers.ids == [f"{talk}:3", f"{talk}:3", f"{talk}:4"]

    async def test_one_that_was_thought_dead_ends_nothing_that_another_has(
        self, both: Sequence[Outside]
    ):
        slow, other = both
        await talk_of(slow.shop, "một")
        topics = ("conversation.message",)
        at = slow.shop.clock.now()

        [old] = await slow.shop.write(lambda tx: tx.outbox.claim(topics, limit=9, lease_s=60))
        await later(slow.shop)
        [new] = await other.shop.write(lambda tx: tx.outbox.claim(topics, limit=9, lease_s=60))

        assert not await slow.shop.write(lambda tx: tx.outbox.put_off(old, pause_s=1))
        assert not await slow.shop.write(lambda tx: tx.outbox.settle(old, at=at))
        assert (old.tries, new.tries) == (1, 2)
        assert await other.shop.write(lambda tx: tx.outbox.settle(new, at=at))
        assert not await other.shop.write(lambda tx: tx.outbox.settle(new, at=at))

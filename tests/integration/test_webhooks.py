"""Events out to real HTTP servers: signed, once to each, again until they are taken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa
from standardwebhooks import WebhookVerificationError

from support_agent.container import open_container
from support_agent.domain.errors import (
    Conflict,
    InvalidInput,
    WebhookDeliveryNotFound,
    WebhookEndpointNotFound,
)
from support_agent.domain.webhooks import (
    PAUSES_S,
    DeliveryState,
    EndpointState,
    EventType,
)
from support_agent.ports.webhooks import Answer, ToEndpoint
from support_agent.services.audit import verify
from support_agent.testing.clock import FixedClock
from tests.heart import open_shop_with
from tests.kit import KEYS, TODAY, RelayModel, Shop, open_shop, settings_for
from tests.outgoing import rows as outbox_rows
from tests.queue_kit import Gate, eventually, open_with, post
from tests.webhook_kit import (
    ENDPOINTS,
    LOCAL,
    STAFF,
    TAKEN,
    deliveries,
    endpoint,
    fan_out,
    later,
    receiving,
    send,
    status,
    tasks,
    tell,
)

E = EventType
REFUNDED = [
    *("run.completed", "approval.requested", "run.completed"),
    *("approval.decided", "refund.executed"),
]


@pytest.fixture
async def shop(shop_url: str) -> AsyncIterator[Shop]:
    async with open_shop(shop_url, webhooks=LOCAL) as opened:
        yield opened


@pytest.fixture
async def on_each(each_shop_url: str) -> AsyncIterator[Shop]:
    async with open_shop(each_shop_url, webhooks=LOCAL) as opened:
        yield opened


async def refunded(shop: Shop, order_id: str = "A100") -> str:
    """A refund that was quoted, filed, approved and paid; its id."""
    filed = await shop.filed(order_id)
    await shop.container.approvals().approve(filed.id, by=await shop.approver())
    await shop.container.payouts().pay(filed.id)
    return filed.id


async def happened(shop: Shop) -> None:
    """One event: a run ended."""
    await shop.say("Xin chào")


@asynccontextmanager
async def with_keys(url: str, keys: str) -> AsyncIterator[Shop]:
    """With keys that the history was not signed with."""
    clock = FixedClock(TODAY)
    settings = settings_for(url, webhooks=LOCAL, security={"keys": keys})
    async with open_container(
        settings, overrides={"clock": clock, "model": RelayModel()}, check_history=False
    ) as container:
        yield Shop(container=container, clock=clock, model=container.model(), url=url)


class TestEvents:
    async def test_a_refund_from_the_question_to_the_money(self, on_each: Shop):
        shop = on_each
        async with receiving() as one, receiving() as other:
            _, secret = await endpoint(shop, one)
            await endpoint(shop, other, E.REFUND_EXECUTED, E.REFUND_FAILED)
            request_id = await refunded(shop)
            await tell(shop)
            await later(shop)
            await tell(shop)

        assert one.types == REFUNDED
        assert len(set(one.ids)) == len(REFUNDED)
        assert other.types == ["refund.executed"]
        assert other.ids == one.ids[-1:]
        told = [came.verified(secret) for came in one.came]
        assert told[-1] == {
            "type": "refund.executed",
            "timestamp": "2026-10-13T02:00:00.000000Z",
            "data": {
                "request_id": request_id,
                "order_id": "A100",
                "amount_minor": 250000,
                "currency": "VND",
                "status": "REFUNDED",
                "version": (await shop.request(request_id)).version,
                "by_hand": False,
            },
        }
        assert told[3]["data"]["decision"] == "approved"
        assert one.came[0].line == "POST /events?from=agent HTTP/1.1"
        assert one.came[0].headers["content-type"] == "application/json"
        assert {row.state for row in await deliveries(shop)} == {"delivered"}
        report = await shop.read(lambda tx: verify(tx, shop.container.keys()))
        assert report.problems == ()

    async def test_a_run_tells_how_it_ended(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            await endpoint(shop, receiver, E.RUN_COMPLETED, E.RUN_HANDED_OFF)
            done = await shop.say("Xin chào")
            stopped = await shop.say("Xin chào", {"error": "timeout"})
            asked = await shop.quote("A100")
            handed = await shop.say(
                "cho tôi gặp người", {"tool": "hand_off", "arguments": {"reason": "asked"}}
            )
            await tell(shop)

        told = [(came.payload["type"], came.payload["data"]) for came in receiver.came]
        assert told == [
            (
                kind,
                {
                    "run_id": result.run_id,
                    "conversation_id": result.conversation_id,
                    "status": result.status,
                    "stop_reason": result.stop_reason,
                },
            )
            for kind, result in (
                ("run.completed", done),
                ("run.completed", stopped),
                ("run.completed", asked),
                ("run.handed_off", handed),
            )
        ]
        assert [told["status"] for _, told in told] == [
            *("done", "stopped", "waiting_customer", "handed_off")
        ]

    async def test_a_run_that_is_resumed_ends_again(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            stopped = await shop.say("Xin chào", {"error": "timeout"})
            shop.model.play({"error": "timeout"})
            await shop.container.agent().resume(stopped.run_id, operator="lan", via="test")
            shop.model.play({"answer": "Vâng."})
            await shop.container.agent().resume(stopped.run_id, operator="lan", via="test")
            await tell(shop)

        facts = [came.payload["data"] for came in receiver.came]
        assert [fact["status"] for fact in facts] == ["stopped", "stopped", "done"]
        assert {fact["run_id"] for fact in facts} == {stopped.run_id}
        assert len(set(receiver.ids)) == 3

    async def test_a_run_that_is_given_up_is_a_persons(self, each_shop_url: str):
        model = Gate(is_open=False)
        async with (
            open_with(each_shop_url, model, webhooks=LOCAL) as shop,
            receiving() as receiver,
        ):
            await endpoint(shop, receiver)
            posted = await post(shop)
            working = asyncio.create_task(shop.container.agent().work(posted.conversation_id))
            await eventually(lambda: model.waiting)
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await shop.container.database().run_write(
                lambda c: c.execute(sa.text("UPDATE runs SET attempts = 99"))
            )
            await shop.container.agent().work(posted.conversation_id)
            await tell(shop)

        (came,) = receiver.came
        assert came.payload["type"] == "run.handed_off"
        assert came.payload["data"]["status"] == "dead"
        assert came.payload["data"]["conversation_id"] == posted.conversation_id

    async def test_what_a_person_or_time_does_to_a_request(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            await endpoint(
                shop,
                receiver,
                *(E.APPROVAL_REQUESTED, E.APPROVAL_ESCALATED, E.APPROVAL_DECIDED),
            )
            filed = await shop.filed("A100")
            small = await shop.filed("A102")  # under the limit: nobody is asked
            shop.clock.advance(timedelta(hours=30))
            await shop.container.escalations().run()
            by = await shop.approver("huong")
            await shop.container.approvals().reduce(
                filed.id, amount_minor=100_000, by=by, expect=None, note=None
            )
            await shop.container.approvals().reject(filed.id, by=by)
            await tell(shop)

        assert small.required_level == 0
        assert receiver.types == [
            *("approval.requested", "approval.escalated", "approval.requested"),
            "approval.decided",
        ]
        facts = [came.payload["data"] for came in receiver.came]
        assert {fact["request_id"] for fact in facts} == {filed.id}
        assert [fact["version"] for fact in facts] == [1, 2, 3, 4]
        assert [fact["amount_minor"] for fact in facts] == [250_000, 250_000, 100_000, 100_000]
        assert (facts[1]["required_level"], facts[1]["escalations"]) == (2, 1)
        assert facts[3]["decision"] == "rejected"

    async def test_no_word_of_a_customer_leaves(self, shop: Shop):
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            await shop.say("Tôi là Nguyễn Văn Giấu, 0901234567", {"answer": "Câu trả lời kín"})
            await refunded(shop)
            await tell(shop)

        sent = b" ".join(came.body for came in receiver.came).decode()
        for word in ("Giấu", "0901234567", "kín", "đồng ý", "C001"):
            assert word not in sent
        facts = [came.payload["data"] for came in receiver.came]
        assert {name for fact in facts for name in fact} == {
            *("run_id", "conversation_id", "status", "stop_reason"),
            *("request_id", "order_id", "amount_minor", "currency", "version"),
            *("required_level", "decision", "by_hand"),
        }

    async def test_an_erased_customer_leaves_events_of_ids_and_codes(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            request_id = await refunded(shop)
            await fan_out(shop)
            await shop.container.privacy().erase("C001", by=STAFF)
            await tell(shop)

        assert receiver.types == REFUNDED
        assert receiver.came[-1].payload["data"]["request_id"] == request_id


class TestFanOut:
    async def test_who_does_not_listen_costs_nothing(self, on_each: Shop):
        shop = on_each
        await happened(shop)
        assert await outbox_rows(shop) == []

        async with receiving() as receiver:
            made, _ = await endpoint(shop, receiver)
            await shop.container.webhooks().change(made.id, state=EndpointState.DISABLED, by=STAFF)
            await happened(shop)
        assert await outbox_rows(shop) == []

    async def test_what_happened_before_there_was_an_endpoint_is_not_for_it(self, shop: Shop):
        await refunded(shop)
        await fan_out(shop)
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)

        assert receiver.types == ["run.completed"]

    async def test_what_nobody_had_taken_yet_is_for_who_was_enabled_then(self, on_each: Shop):
        """However late the next worker comes: `tick` may run once an hour."""
        shop, webhooks = on_each, on_each.container.webhooks()
        filed = await shop.filed("A100")
        async with receiving() as receiver:
            made, _ = await endpoint(shop, receiver)
            await tell(shop)
            assert receiver.types == []

            await happened(shop)
            await webhooks.change(made.id, state=EndpointState.DISABLED, by=STAFF)
            await shop.container.approvals().approve(filed.id, by=await shop.approver())
            await webhooks.change(made.id, state=EndpointState.ENABLED, by=STAFF)
            await tell(shop)

        assert receiver.types == ["run.completed"]

    async def test_the_rows_are_taken_once_and_by_nobody_when_nobody_listens(self, shop: Shop):
        await refunded(shop)
        assert await fan_out(shop) == 0
        assert {row.fanned_at is None for row in await outbox_rows(shop)} == {False}
        assert await fan_out(shop) == 0

    async def test_an_event_that_is_fanned_out_again_is_the_same(self, on_each: Shop):
        """As after a backup was restored: ids are made of what happened alone."""
        shop = on_each
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await fan_out(shop)
            (before,) = await deliveries(shop)
            await shop.container.database().run_write(
                lambda c: c.execute(sa.text("UPDATE outbox SET fanned_at = NULL"))
            )
            await tell(shop)

        assert [row.id for row in await deliveries(shop)] == [before.id]
        assert receiver.ids == [before.event_id]

    async def test_two_workers_at_once_send_each_event_once(self, each_shop_url: str):
        async with (
            receiving() as receiver,
            open_shop(each_shop_url, webhooks=LOCAL) as one,
            open_shop(each_shop_url, webhooks=LOCAL) as other,
        ):
            await endpoint(one, receiver)
            for _ in range(12):
                await happened(one)
            await asyncio.gather(*(tell(shop) for shop in (one, other, one, other)))
            await tell(other)

            assert len(receiver.ids) == len(set(receiver.ids)) == 12
            assert {row.attempts for row in await deliveries(one)} == {1}

    async def test_a_row_for_webhooks_alone_keeps_no_message_waiting(self, on_each: Shop):
        shop = on_each

        def add(tx) -> None:
            told = {"conversation_id": "con_1"}
            tx.outbox.add(
                E.RUN_COMPLETED, key="run_1:1", body=told, at=shop.clock.now(), deliver=False
            )
            tx.outbox.add("conversation.message", key="con_1:1", body=told, at=shop.clock.now())

        await shop.write(add)
        claimed = await shop.write(
            lambda tx: tx.outbox.claim(("conversation.message",), limit=9, lease_s=60)
        )

        assert [one.key for one in claimed] == ["con_1:1"]
        assert await fan_out(shop) == 0
        assert await shop.read(lambda tx: tx.webhooks.has_new()) is False

    async def test_what_webhooks_have_not_taken_is_kept(self, on_each: Shop):
        shop = on_each
        await refunded(shop)
        while await shop.container.delivery().run():
            pass
        shop.clock.advance(timedelta(days=31))
        await shop.container.database().run_write(
            lambda c: c.execute(sa.text("UPDATE outbox SET delivered_at = created_at"))
        )
        before = await outbox_rows(shop)
        await shop.container.retention().run()
        kept = await outbox_rows(shop)

        assert {row.topic for row in kept} == {
            *("refund.filed", "refund.approved", "refund.refunded")
        }
        assert len(kept) < len(before)
        await fan_out(shop)
        await shop.container.retention().run()
        assert await outbox_rows(shop) == []


class TestSending:
    @pytest.mark.parametrize("code", [301, 302, 307, 400, 401, 404, 422, 429, 500, 503])
    async def test_what_is_not_taken_comes_again_with_the_same_id(self, shop: Shop, code: int):
        answers = [status(code, "Location: http://127.0.0.1:1/"), TAKEN]
        async with receiving(lambda _: answers.pop(0)) as receiver:
            _, secret = await endpoint(shop, receiver)
            await happened(shop)
            assert await tell(shop) == 0
            assert await send(shop) == 0
            (row,) = await deliveries(shop)
            assert (row.state, row.attempts, row.last_status) == ("pending", 1, code)
            await later(shop)
            assert await send(shop) == 1

        first, second = receiver.came
        assert first.id == second.id
        assert first.body == second.body
        assert first.verified(secret) == second.verified(secret)
        (row,) = await deliveries(shop)
        assert (row.state, row.attempts, row.last_status) == ("delivered", 2, 204)

    async def test_tries_go_on_for_days_and_then_a_person_is_called(self, on_each: Shop):
        shop = on_each
        async with receiving(lambda _: status(500)) as receiver:
            made, _ = await endpoint(shop, receiver)
            await happened(shop)
            pauses = []
            await fan_out(shop)
            for _ in PAUSES_S:
                await later(shop)
                await send(shop)
                (row,) = await deliveries(shop)
                now = await shop.read(lambda tx: tx.database_now().timestamp())
                pauses.append(row.retry_at - now)
            await later(shop)
            await send(shop)

        assert len(receiver.came) == len(PAUSES_S)
        for pause, least in zip(pauses, PAUSES_S[1:], strict=False):
            assert least - 2 < pause < least * 1.2 + 2
        assert (row.state, row.attempts, row.last_status) == ("failed", len(PAUSES_S), 500)
        (task,) = await tasks(shop, "webhook_failed")
        assert task.subject == made.id

    async def test_what_was_called_off_is_no_try(self, on_each: Shop):
        """A worker that is stopped or dies ten times uses up no days."""
        shop = on_each
        async with receiving(lambda _: None) as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await fan_out(shop)
            for _ in PAUSES_S:
                receiver.news.clear()
                sending = asyncio.create_task(send(shop))
                await asyncio.wait_for(receiver.news.wait(), 5)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                await later(shop)
            receiver.answer = lambda _: status(503)
            await send(shop)

        (row,) = await deliveries(shop)
        assert (row.state, row.attempts, row.claims) == ("pending", 1, 11)
        assert await tasks(shop, "webhook_failed") == []

    async def test_a_try_again_has_a_moment_of_its_own(self, shop: Shop):
        async with receiving(lambda _: status(500)) as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)
            await asyncio.sleep(1.1)  # the header counts seconds
            await later(shop)
            await send(shop)

        first, second = (int(came.headers["webhook-timestamp"]) for came in receiver.came)
        assert first < second

    async def test_who_is_gone_is_not_asked_again(self, on_each: Shop):
        shop = on_each
        async with receiving(lambda _: status(410)) as gone, receiving() as other:
            made, _ = await endpoint(shop, gone)
            await endpoint(shop, other)
            await happened(shop)
            await tell(shop)
            await happened(shop)
            await later(shop)
            await tell(shop)

        assert len(gone.came) == 1
        assert len(other.came) == 2
        found = await shop.container.webhooks().get(made.id)
        assert (found.state, found.disabled_reason) == ("disabled", "gone")
        assert [task.subject for task in await tasks(shop, "webhook_disabled")] == [made.id]
        last = await shop.read(lambda tx: tx.audit.latest_for(made.id))
        assert (last.event.action, last.event.data["reason"]) == ("webhook.changed", "gone")

    async def test_gone_is_said_of_an_address_and_not_of_the_next(self, shop: Shop):
        async with receiving() as new, receiving() as old:
            made, _ = await endpoint(shop, old)

            async def moved() -> None:
                await old.news.wait()
                await shop.container.webhooks().change(made.id, url=new.url, by=STAFF)

            old.answer = lambda _: None
            await happened(shop)
            await fan_out(shop)
            sending = asyncio.create_task(send(shop))
            await moved()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            (row,) = await deliveries(shop)
            assert row.state == "pending"
            await later(shop)
            await send(shop)

        assert new.ids == old.ids
        assert (await shop.container.webhooks().get(made.id)).state is EndpointState.ENABLED

    async def test_who_hangs_keeps_nobody_waiting(self, shop_url: str):
        async with (
            open_shop(shop_url, webhooks=LOCAL | {"timeout_seconds": 1.5}) as shop,
            receiving(lambda _: None) as hangs,
            receiving() as other,
        ):
            await endpoint(shop, hangs)
            await endpoint(shop, other)
            for _ in range(6):
                await happened(shop)
            await fan_out(shop)
            sending = asyncio.create_task(send(shop))
            await asyncio.wait_for(hangs.news.wait(), 5)
            async with asyncio.timeout(1.4):  # before the first of them is given up
                while len(other.came) < 6:
                    await other.news.wait()
                    other.news.clear()
                await happened(shop)
                await fan_out(shop)
                await other.news.wait()
            assert hangs.most_busy == 4
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def test_nor_at_the_end_of_a_run(self, shop_url: str, monkeypatch):
        """What hangs is still waited for when the time of the run is over."""
        monkeypatch.setattr("support_agent.services.webhook_sending.LONGEST_S", 0.5)
        async with (
            open_shop(shop_url, webhooks=LOCAL | {"timeout_seconds": 3.0}) as shop,
            receiving(lambda _: None) as hangs,
            receiving() as other,
        ):
            await endpoint(shop, hangs)
            await endpoint(shop, other)
            await happened(shop)
            await fan_out(shop)
            sending = asyncio.create_task(send(shop))
            await asyncio.wait_for(other.news.wait(), 2)
            other.news.clear()
            await asyncio.sleep(0.6)
            await happened(shop)
            await fan_out(shop)
            await asyncio.wait_for(other.news.wait(), 1.5)
            assert not sending.done()
            await asyncio.wait_for(sending, 4)  # and it ends all the same

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (None, "timeout"),
            (b"HTTP/1.1 200 O", "timeout"),
            (b"hello\r\n\r\n", "no_answer"),
            (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000, "no_answer"),
        ],
        ids=["hangs", "breaks off", "no http", "endless headers"],
    )
    async def test_what_is_no_answer_is_tried_again(self, shop_url: str, answer, told):
        settings = LOCAL | {"timeout_seconds": 0.3}
        async with (
            open_shop(shop_url, webhooks=settings) as shop,
            receiving(lambda _: answer) as receiver,
        ):
            await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)
            (row,) = await deliveries(shop)

        assert (row.state, row.last_status, row.last_error) == ("pending", None, told)

    async def test_an_answer_without_end_is_an_answer(self, shop: Shop):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n"
        async with receiving(lambda _: head + b"x" * 200_000) as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            async with asyncio.timeout(5):
                assert await tell(shop) == 1

    async def test_a_port_where_nobody_listens(self, shop: Shop):
        async with receiving() as receiver:
            await endpoint(shop, receiver)
        await happened(shop)
        await tell(shop)

        (row,) = await deliveries(shop)
        assert (row.state, row.last_error) == ("pending", "not_connected")

    @pytest.mark.parametrize("code", [429, 503])
    async def test_an_endpoint_may_ask_for_time(self, shop: Shop, code: int):
        async with receiving(lambda _: status(code, "Retry-After: 4000")) as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)
        (row,) = await deliveries(shop)
        now = await shop.read(lambda tx: tx.database_now().timestamp())

        assert 3_990 < row.retry_at - now <= 4_001

    async def test_what_was_sent_and_not_noted_comes_again(self, on_each: Shop):
        """Called off between the two: at least once, and the receiver knows it by its id."""
        shop = on_each
        answers = [None, TAKEN]
        async with receiving(lambda _: answers.pop(0)) as receiver:
            await endpoint(shop, receiver)
            await happened(shop)
            await fan_out(shop)
            sending = asyncio.create_task(send(shop))
            await receiver.news.wait()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            assert await send(shop) == 0  # it is leased
            await later(shop)
            assert await send(shop) == 1

        assert len(receiver.ids) == 2
        assert len(set(receiver.ids)) == 1

    async def test_what_is_broken_of_one_keeps_no_other_waiting(self, shop: Shop):
        async with receiving() as receiver, receiving() as other:
            made, _ = await endpoint(shop, receiver)
            await endpoint(shop, other)
            await happened(shop)
            await fan_out(shop)
            written = sa.update(ENDPOINTS).where(ENDPOINTS.c.id == made.id).values(events=5)
            await shop.container.database().run_write(lambda c: c.execute(written))
            assert await send(shop) == 1

        assert (len(receiver.came), len(other.came)) == (0, 1)

    async def test_a_fault_of_ours_is_a_try_that_failed(self, shop_url: str):
        class Broken:
            async def check(self, url: str) -> None: ...

            async def send(self, message: ToEndpoint) -> Answer:
                raise RuntimeError("a fault of ours")

        async with open_shop_with(shop_url, overrides={"webhook_sender": Broken()}) as shop:
            await shop.container.webhooks().create(
                url="https://shop.vn/", events=[E.RUN_COMPLETED], by=STAFF
            )
            await happened(shop)
            assert await tell(shop) == 0
            (row,) = await deliveries(shop)

        assert (row.state, row.last_error) == ("pending", "broken")

    async def test_a_late_answer_counts_for_nothing(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            made, _ = await endpoint(shop, receiver)
            await happened(shop)
            await fan_out(shop)

            def claim(tx):
                return tx.webhooks.claim(made.id, limit=9, lease_s=60)

            (old,) = await shop.write(claim)
            await later(shop)
            (new,) = await shop.write(claim)

            def settle(one):
                return lambda tx: tx.webhooks.settle(
                    one, DeliveryState.DELIVERED, at=shop.clock.now(), status=200, error=None
                )

            assert not await shop.write(settle(old))
            assert await shop.write(settle(new))
            assert not await shop.write(settle(new))


class TestSecrets:
    async def test_after_a_rotation_both_secrets_hold_for_a_day(self, on_each: Shop):
        shop = on_each
        async with receiving() as receiver:
            made, old = await endpoint(shop, receiver)
            rotated, new = await shop.container.webhooks().rotate(made.id, by=STAFF)
            await happened(shop)
            await tell(shop)
            over = sa.update(ENDPOINTS).values(rotated_at=ENDPOINTS.c.rotated_at - 86_401)
            await shop.container.database().run_write(lambda c: c.execute(over))
            await happened(shop)
            await tell(shop)

        assert rotated.generation == 2
        assert old != new == await shop.container.webhooks().secret(made.id)
        within, after = receiver.came
        assert within.verified(old) == within.verified(new)
        assert after.verified(new)
        with pytest.raises(WebhookVerificationError):
            after.verified(old)

    async def test_no_secret_is_in_the_database(self, shop: Shop):
        async with receiving() as receiver:
            _, secret = await endpoint(shop, receiver)
            dump = "\n".join(
                await shop.container.database().run_read(
                    lambda c: list(c.connection.iterdump())  # type: ignore[attr-defined]
                )
            )

        assert receiver.url in dump
        assert secret.removeprefix("whsec_") not in dump
        assert len(secret) == 50

    async def test_each_endpoint_has_its_own(self, shop: Shop):
        async with receiving() as receiver:
            _, one = await endpoint(shop, receiver)
            _, other = await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)

        assert one != other
        assert receiver.ids[0] == receiver.ids[1]
        for came, secret in zip(sorted_by(receiver.came, one), (one, other), strict=True):
            assert came.verified(secret)

    async def test_our_keys_may_rotate_and_what_was_made_from_one_needs_it(self, shop_url: str):
        other = f"new:{'6f' * 32}"
        async with receiving() as receiver:
            async with open_shop(shop_url, webhooks=LOCAL) as shop:
                made, secret = await endpoint(shop, receiver)
            async with open_shop(
                shop_url, webhooks=LOCAL, security={"keys": f"{other},{KEYS}"}
            ) as shop:
                await happened(shop)
                await tell(shop)
                assert receiver.came[0].verified(secret)
            async with open_shop(shop_url, webhooks=LOCAL) as shop:
                pass
            async with open_shop(
                shop_url, webhooks=LOCAL, security={"keys": f"{other},{KEYS}"}
            ) as shop:
                _, newer = await shop.container.webhooks().rotate(made.id, by=STAFF)
                await happened(shop)
                await fan_out(shop)
            async with with_keys(shop_url, other) as shop:
                await send(shop)
                assert receiver.came[1].verified(newer)  # only the old key is gone

    async def test_a_key_that_is_gone_is_told_to_a_person(self, shop_url: str):
        other = f"new:{'6f' * 32}"
        async with receiving() as receiver:
            async with open_shop(shop_url, webhooks=LOCAL) as shop:
                made, secret = await endpoint(shop, receiver)
                await happened(shop)
                await fan_out(shop)
            async with with_keys(shop_url, other) as shop:
                assert await send(shop) == 0
                await later(shop)
                assert await send(shop) == 0
                assert [task.subject for task in await tasks(shop, "webhook_key")] == [made.id]
                with pytest.raises(Conflict, match=r"SECURITY__KEYS.*rotate"):
                    await shop.container.webhooks().secret(made.id)
            async with open_shop(shop_url, webhooks=LOCAL) as shop:
                await later(shop)
                assert await send(shop) == 1

        assert [came.verified(secret)["type"] for came in receiver.came] == ["run.completed"]


class TestEndpoints:
    async def test_there_are_only_so_many(self, shop: Shop):
        async with receiving() as receiver:
            made = [(await endpoint(shop, receiver))[0] for _ in range(20)]
            with pytest.raises(Conflict):
                await endpoint(shop, receiver)
            await shop.container.webhooks().delete(made[3].id, by=STAFF)
            await endpoint(shop, receiver)

    async def test_an_address_inside_is_refused_before_anything_is_stored(self, shop: Shop):
        for url in ("https://127.0.0.2/", "https://localhost/", "http://shop.vn/"):
            with pytest.raises(InvalidInput):
                await shop.container.webhooks().create(url=url, events=[E.RUN_COMPLETED], by=STAFF)
        with pytest.raises(InvalidInput):
            await shop.container.webhooks().create(url="http://127.0.0.1/", events=[], by=STAFF)
        assert await shop.container.webhooks().list() == ()

    async def test_an_address_that_was_written_by_hand_is_refused_at_sending(self, shop: Shop):
        async with receiving() as receiver:
            await endpoint(shop, receiver)
            hand = receiver.url.replace("127.0.0.1", "localhost")
            await shop.container.database().run_write(
                lambda c: c.execute(sa.update(ENDPOINTS).values(url=hand))
            )
            await happened(shop)
            await tell(shop)

        assert receiver.came == []
        assert (await deliveries(shop))[0].last_error == "address_refused"

    async def test_a_disabled_one_gets_what_waited_once_it_is_enabled(self, on_each: Shop):
        shop = on_each
        webhooks = shop.container.webhooks()
        async with receiving(lambda _: status(500)) as receiver:
            made, _ = await endpoint(shop, receiver)
            await happened(shop)
            await tell(shop)
            await webhooks.change(made.id, state=EndpointState.DISABLED, by=STAFF)
            await later(shop)
            await happened(shop)
            assert await tell(shop) == 0
            (waits,) = await deliveries(shop)
            with pytest.raises(Conflict):
                await webhooks.redeliver(made.id, waits.id, by=STAFF)
            receiver.answer = lambda _: TAKEN
            await webhooks.change(made.id, state=EndpointState.ENABLED, by=STAFF)
            assert await tell(shop) == 1

        assert receiver.ids == [waits.event_id] * 2

    async def test_one_that_is_deleted_takes_its_deliveries_with_it(self, on_each: Shop):
        shop = on_each
        async with receiving(lambda _: None) as receiver:
            made, _ = await endpoint(shop, receiver)
            await happened(shop)
            await fan_out(shop)
            sending = asyncio.create_task(send(shop))
            await receiver.news.wait()
            await shop.container.webhooks().delete(made.id, by=STAFF)
            receiver.closing.set()
            assert await sending == 0

        assert await deliveries(shop) == []
        with pytest.raises(WebhookEndpointNotFound):
            await shop.container.webhooks().delete(made.id, by=STAFF)

    async def test_what_was_taken_or_given_up_can_be_had_again(self, on_each: Shop):
        shop = on_each
        webhooks = shop.container.webhooks()
        async with receiving() as receiver, receiving() as other:
            made, _ = await endpoint(shop, receiver)
            another, _ = await endpoint(shop, other, E.REFUND_FAILED)
            await happened(shop)
            await tell(shop)
            (row,) = await deliveries(shop)
            again = await webhooks.redeliver(made.id, row.id, by=STAFF)
            assert (again.state, again.ended_at) == (DeliveryState.PENDING, None)
            assert await send(shop) == 1
            for wrong in ((another.id, row.id), (made.id, "whd_none"), (made.id, "\0")):
                with pytest.raises(WebhookDeliveryNotFound):
                    await webhooks.redeliver(*wrong, by=STAFF)

        assert receiver.ids == [row.event_id] * 2

    async def test_old_deliveries_go_and_those_that_are_tried_stay(self, on_each: Shop):
        shop = on_each
        answers = [TAKEN, status(500), status(500), status(500)]
        async with receiving(lambda _: answers.pop(0)) as receiver:
            await endpoint(shop, receiver, E.RUN_COMPLETED)
            await happened(shop)
            await tell(shop)
            await happened(shop)
            await tell(shop)
        shop.clock.advance(timedelta(days=31))

        assert (await shop.container.retention().run())["WEBHOOKS"] == 1
        (kept,) = await deliveries(shop)
        assert kept.state == "pending"
        disabled = sa.update(ENDPOINTS).values(state="disabled")
        await shop.container.database().run_write(lambda c: c.execute(disabled))
        assert (await shop.container.retention().run())["WEBHOOKS"] == 1


def sorted_by(came, secret):
    """The one that this secret signed first."""

    def is_mine(one) -> bool:
        try:
            return bool(one.verified(secret))
        except WebhookVerificationError:
            return False

    return sorted(came, key=is_mine, reverse=True)

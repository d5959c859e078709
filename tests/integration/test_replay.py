"""A recorded run read again: what would differ today is shown, and nothing at all happens."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support_agent.agent.replay import Replay, Replayed, Verdict
from support_agent.agent.turns import TurnResult
from support_agent.building.payments import no_gateway
from support_agent.container import open_container, open_replay
from support_agent.domain.conversation import Assurance
from support_agent.domain.errors import GatewayRefusesUs, NewerState, RunNotFound
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.payments import PaymentRef, RefundInstruction
from support_agent.testing.clock import FixedClock
from tests.agent_kit import Reading, Writing, call, change, forever, open_agent, raw, rows, take
from tests.heart import change_policy_body
from tests.kit import TODAY, Shop, open_shop, sample, settings_for

LATER = timedelta(days=40)


@asynccontextmanager
async def reading_again(
    url: str, *, now: datetime = TODAY, tools: Any = None, **sections: Any
) -> AsyncIterator[Replay]:
    overrides: dict[str, Any] = {"clock": FixedClock(now)}
    if tools is not None:
        overrides["tools"] = list(tools)
    async with open_replay(settings_for(url, **sections), overrides=overrides) as replay:
        yield replay


async def again(shop: Shop, turn: TurnResult | str, **how: Any) -> Replayed:
    run_id = turn if isinstance(turn, str) else turn.run_id
    async with reading_again(shop.url, **how) as replay:
        return await replay.of(run_id)


def told(replayed: Replayed, number: int = 1) -> dict[str, tuple[object, object]]:
    """What differs in one call, by field."""
    found = replayed.calls[number - 1].differences
    return {one.field: (one.recorded, one.now) for one in found}


def dump(url: str) -> list[str]:
    """Every row of every table."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        return [*connection.iterdump()]


def contents(url: str) -> bytes:
    """The file of a database that nobody has open."""
    return Path(url.removeprefix("sqlite:///")).read_bytes()


class TestNothingHappens:
    async def test_a_run_of_every_kind_of_call_leaves_every_table_as_it_was(
        self, shop: Shop, shop_url: str
    ):
        quoted = await shop.quote("A102")
        filed = await shop.answer(quoted)
        assert filed.requests[0].status is RequestStatus.REFUNDED
        open_quote = await shop.quote("A103")
        mixed = await shop.say(
            "mọi thứ",
            call("lookup_order", order_id="A100"),
            call("lookup_order", order_id="A200"),  # another customer's
            call("refund_status", request_id="req_no"),
            call("cancel_refund", request_id=filed.requests[0].id),
            call("request_refund", quote_id=open_quote.quotes[0].id),
            call("quote_refund", order_id="A104"),
            call("hand_off", reason="khách muốn gặp người"),
        )
        before = dump(shop_url)

        for turn in (quoted, filed, open_quote, mixed):
            await again(shop, turn, now=TODAY + timedelta(hours=1))

        assert dump(shop_url) == before

    async def test_the_file_itself_is_the_same_byte_for_byte(self, shop_url: str):
        async with open_shop(shop_url) as shop:
            turn = await shop.quote("A100")
        before = contents(shop_url)

        async with reading_again(shop_url) as replay:
            await replay.of(turn.run_id)

        assert contents(shop_url) == before

    async def test_another_customers_order_leaves_no_trace_of_the_second_look(
        self, shop: Shop, shop_url: str
    ):
        lookup = call("lookup_order", order_id="A200")
        turn = await shop.say("A200?", lookup, {"answer": "Không thấy."})
        denied = "SELECT count(*) FROM audit_events WHERE action = 'access.denied'"
        assert rows(shop_url, denied) == [(1,)]

        replayed = await again(shop, turn)

        assert replayed.calls[0].verdict is Verdict.SAME
        assert rows(shop_url, denied) == [(1,)]

    async def test_a_refund_that_would_be_paid_today_is_not(self, shop: Shop, shop_url: str):
        """Not filed when the customer had not said yes; today they have, and it is small."""
        quoted = await shop.quote("A102")
        early = await shop.say(
            "ờ",
            call("request_refund", quote_id=quoted.quotes[0].id),
            {"answer": "Bạn có đồng ý không?"},
            conversation=quoted.conversation_id,
        )
        assert early.requests == ()
        await shop.say("đồng ý", conversation=quoted.conversation_id)

        replayed = await again(shop, early)

        assert told(replayed)["ok"] == (False, True)
        assert '"status":"APPROVED"' in str(told(replayed)["content"][1])
        assert rows(shop_url, "SELECT count(*) FROM refund_requests") == [(0,)]
        assert rows(shop_url, "SELECT count(*) FROM ledger_payouts") == [(0,)]

    async def test_what_follows_a_commit_never_comes(self, shop_url: str):
        tool = Writing(lambda tx, context: None)
        async with open_agent(shop_url, tools=[tool]) as shop:
            shop.model.play({"tool": "write"}, {"answer": "xong"})
            turn = await take(shop, "làm đi")
            assert (tool.ran, tool.followed_up) == (1, 1)

            replayed = await again(shop, turn, tools=[tool])

        assert replayed.calls[0].verdict is Verdict.SAME
        assert tool.ran > 1
        assert tool.followed_up == 1

    async def test_the_gateway_in_its_place_refuses_everything(self):
        payment = {
            "gateway": "ledger",
            "account": "shop-main",
            "gateway_payment_id": "led_A102_1",
        }
        ref = PaymentRef(**payment)
        instruction = RefundInstruction(
            key="k", request_id="req", amount_minor=1, currency="VND", **payment
        )
        gateway = no_gateway(settings_for("sqlite:///nowhere.db"), why="a rehearsal")

        for ask in (
            lambda: gateway.refund(instruction),
            lambda: gateway.find(instruction),
            lambda: gateway.get("re_1", ref),
            lambda: gateway.payment_state(ref),
            lambda: anext(gateway.refunds_since(TODAY)),
        ):
            with pytest.raises(GatewayRefusesUs, match="a rehearsal"):
                await ask()
        assert (gateway.name, gateway.livemode, gateway.books_only) == ("ledger", False, False)


class TestWhatWouldDiffer:
    async def test_a_run_of_a_moment_ago_does_not(self, shop: Shop):
        turn = await shop.say(
            "Đơn A100?",
            call("lookup_order", order_id="A100"),
            call("refund_policy"),
            call("list_orders"),
            call("quote_refund", order_id="A100", amount=50_000),
            {"answer": "Bạn đồng ý không?"},
        )

        replayed = await again(shop, turn)

        assert [one.verdict for one in replayed.calls] == [Verdict.SAME] * 4
        assert replayed.answer is not None
        assert "Báo giá" in replayed.answer.recorded
        assert replayed.answer.now == replayed.answer.recorded
        assert not replayed.differs

    async def test_no_order_of_the_shop_differs_a_moment_later(self, shop: Shop):
        """But that what was approved at once is paid by now, which the run itself did."""
        async with reading_again(shop.url) as replay:
            for order in sample().orders:
                quoted = await shop.say(
                    "hoàn tiền?",
                    call("lookup_order", order_id=order.id),
                    call("quote_refund", order_id=order.id),
                    call("refund_status"),
                    {"answer": "Bạn đồng ý không?"},
                    customer=order.customer_id,
                )
                assert not (await replay.of(quoted.run_id)).differs, order.id
                if not quoted.quotes:
                    continue
                filed = await shop.answer(quoted, customer=order.customer_id)
                again = await replay.of(filed.run_id)
                paid = {"status": ("APPROVED", "REFUNDED")}
                assert told(again) == (paid if filed.requests[0].status == "REFUNDED" else {})
                assert again.answer is not None
                assert not again.answer.differs

    async def test_ids_and_until_when_an_offer_stands_are_no_difference(self, shop: Shop):
        turn = await shop.quote("A100")

        replayed = await again(shop, turn, now=TODAY + timedelta(hours=3))

        assert not replayed.differs

    async def test_a_window_that_has_closed_meanwhile(self, shop: Shop):
        looked = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Được."})
        quoted = await shop.quote("A100")

        seen = await again(shop, looked, now=TODAY + LATER)
        refused = await again(shop, quoted, now=TODAY + LATER)

        assert told(seen)["refund.verdict"] == ("ELIGIBLE", "INELIGIBLE")
        assert told(seen)["refund.days_since_delivery"] == (12, 52)
        assert told(seen)["refund.max_refundable"] == (250_000, 0)
        assert told(refused)["error_code"] == (None, "WINDOW_EXPIRED")
        assert refused.answer is not None
        assert "Báo giá" not in refused.answer.now

    async def test_a_policy_that_was_changed(self, shop: Shop):
        turn = await shop.say(
            "?", call("refund_policy"), call("quote_refund", order_id="A102"), {"answer": "Nhé?"}
        )
        await change_policy_body(shop, window_days=14, limits={"VND": {"auto": 1_000}})

        replayed = await again(shop, turn)

        assert told(replayed, 1)["window_days"] == (30, 14)
        assert told(replayed, 2) == {
            "needs_person": (False, True),
            "required_level": (0, 1),
        }
        assert replayed.answer is not None
        assert "cần nhân viên duyệt" not in replayed.answer.recorded
        assert "cần nhân viên duyệt" in replayed.answer.now

    async def test_an_order_that_was_changed(self, shop: Shop, shop_url: str):
        turn = await shop.say(
            "?", call("lookup_order", order_id="A101"), call("list_orders"), {"answer": "Nhé."}
        )
        change(shop_url, "UPDATE shop_orders SET status = 'CANCELLED' WHERE id = 'A101'")

        replayed = await again(shop, turn)

        assert told(replayed, 1)["status"] == ("SHIPPING", "CANCELLED")
        assert told(replayed, 2) == {"orders[A101].status": ("SHIPPING", "CANCELLED")}

    async def test_a_request_that_was_decided(self, shop: Shop):
        filed = await shop.answer(await shop.quote("A100"))
        request = filed.requests[0]
        await shop.container.approvals().approve(
            request.id, by=await shop.approver(), expect=request.version
        )

        replayed = await again(shop, filed)

        assert told(replayed) == {
            "status": ("PENDING_APPROVAL", "APPROVED"),
            "needs_person": (True, False),
        }
        assert replayed.answer is not None
        assert replayed.answer.differs

    async def test_a_quote_that_was_filed_could_not_be_made_again(self, shop: Shop):
        quoted = await shop.quote("A100")
        await shop.answer(quoted)

        assert told(await again(shop, quoted))["error_code"] == (None, "REQUEST_OPEN")

    async def test_an_open_offer_of_a_later_turn_is_no_part_of_an_earlier_answer(self, shop: Shop):
        first = await shop.say("xin chào", {"answer": "Chào bạn."})
        await shop.quote("A100", conversation=first.conversation_id)

        assert not (await again(shop, first)).differs

    async def test_an_open_offer_of_before_stands_under_it_as_it_did(self, shop: Shop):
        quoted = await shop.quote("A100")
        aside = await shop.say(
            "Shop mở cửa mấy giờ?", {"answer": "8 giờ."}, conversation=quoted.conversation_id
        )
        assert "Báo giá" in aside.answer

        assert not (await again(shop, aside)).differs

    async def test_an_amount_that_only_an_earlier_turn_told_is_known_to_it(self, shop: Shop):
        first = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
        second = await shop.say(
            "bao nhiêu?", {"answer": "Đơn 250.000 ₫."}, conversation=first.conversation_id
        )

        assert not (await again(shop, second)).differs


class TestCalls:
    async def test_a_tool_that_is_gone(self, shop_url: str):
        async with open_agent(shop_url, tools=[Reading(name="old")]) as shop:
            shop.model.play({"tool": "old"}, {"answer": "xong"})
            turn = await take(shop, "hỏi")
            replayed = await again(shop, turn)

        assert replayed.calls[0].is_accepted is False
        assert told(replayed)["error_code"] == (None, "UNKNOWN_TOOL")

    async def test_arguments_that_are_not_accepted_any_more(self, shop: Shop, shop_url: str):
        turn = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
        change(shop_url, 'UPDATE tool_calls SET arguments = \'{"order": "A100"}\'')

        replayed = await again(shop, turn)

        assert replayed.calls[0].is_accepted is False
        assert told(replayed)["error_code"] == (None, "INVALID_ARGUMENTS")

    async def test_calls_that_were_refused_are_refused_again(self, shop: Shop):
        turn = await shop.say(
            "?",
            raw("lookup_order", '{"order_id":'),
            call("lookup", order_id="A100"),
            {"answer": "Xin lỗi."},
        )

        replayed = await again(shop, turn)

        assert [one.verdict for one in replayed.calls] == [Verdict.SAME] * 2
        assert [one.is_accepted for one in replayed.calls] == [False] * 2

    async def test_calls_that_code_did_not_run_are_not_run(self, shop_url: str):
        async with open_shop(shop_url, limits={"max_calls_per_step": 1}) as shop:
            both = [
                {"tool": "lookup_order", "arguments": {"order_id": order}}
                for order in ("A100", "A101")
            ]
            turn = await shop.say("?", {"calls": both}, {"answer": "Đây."})
            replayed = await again(shop, turn)

        assert [one.verdict for one in replayed.calls] == [Verdict.SAME, Verdict.NOT_RUN]
        assert replayed.calls[1].is_accepted is None

    async def test_a_call_that_was_never_answered_is_not_tried(self, shop: Shop, shop_url: str):
        turn = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
        change(shop_url, "UPDATE tool_calls SET ok = NULL, content = NULL, answered_at = NULL")

        replayed = await again(shop, turn)

        assert replayed.calls[0].verdict is Verdict.UNANSWERED

    async def test_a_channel_that_had_not_verified_the_customer_still_has_not(self, shop: Shop):
        shop.model.play(call("lookup_order", order_id="A100"), {"answer": "Không được."})
        turn = await take(shop, "A100?", assurance=Assurance.CLAIMED)

        replayed = await again(shop, turn)

        assert replayed.calls[0].now.error_code == "IDENTITY_NOT_VERIFIED"
        assert not replayed.differs

    async def test_a_tool_that_breaks_is_a_difference_and_no_crash(self, shop_url: str):
        def broken() -> Any:
            raise ValueError("no")

        async with open_agent(shop_url, tools=[Reading()]) as shop:
            shop.model.play({"tool": "probe"}, {"answer": "xong"})
            turn = await take(shop, "hỏi")
            replayed = await again(shop, turn, tools=[Reading(broken)])

        assert told(replayed)["error_code"] == (None, "TOOL_FAILED")

    async def test_a_tool_that_hangs_is_given_up(self, shop_url: str):
        async with open_agent(shop_url, tools=[Reading()]) as shop:
            shop.model.play({"tool": "probe"}, {"answer": "xong"})
            turn = await take(shop, "hỏi")
            hanging, limits = Reading(forever), {"tool_seconds": 0.05}
            replayed = await again(shop, turn, tools=[hanging], limits=limits)

        assert told(replayed)["error_code"] == (None, "TOOL_TIMEOUT")


class TestRuns:
    async def test_an_unknown_one(self, shop: Shop):
        with pytest.raises(RunNotFound):
            await again(shop, "run_no")

    async def test_one_of_a_newer_program(self, shop: Shop, shop_url: str):
        turn = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
        change(shop_url, "UPDATE steps SET schema_version = 2 WHERE number = 2")

        with pytest.raises(NewerState, match="form 2"):
            await again(shop, turn)

    async def test_one_that_a_limit_stopped_said_what_code_would_say(self, shop_url: str):
        async with open_shop(shop_url, limits={"max_steps": 1}) as shop:
            turn = await shop.say("A100?", call("lookup_order", order_id="A100"))
            replayed = await again(shop, turn)

        assert replayed.answer is not None
        assert not replayed.differs

    async def test_one_whose_answer_cannot_be_made_again_has_none(self, shop: Shop, shop_url: str):
        turn = await shop.say("A100?", call("lookup_order", order_id="A100"), {"answer": "Đây."})
        change(shop_url, "UPDATE runs SET status = 'stopped', stop_reason = 'cancelled'")

        assert (await again(shop, turn)).answer is None

    async def test_one_of_each_database_is_read_again(self, shop_on_each: Shop):
        turn = await shop_on_each.quote("A100")
        counts = await shop_on_each.read(lambda tx: tx.quotes.open_in(turn.conversation_id))

        replayed = await again(shop_on_each, turn)

        assert not replayed.differs
        now = await shop_on_each.read(lambda tx: tx.quotes.open_in(turn.conversation_id))
        assert now == counts


async def test_without_any_key_of_the_gateway(shop: Shop, shop_url: str):
    """Who reads runs again needs no secret that pays."""
    turn = await shop.quote("A100")
    sections = {"payments": {"kind": "stripe", "stripe_account": "acct_1"}}
    settings = settings_for(shop_url, **sections)

    async with open_replay(settings, overrides={"clock": FixedClock(TODAY)}) as replay:
        assert not (await replay.of(turn.run_id)).differs

    with pytest.raises(Exception, match="STRIPE_KEY"):
        async with open_container(settings):
            pass


class TestLanguage:
    async def test_one_that_was_asked_for_beats_that_of_the_message(self, shop: Shop):
        await shop.say("Please answer in English.")
        turn = await shop.quote("A102")

        assert not (await again(shop, turn)).differs

    async def test_what_was_written_later_is_not_that_of_a_short_answer(self, shop: Shop):
        first = await shop.quote("A100")
        talk = first.conversation_id
        quote = call("quote_refund", order_id="A102")
        short = await shop.say("ok", quote, {"answer": "!"}, conversation=talk)
        await shop.say("Where is my order please?", conversation=talk)

        assert not (await again(shop, short)).differs

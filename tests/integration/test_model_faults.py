"""Every way a model server can fail, through the real adapter, wrappers, loop and database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from support_agent.agent.turns import TurnResult
from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.runs import StopReason
from support_agent.domain.wording import stop_sentence
from support_agent.testing.anthropic_replies import asks, message, thinks
from support_agent.testing.clock import FixedClock
from support_agent.testing.model_server import (
    ModelServer,
    ServerReply,
    answer,
    calls,
    completion,
    failure,
)
from support_agent.testing.model_streams import streamed
from tests.agent_kit import resume, rows, take
from tests.crashes import let_leases_end
from tests.kit import TODAY, RelayModel, Shop, open_shop, settings_for
from tests.workers import LOST_TOKENS, run_together

SPENT = {"prompt_tokens": 50, "completion_tokens": 5}
WELL = answer("Chào bạn.", usage=SPENT)
LOOKED_UP = calls(("lookup_order", '{"order_id":"A100"}'), usage=SPENT)


@dataclass
class Served:
    """The sample shop with a real adapter in front of a server, and one to fall back on."""

    shop: Shop
    server: ModelServer
    other: ModelServer

    async def say(self, text: str = "Xin chào", after: TurnResult | None = None) -> TurnResult:
        return await take(self.shop, text, conversation=after and after.conversation_id)

    @property
    def requests(self) -> int:
        return len(self.server.requests)


@asynccontextmanager
async def served(
    url: str,
    *replies: ServerReply,
    other: tuple[ServerReply, ...] = (),
    base_url: str | None = None,
    limits: dict[str, Any] | None = None,
    keys: dict[str, str] | None = None,
    **model: Any,
) -> AsyncIterator[Served]:
    """`other` are the replies of a second server; with any, the second model falls back to it."""
    model = {"kind": "openai", "name": "shop-7b", "backoff_seconds": 0.001, **model}
    with ModelServer(replies) as server, ModelServer(other) as second:
        if other:
            model |= {"fallback_kind": "openai", "fallback_name": "other-7b"}
            model |= {"fallback_base_url": second.base_url}
        addresses = {"OPENAI_BASE_URL": base_url or server.base_url, **(keys or {})}
        settings = settings_for(url, model=model, limits=limits or {}, **addresses)
        clock = FixedClock(TODAY)
        async with open_container(settings, overrides={"clock": clock}) as container:
            shop = Shop(container=container, clock=clock, model=RelayModel(), url=url)
            yield Served(shop, server, second)


def stored(shop: Shop, result: TurnResult) -> tuple[str, int, int, int]:
    columns = "stop_reason, requests, input_tokens, output_tokens"
    sql = f"SELECT {columns} FROM runs WHERE id = ?"  # noqa: S608 - our own words
    return rows(shop.url, sql, result.run_id)[0]


def cut(reply: ServerReply, fault: str = "cut") -> ServerReply:
    return ServerReply(
        body=reply.body, chunks=reply.chunks, content_type=reply.content_type, fault=fault
    )


# What may pass is asked again; what the reply's words are to blame for is told to the model.
ASKED_AGAIN = {
    "429": failure(429),
    "429 with Retry-After": failure(429, retry_after="0"),
    "408": failure(408),
    "500": failure(500),
    "503": failure(503),
    "529": failure(529),
    "reset before an answer": ServerReply(fault="reset"),
    "cut in the middle": cut(WELL),
    "an error in place of a completion": ServerReply(body=b'{"error":{"code":"overloaded"}}'),
}
TOLD_BACK = {
    "not UTF-8": ServerReply(body=b'{"choices":[{"message":{"content":"\xff\xfe"}}]}'),
    "not JSON": ServerReply(body=b"OK"),
    "an empty body": ServerReply(),
    "no choices": ServerReply(body=b"{}"),
    "an empty answer": completion({"role": "assistant", "content": ""}),
    "a refusal without text": completion({"role": "assistant", "content": None}),
    "a huge body": ServerReply(body=b" " * (5 * 1024 * 1024)),
}


@pytest.mark.parametrize("fault", ASKED_AGAIN.values(), ids=ASKED_AGAIN)
async def test_what_may_pass_is_asked_again_and_the_customer_notices_nothing(shop_url, fault):
    async with served(shop_url, fault, WELL) as it:
        result = await it.say()

        assert (result.stop_reason, result.answer) == (StopReason.ANSWERED, "Chào bạn.")
        assert result.usage.requests == it.requests == 2
        assert it.server.requests[1].body == it.server.requests[0].body
        assert stored(it.shop, result)[1] == 2


@pytest.mark.parametrize("fault", TOLD_BACK.values(), ids=TOLD_BACK)
async def test_a_reply_that_is_no_decision_is_told_to_the_model(shop_url, fault):
    async with served(shop_url, fault, WELL) as it:
        result = await it.say()

        assert (result.stop_reason, result.answer) == (StopReason.ANSWERED, "Chào bạn.")
        assert result.usage.requests == it.requests == 2
        assert "MODEL_REPLY_INVALID" in it.server.requests[1].body.decode()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(fault, StopReason.MODEL_UNAVAILABLE) for fault in ASKED_AGAIN.values()]
    + [(fault, StopReason.REPEATED_ERRORS) for fault in TOLD_BACK.values()],
    ids=[*ASKED_AGAIN, *TOLD_BACK],
)
async def test_a_server_that_goes_on_like_that_ends_in_a_true_answer_and_the_next_message_works(
    shop_url, fault, reason
):
    async with served(shop_url, fault, fault, fault, WELL) as it:
        result = await it.say()

        assert (result.stop_reason, result.answer) == (reason, stop_sentence(reason, "vi"))
        assert result.usage.requests == it.requests == 3
        assert stored(it.shop, result)[:2] == (reason, 3)

        following = await it.say("Còn đó không?", after=result)
        assert (following.stop_reason, following.answer) == (StopReason.ANSWERED, "Chào bạn.")


@pytest.mark.parametrize("fault", ["cut", "reset", "stall"])
async def test_a_stream_that_breaks_off_is_asked_for_again(shop_url, fault):
    half = cut(streamed(WELL), fault)
    limits = {"model_seconds": 1.0} if fault == "stall" else {}
    async with served(shop_url, half, streamed(WELL), stream=True, limits=limits) as it:
        result = await it.say()

        assert (result.stop_reason, result.answer) == (StopReason.ANSWERED, "Chào bạn.")
        assert result.usage.requests == it.requests == 2


async def test_an_attempt_that_takes_too_long_is_given_up_for_another(shop_url):
    limits = {"model_seconds": 1.0}
    async with served(shop_url, ServerReply(fault="hang"), WELL, limits=limits) as it:
        result = await it.say()

        assert (result.stop_reason, result.usage.requests) == (StopReason.ANSWERED, 2)
        # It may have been billed: what was sent is counted, as estimated.
        assert result.usage.input_tokens > SPENT["prompt_tokens"] + 100


async def test_bytes_that_come_too_slowly_do_not_pass_the_deadline(shop_url):
    slow = ServerReply(chunks=(b" ",) * 200, pause_s=0.05)
    async with served(shop_url, slow, WELL, limits={"run_seconds": 1.5}) as it:
        result = await it.say()

        assert result.stop_reason is StopReason.DEADLINE
        assert result.answer == stop_sentence(StopReason.DEADLINE, "vi")
        assert result.usage.requests == it.requests == 1
        assert result.usage.input_tokens > 100

        following = await it.say("Còn đó không?", after=result)
        assert following.stop_reason is StopReason.ANSWERED


@pytest.mark.parametrize("says", ["3600", "Wed, 21 Oct 2099 07:28:00 GMT"])
async def test_nobody_waits_for_a_server_that_asks_for_more_time_than_there_is(shop_url, says):
    async with served(shop_url, failure(429, retry_after=says), WELL) as it:
        result = await it.say()

        assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
        assert result.usage.requests == it.requests == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/v1", "https://127.0.0.1:{port}/v1"])
async def test_a_server_that_cannot_be_reached_is_unavailable_or_a_wrong_setting(shop_url, url):
    """Nothing listens there, or what listens does not speak TLS."""
    with ModelServer() as plain:
        port = plain.base_url.split(":")[2].split("/")[0]
        async with served(shop_url, base_url=url.format(port=port)) as it:
            result = await it.say()

    assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
    assert result.answer == stop_sentence(StopReason.MODEL_UNAVAILABLE, "vi")


async def test_the_second_model_answers_for_the_first_and_what_both_cost_is_counted(shop_url):
    faults = (ServerReply(fault="reset"), failure(503), failure(500))
    async with served(shop_url, *faults, other=(LOOKED_UP, WELL)) as it:
        result = await it.say("Đơn A100 của tôi đâu?")

        assert (result.stop_reason, result.answer) == (StopReason.ANSWERED, "Chào bạn.")
        assert [request.json["model"] for request in it.server.requests] == ["shop-7b"] * 3
        assert [request.json["model"] for request in it.other.requests] == ["other-7b"] * 2
        assert result.usage.requests == 5
        assert stored(it.shop, result)[1] == 5


async def test_another_vendor_goes_on_where_the_first_one_broke_off(shop_url):
    """What the first one signed for itself is not shown to the second; calls and results are."""
    thought = thinks("Khách muốn xem đơn A100.", "c2lnbmVk")
    looked_up = message(thought, asks("lookup_order", {"order_id": "A100"}, call_id="toolu_7"))
    with ModelServer([looked_up, *[failure(529)] * 3]) as first:
        claude = {"kind": "anthropic", "name": "claude-test", "max_output_tokens": 4000}
        keys = {"ANTHROPIC_BASE_URL": first.base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "sk"}
        async with served(shop_url, other=(WELL,), keys=keys, **claude) as it:
            result = await it.say("Đơn A100 của tôi đâu?")

            sent = it.other.requests[0].json["messages"]
            assert (result.stop_reason, result.usage.requests) == (StopReason.ANSWERED, 5)
            assert [one["role"] for one in sent] == ["system", "user", "assistant", "tool"]
            assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"] == "toolu_7"
            assert "c2lnbmVk" not in it.other.requests[0].body.decode()


async def test_a_turn_that_is_cancelled_while_it_waits_to_ask_again_has_counted_the_failure(
    shop_url,
):
    async with served(shop_url, failure(503, retry_after="60"), WELL) as it:
        task = asyncio.create_task(it.say())
        await asyncio.to_thread(it.server.wait_for_requests, 1)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        ((status, reason, requests),) = rows(
            shop_url, "SELECT status, stop_reason, requests FROM runs"
        )
        assert (status, reason) == ("stopped", "cancelled")
        assert requests >= 1
        assert (await it.say()).stop_reason is StopReason.ANSWERED


async def test_a_revoked_key_of_the_first_model_does_not_silence_the_shop(shop_url):
    async with served(shop_url, failure(401), other=(WELL,)) as it:
        result = await it.say()

    assert (result.stop_reason, result.usage.requests) == (StopReason.ANSWERED, 2)


async def test_a_revoked_key_without_a_second_model_is_the_operators_and_the_customer_is_told(
    shop_url,
):
    async with served(shop_url, failure(401), WELL) as it:
        with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
            await it.say()

        sql = "SELECT text FROM messages ORDER BY seq DESC LIMIT 1"
        assert rows(shop_url, sql) == [(stop_sentence(StopReason.MODEL_UNAVAILABLE, "vi"),)]
        assert rows(shop_url, "SELECT stop_reason, requests FROM runs") == [
            ("model_unavailable", 1)
        ]
        assert (await it.say()).stop_reason is StopReason.ANSWERED


async def test_with_both_models_away_the_customer_is_told_so(shop_url):
    faults = (failure(503),) * 3
    async with served(shop_url, *faults, other=faults) as it:
        result = await it.say()

    assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
    assert result.usage.requests == 6


async def test_the_offline_rules_can_stand_in_for_a_server_that_is_away(shop_url):
    faults = (failure(503),) * 3
    async with served(shop_url, *faults, fallback_kind="offline") as it:
        result = await it.say("Đơn A100 của tôi đang ở đâu?")

    assert result.stop_reason is StopReason.ANSWERED
    assert [call.call.name for step in result.steps for call in step.calls] == ["lookup_order"]


@pytest.mark.parametrize("most", [3_000, 6_000])
async def test_attempts_that_were_paid_for_leave_less_for_the_next_one(shop_url, most):
    """Row 28: what a lost attempt used is not there for another one."""
    lost = (ServerReply(fault="hang"),) * 9
    limits = {"model_seconds": 0.2, "max_tokens": most}
    async with served(shop_url, *lost, limits=limits, attempts=9) as it:
        result = await it.say()

        assert result.stop_reason is StopReason.TOKEN_BUDGET
        assert 1 <= it.requests < 9
        assert result.usage.requests == it.requests
        assert 0 < result.usage.tokens <= most


async def test_a_page_of_a_proxy_is_not_asked_for_again(shop_url):
    page = ServerReply(body=b"<html>sign in</html>", content_type="text/html")
    async with served(shop_url, page, WELL) as it:
        result = await it.say()

        assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
        assert result.usage.requests == it.requests == 1
        assert (await it.say(after=result)).answer == "Chào bạn."


TOO_LONG = failure(400, code="context_length_exceeded")


async def test_a_view_that_is_too_long_is_shortened_and_sent_once_more(shop_url):
    async with served(shop_url, LOOKED_UP, WELL, LOOKED_UP, WELL, TOO_LONG, WELL) as it:
        first = await it.say("Đơn A100 của tôi đâu?")
        second = await it.say("Đơn A100 giao ngày nào?", after=first)
        result = await it.say("Cảm ơn nhé", after=second)

        assert (result.stop_reason, result.usage.requests) == (StopReason.ANSWERED, 2)
        refused, sent = it.server.requests[-2:]
        assert len(sent.body) < len(refused.body)
        assert "Cảm ơn nhé" in sent.body.decode()


async def test_a_view_that_is_still_too_long_is_sent_no_third_time(shop_url):
    async with served(shop_url, LOOKED_UP, WELL, *[TOO_LONG] * 9) as it:
        first = await it.say("Đơn A100 của tôi đâu?")
        result = await it.say("Cảm ơn nhé", after=first)

        assert result.stop_reason is StopReason.MODEL_UNAVAILABLE
        assert result.usage.requests == it.requests - 2 == 2


FILED = calls(("quote_refund", '{"order_id":"A100"}'), usage=SPENT)


async def test_a_model_that_fails_after_the_refund_was_filed_files_no_second_one(shop_url):
    """M2: the run stops, is resumed, and the model asks for the same refund again."""
    async with served(shop_url, FILED, answer("Bạn có đồng ý không?")) as it:
        quoted = await it.say("Hoàn tiền đơn A100")
        filing = calls(("request_refund", f'{{"quote_id":"{quoted.quotes[0].id}"}}'))
        it.server.add(filing, *[failure(503)] * 3)
        stopped = await it.say("đồng ý", after=quoted)

        assert stopped.stop_reason is StopReason.MODEL_UNAVAILABLE
        assert len(stopped.requests) == 1
        assert stopped.requests[0].id in stopped.answer  # what happened is told all the same

        it.server.add(filing, answer("Đã gửi ạ."))
        resumed = await resume(it.shop, stopped.run_id)

        assert resumed.stop_reason is StopReason.ANSWERED
        assert [request.id for request in resumed.requests] == [stopped.requests[0].id]
        assert rows(shop_url, "SELECT count(*) FROM refund_requests") == [(1,)]
        assert resumed.usage.requests == 1 + 3 + 2


async def test_a_process_that_dies_while_it_asks_again_has_counted_what_failed(shop_url):
    """And the conversation goes on, once nobody holds it any more."""
    async with open_shop(shop_url) as shop:
        first = await shop.say("Xin chào")
        conversation = first.conversation_id
        job = {"do": "die_asking_again", "url": shop_url, "conversation": conversation}
        assert run_together([job]) == [None]

        sql = "SELECT requests, input_tokens FROM usage_counters WHERE scope = 'conversation'"
        ((requests, input_tokens),) = rows(shop_url, sql)
        assert requests == first.usage.requests + 2  # one that failed, one that was under way
        assert input_tokens > LOST_TOKENS

        await let_leases_end(shop)
        answers = ({"answer": "Về A100."}, {"answer": "Vâng."})
        following = await shop.say("Còn đó không?", *answers, conversation=conversation)
        assert following.stop_reason is StopReason.ANSWERED
        said = rows(shop_url, "SELECT text FROM messages WHERE author = 'agent' ORDER BY seq")
        assert said[1:] == [("Về A100.",), ("Vâng.",)]
        assert rows(shop_url, "SELECT count(*) FROM runs WHERE status = 'running'") == [(0,)]

"""A100 through the Messages API: the real settings, adapter, loop, tools and database."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support_agent.container import open_container
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.refunds import RequestStatus
from support_agent.domain.runs import RunStatus, StopReason
from support_agent.testing.anthropic_replies import (
    asks,
    failed,
    message,
    says,
    thinks,
    thinks_unseen,
)
from support_agent.testing.clock import FixedClock
from support_agent.testing.model_server import ModelServer, ServerReply
from tests.agent_kit import resume, rows, take
from tests.anthropic_kit import KEY, root_of
from tests.crashes import let_leases_end
from tests.kit import TODAY, RelayModel, Shop, settings_for

SPENT = {"input_tokens": 900, "output_tokens": 60, "cache_read_input_tokens": 1100}
THINKING = thinks('Khách "muốn" hoàn tiền A100.\n\\ Xem trước đã… 🧵', "Eq/+QBCkYIBxgC==")
QUOTES = message(
    THINKING,
    thinks_unseen(),
    says("Tôi xem đơn A100."),
    asks("quote_refund", {"order_id": "A100"}, call_id="toolu_01"),
    usage=SPENT,
)
MODEL = {
    "kind": "anthropic",
    "name": "claude-test",
    "max_output_tokens": 4000,
    "thinking_tokens": 2000,
    "backoff_seconds": 0.001,
}


@asynccontextmanager
async def open_shop_at(url: str, server: ModelServer, **model: Any) -> AsyncIterator[Shop]:
    settings = settings_for(
        url, model=MODEL | model, ANTHROPIC_BASE_URL=root_of(server), ANTHROPIC_API_KEY=KEY
    )
    clock = FixedClock(TODAY)
    async with open_container(settings, overrides={"clock": clock}) as container:
        yield Shop(container=container, clock=clock, model=RelayModel(), url=url)


@pytest.fixture
def server():
    with ModelServer() as opened:
        yield opened


def blocks_of(body: Any, kind: str) -> list[Any]:
    return [
        block for sent in body["messages"] for block in sent["content"] if block["type"] == kind
    ]


def stored_state(shop_url: str) -> list[str | None]:
    found = rows(shop_url, "SELECT provider_state FROM steps ORDER BY at, number")
    return [state for (state,) in found]


async def test_a100_is_quoted_agreed_to_filed_and_waits_for_a_person(shop_url, server):
    async with open_shop_at(shop_url, server) as shop:
        server.add(QUOTES, message(says("Bạn có đồng ý không?"), usage=SPENT))
        quoted = await take(shop, "Tôi muốn hoàn tiền đơn A100")

        assert quoted.stop_reason is StopReason.ASKED_CUSTOMER
        assert "250.000\u00a0₫" in quoted.answer
        assert "Tôi xem" not in quoted.answer

        files = asks("request_refund", {"quote_id": quoted.quotes[0].id}, call_id="toolu_02")
        server.add(message(thinks("Khách đồng ý."), files, usage=SPENT))
        server.add(message(says("Đã gửi yêu cầu."), usage=SPENT))
        filed = await take(shop, "đồng ý", conversation=quoted.conversation_id)

        assert filed.status is RunStatus.DONE
        (request,) = filed.requests
        assert request.status is RequestStatus.PENDING_APPROVAL
        assert (request.amount_minor, request.required_level) == (250_000, 1)

    bodies = [received.json for received in server.requests]
    assert all(received.path == "/v1/messages" for received in server.requests)
    assert all(body["max_tokens"] == 4000 and "temperature" not in body for body in bodies)
    assert bodies[1]["messages"][-2]["content"] == json.loads(QUOTES.body)["content"]
    (quote,) = blocks_of(bodies[1], "tool_result")
    assert quote["tool_use_id"] == "toolu_01"
    assert "is_error" not in quote
    # A new run: the thinking of the one before has had its day.
    assert blocks_of(bodies[2], "thinking") == blocks_of(bodies[2], "redacted_thinking") == []
    assert [block["id"] for block in blocks_of(bodies[3], "tool_use")] == ["toolu_01", "toolu_02"]
    assert blocks_of(bodies[3], "thinking") == [thinks("Khách đồng ý.")]
    assert all(body["thinking"]["type"] == "enabled" for body in bodies)
    spent = rows(shop_url, "SELECT sum(requests), sum(input_tokens), sum(output_tokens) FROM runs")
    assert spent == [(4, 4 * 2000, 4 * 60)]


async def test_thinking_comes_back_from_the_database_unchanged_when_a_run_goes_on(shop_url, server):
    """In another process, as far as anyone can tell: nothing of the first one is left."""
    server.add(QUOTES, ServerReply(fault="hang"))
    async with open_shop_at(shop_url, server) as shop:
        under_way = asyncio.create_task(take(shop, "Tôi muốn hoàn tiền đơn A100"))
        await asyncio.to_thread(server.wait_for_requests, 2)
        under_way.cancel()
        await asyncio.wait([under_way])
    [(run_id, reason)] = rows(shop_url, "SELECT id, stop_reason FROM runs")
    assert reason == StopReason.CANCELLED
    server.add(message(says("Bạn có đồng ý không?")))

    async with open_shop_at(shop_url, server) as shop:
        result = await resume(shop, run_id)

    assert [quote.order_id for quote in result.quotes] == ["A100"]
    before, after = server.requests[1:]
    assert after.body == before.body
    for block in (THINKING, thinks_unseen()):
        as_it_came = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
        assert as_it_came.encode() in after.body


async def test_the_conversation_goes_on_after_a_run_that_a_crash_broke_off(shop_url, server):
    """It is ended by the next owner. Its thinking is not shown again, its calls are, with results."""
    replies = (message(says("Bạn có đồng ý không?")), message(says("Vâng, tôi đây.")))
    server.add(QUOTES, ServerReply(fault="hang"), *replies)
    async with open_shop_at(shop_url, server) as shop:
        under_way = asyncio.create_task(take(shop, "Tôi muốn hoàn tiền đơn A100"))
        await asyncio.to_thread(server.wait_for_requests, 2)
        await let_leases_end(shop)
        [(conversation,)] = rows(shop_url, "SELECT id FROM conversations")
        async with open_shop_at(shop_url, server) as other:
            result = await take(other, "Còn đó không?", conversation=conversation)
        under_way.cancel()
        await asyncio.wait([under_way])

    assert result.answer.startswith("Vâng, tôi đây.")
    assert server.requests[2].body == server.requests[1].body  # thinking and all
    body = server.requests[-1].json
    roles = [sent["role"] for sent in body["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text", "tool_use"]
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result"]


async def test_a_model_that_was_replaced_in_the_middle_of_a_run_gets_no_thinking(shop_url, server):
    server.add(QUOTES, failed(400, "invalid_request_error"))
    async with open_shop_at(shop_url, server) as shop:
        stopped = await take(shop, "Tôi muốn hoàn tiền đơn A100")
        assert stopped.stop_reason is StopReason.MODEL_UNAVAILABLE
    server.add(message(says("Bạn có đồng ý không?")))
    async with open_shop_at(shop_url, server, name="claude-newer") as shop:
        await resume(shop, stopped.run_id)

    body = server.requests[-1].json
    assert body["model"] == "claude-newer"
    assert blocks_of(body, "thinking") == blocks_of(body, "redacted_thinking") == []
    assert "thinking" not in body
    assert [block["id"] for block in blocks_of(body, "tool_use")] == ["toolu_01"]


async def test_an_overloaded_server_is_asked_again_and_a_bad_call_is_told_back(shop_url, server):
    server.add(
        failed(529, "overloaded_error", retry_after="0"),
        message(asks("lookup_ordr", {"order_id": "A100"}, call_id="toolu_01")),
        message(asks("lookup_order", {"id": "A100"}, call_id="toolu_02")),
        message(asks("lookup_order", {"order_id": "A100"}, call_id="toolu_03")),
        message(says("Đơn A100 đã giao.")),
    )
    async with open_shop_at(shop_url, server, thinking_tokens=None) as shop:
        result = await take(shop, "Đơn A100 đâu?")

    assert result.stop_reason is StopReason.ANSWERED
    results = blocks_of(server.requests[-1].json, "tool_result")
    assert [entry.get("is_error", False) for entry in results] == [True, True, False]
    assert "lookup_order" in results[0]["content"]
    assert stored_state(shop_url) == [None] * 4


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({}, "ANTHROPIC_API_KEY"),
        ({"OPENAI_API_KEY": KEY}, "ANTHROPIC_API_KEY"),
        (
            {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://models.example"},
            "ANTHROPIC_BASE_URL",
        ),
    ],
)
async def test_a_shop_without_a_usable_key_and_address_says_which_setting(shop_url, given, setting):
    settings = settings_for(shop_url, model=MODEL, **given)
    async with open_container(settings, overrides={"clock": FixedClock(TODAY)}) as container:
        with pytest.raises(ConfigurationError) as caught:
            container.model()

    assert caught.value.setting == setting

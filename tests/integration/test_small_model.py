"""The small model beside the large one: summaries and intents, counted, and never in the way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from support_agent.agent import intent, summaries
from support_agent.agent.turns import TurnResult
from support_agent.container import open_container
from support_agent.domain.runs import StopReason
from support_agent.testing.clock import FixedClock
from support_agent.testing.model_server import ModelServer, ServerReply, answer, failure
from tests.agent_kit import FunctionModel, rows, take
from tests.kit import TODAY, RelayModel, Shop, settings_for

SPENT = {"prompt_tokens": 50, "completion_tokens": 5}
LONG = answer(
    "Dạ vâng. " + "Em xin phép kiểm tra thêm thông tin đơn hàng cho mình. " * 12, usage=SPENT
)
SUMMARY = answer("Khách hỏi về đơn A100 và muốn hoàn tiền.", usage=SPENT)
WISH = "Tôi muốn hoàn tiền đơn A100 vì áo bị rách"


@dataclass
class Two:
    """The sample shop with a large model that talks much, and a small one."""

    shop: Shop
    large: ModelServer
    small: ModelServer

    async def talk(self, turns: int = 4) -> TurnResult:
        """As many turns as make the view too long."""
        result = await take(self.shop, WISH)
        for number in range(1, turns):
            text = f"Còn câu hỏi thứ {number} của tôi thì sao?"
            result = await take(self.shop, text, conversation=result.conversation_id)
        return result

    def facts(self) -> str:
        """What code keeps of what is no longer shown."""
        found = rows(self.shop.url, "SELECT facts FROM compactions ORDER BY number DESC LIMIT 1")
        return str(found[0][0])


@asynccontextmanager
async def two_models(
    url: str, *said: ServerReply, limits: dict[str, Any] | None = None, **model: Any
) -> AsyncIterator[Two]:
    with ModelServer([LONG] * 9) as large, ModelServer(said) as small:
        settings = settings_for(
            url,
            model={
                "kind": "openai",
                "name": "large-70b",
                "backoff_seconds": 0.001,
                "small_kind": "openai",
                "small_name": "small-1b",
                "small_base_url": small.base_url,
                **model,
            },
            limits=limits or {},
            history={"high_water_tokens": 500, "low_water_tokens": 200},
            OPENAI_BASE_URL=large.base_url,
        )
        clock = FixedClock(TODAY)
        async with open_container(settings, overrides={"clock": clock}) as container:
            yield Two(Shop(container, clock, RelayModel(), url), large, small)


def asked(server: ModelServer) -> list[str]:
    """The system text of each request."""
    return [request.json["messages"][0]["content"] for request in server.requests]


async def test_the_small_model_sums_up_and_the_large_one_decides(shop_url):
    async with two_models(shop_url, *[SUMMARY] * 9) as two:
        result = await two.talk()

        assert set(asked(two.small)) == {summaries.SYSTEM}
        assert {request.json["model"] for request in two.small.requests} == {"small-1b"}
        assert "tools" not in two.small.requests[0].json
        assert "Khách hỏi về đơn A100 và muốn hoàn tiền." in two.large.requests[-1].body.decode()
        assert result.stop_reason is StopReason.ANSWERED


async def test_what_the_small_model_costs_is_counted_with_the_run(shop_url):
    async with two_models(shop_url, *[SUMMARY] * 9) as two:
        await two.talk()

        ((requests, tokens),) = rows(shop_url, "SELECT sum(requests), sum(input_tokens) FROM runs")
        asked_for = len(two.large.requests) + len(two.small.requests)
        assert len(two.small.requests) > 0
        assert (requests, tokens) == (asked_for, asked_for * SPENT["prompt_tokens"])


async def test_without_the_setting_nobody_names_the_intent(shop_url):
    async with two_models(shop_url, *[SUMMARY] * 9) as two:
        await two.talk()

        assert intent.SYSTEM not in asked(two.small)
        assert "intents" not in two.facts()


async def test_with_the_setting_the_small_model_names_what_the_customer_wants(shop_url):
    said = [answer("refund"), SUMMARY] * 5
    async with two_models(shop_url, *said, intent="small") as two:
        await two.talk()

        assert asked(two.small)[:2] == [intent.SYSTEM, summaries.SYSTEM]
        assert WISH in two.small.requests[0].body.decode()
        assert '"intents":["refund"]' in two.facts().replace(" ", "")


@pytest.mark.parametrize(
    "said",
    [
        failure(503),
        failure(401),
        ServerReply(fault="reset"),
        ServerReply(body=b"OK"),
        answer("Đơn A100 được duyệt hoàn 10.000.000 đồng."),
        answer(""),
    ],
    ids=["503", "401", "reset", "not JSON", "made up", "empty"],
)
async def test_a_small_model_that_fails_is_done_without(shop_url, said):
    async with two_models(shop_url, *[said] * 40, intent="small") as two:
        result = await two.talk()

        assert result.stop_reason is StopReason.ANSWERED
        assert len(two.small.requests) > 0
        assert "intents" not in two.facts()
        assert "10.000.000" not in two.large.requests[-1].body.decode()
        assert WISH in two.large.requests[-1].body.decode()  # in the facts that code keeps


async def test_a_small_model_that_hangs_takes_a_part_of_the_time_only(shop_url):
    hang = ServerReply(fault="hang")
    async with two_models(shop_url, *[hang] * 9, limits={"run_seconds": 3.0}) as two:
        result = await two.talk()

        assert len(two.small.requests) > 0
        assert result.stop_reason is StopReason.ANSWERED


async def test_a_small_model_that_breaks_breaks_no_run(shop_url):
    def broken(_: object) -> str:
        raise ValueError("a fault of the adapter")

    async with two_models(shop_url) as two:
        two.shop.container.small_model.override(FunctionModel(broken))
        result = await two.talk()

        assert result.stop_reason is StopReason.ANSWERED
        assert rows(shop_url, "SELECT made_by FROM compactions WHERE made_by = 'model'") == []

"""The Messages adapter, and the server behind it that answers to a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import pytest

from support_agent.adapters.models.anthropic import AnthropicModel
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import CustomerTurn, ModelReply, ModelRequest, ToolSpec, Turn
from support_agent.testing.anthropic_replies import message, on_the_wire, says
from support_agent.testing.model_contract import Lines, OpenedModel
from support_agent.testing.model_server import ModelServer, ServerReply
from support_agent.testing.script import script_line

KEY = "sk-ant-test-4f9a1c"
TODAY = date(2026, 10, 13)
QUESTION = CustomerTurn(text="Đơn A100 đâu?", today=TODAY)
TOOL = ToolSpec(
    name="lookup_order",
    description="Tra cứu đơn hàng.",
    parameters={"type": "object", "properties": {"order_id": {"type": "string"}}},
)


def root_of(server: ModelServer) -> str:
    """The base URL as this API counts it: the path begins with /v1."""
    return server.base_url.removesuffix("/v1")


def request(*turns: Turn, **fields: Any) -> ModelRequest:
    defaults: dict[str, Any] = {
        "conversation_id": "cv_1",
        "run_id": "rn_1",
        "step": 2,
        "system": "Bạn là nhân viên.",
        "tools": (TOOL,),
        "turns": turns or (QUESTION,),
        "timeout_s": 30.0,
    }
    return ModelRequest(**(defaults | fields))


def call_of(
    name: str = "lookup_order",
    arguments: str = '{"order_id":"A100"}',
    *,
    provider_id: str = "toolu_1",
    index: int = 0,
) -> ToolCall:
    return ToolCall(id=f"rn_1:1:{index}", provider_id=provider_id, name=name, arguments=arguments)


def model_at(base_url: str | None, **settings: Any) -> AnthropicModel:
    defaults = {"name": "claude-test", "api_key": KEY, "timeout_s": 30}
    return AnthropicModel(base_url=base_url, **(defaults | settings))


@asynccontextmanager
async def served(
    *replies: ServerReply, **settings: Any
) -> AsyncIterator[tuple[AnthropicModel, ModelServer]]:
    """A model and the server behind it, which sends `replies` in order."""
    with ModelServer(replies) as server:
        model = model_at(root_of(server), **settings)
        yield model, server
        await model.aclose()


async def decided(reply: ServerReply, **settings: Any) -> ModelReply:
    async with served(reply, **settings) as (model, _):
        return await model.decide(request())


async def refused(
    reply: ServerReply, error: type[SupportAgentError] = SupportAgentError, **settings: Any
) -> Any:
    """The error that a reply leads to."""
    async with served(reply, **settings) as (model, _):
        with pytest.raises(error) as caught:
            await model.decide(request())
        return caught.value


async def body_for(*turns: Turn, fields: Any = None, **settings: Any) -> Any:
    """The body that a server gets for some turns."""
    async with served(message(says("Dạ")), **settings) as (model, server):
        await model.decide(request(*turns, **(fields or {})))
        return server.requests[0].json


@asynccontextmanager
async def open_anthropic(lines: Lines) -> AsyncIterator[OpenedModel]:
    """The adapter under the contract."""
    replies = [on_the_wire(script_line(number, line)) for number, line in enumerate(lines, 1)]
    with ModelServer(replies) as server:
        model = model_at(root_of(server), api_key=None, timeout_s=3600)
        yield OpenedModel(
            model=model,
            asked=lambda count: asyncio.to_thread(server.wait_for_requests, count),
            bodies=lambda: [received.body for received in server.requests],
        )
        await model.aclose()

"""What the tests of the chat-completion adapter share: a model, a server behind it, a request."""

from contextlib import asynccontextmanager
from datetime import date

import pytest

from support_agent.adapters.models.openai import OpenAIModel
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.runs import ToolCall
from support_agent.ports.model import CustomerTurn, ModelRequest, ToolSpec
from support_agent.testing.model_server import ModelServer, answer

KEY = "sk-test-4f9a1c"
TODAY = date(2026, 10, 13)
TOOL = ToolSpec(
    name="lookup_order",
    description="Tra cứu đơn hàng.",
    parameters={"type": "object", "properties": {"order_id": {"type": "string"}}},
)


def request(*turns, timeout_s=30.0, tools=(TOOL,), **fields):
    return ModelRequest(
        conversation_id="cv_1",
        run_id="rn_1",
        step=2,
        system="Bạn là nhân viên.",
        tools=tools,
        turns=turns or (CustomerTurn(text="Đơn A100 đâu?", today=TODAY),),
        timeout_s=timeout_s,
        **fields,
    )


def model_at(base_url, **settings):
    defaults = {"name": "test-model", "api_key": KEY, "timeout_s": 30}
    return OpenAIModel(base_url=base_url, **(defaults | settings))


@asynccontextmanager
async def served(*replies, server=None, **settings):
    """A model and the server behind it, which sends `replies` in order."""
    with server or ModelServer(replies) as running:
        model = model_at(running.base_url, **settings)
        yield model, running
        await model.aclose()


async def decided(reply, **settings):
    async with served(reply, **settings) as (model, _):
        return await model.decide(request())


async def refused(reply, error=SupportAgentError, *, timeout_s=30.0, **settings):
    """The error that a reply leads to."""
    async with served(reply, **settings) as (model, _):
        with pytest.raises(error) as caught:
            await model.decide(request(timeout_s=timeout_s))
        return caught.value


async def sent_for(*turns):
    """The messages that a server gets for some turns, without the system message."""
    async with served(answer("Dạ")) as (model, server):
        await model.decide(request(*turns))
        return server.requests[0].json["messages"][1:]


def call_of(name="lookup_order", arguments='{"order_id":"A100"}', provider_id="p1"):
    return ToolCall(id="rn_1:1:0", provider_id=provider_id, name=name, arguments=arguments)

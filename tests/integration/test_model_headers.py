"""A model server is sent what our settings say, and nothing else that the environment holds."""

from collections.abc import Callable

import pytest

from support_agent.adapters.models.anthropic import AnthropicModel
from support_agent.adapters.models.openai import OpenAIModel
from support_agent.ports.model import ChatModel
from support_agent.testing.anthropic_replies import message, says
from support_agent.testing.model_server import ModelServer, ServerReply, answer
from tests.model_kit import asked

FOREIGN = "of-another-gateway"
VARIABLES = {
    "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {FOREIGN}\nX-Gate: {FOREIGN}",
    "OPENAI_ORG_ID": FOREIGN,
    "OPENAI_PROJECT_ID": FOREIGN,
    "OPENAI_ADMIN_KEY": FOREIGN,
    "ANTHROPIC_CUSTOM_HEADERS": f"Authorization: Bearer {FOREIGN}\nX-Gate: {FOREIGN}",
    "ANTHROPIC_AUTH_TOKEN": FOREIGN,
}


def openai(server: ModelServer) -> ChatModel:
    return OpenAIModel(name="m", base_url=server.base_url, api_key="own", timeout_s=5)


def anthropic(server: ModelServer) -> ChatModel:
    url = server.base_url.removesuffix("/v1")
    return AnthropicModel(name="m", base_url=url, api_key="own", timeout_s=5)


@pytest.mark.parametrize(
    ("build", "reply"), [(openai, answer("Dạ.")), (anthropic, message(says("Dạ.")))]
)
async def test_headers_of_the_environment_go_nowhere(
    monkeypatch: pytest.MonkeyPatch, build: Callable[[ModelServer], ChatModel], reply: ServerReply
):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with ModelServer([reply]) as server:
        model = build(server)
        await model.decide(asked())
        await model.aclose()
        sent = server.requests[0].headers

    assert not [name for name, value in sent.items() if FOREIGN in value]
    assert sent["authorization"] == "Bearer own"

"""Any server that speaks OpenAI chat completions with native tool calls."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from support_agent.adapters.models.chat_address import NAME_SETTING, chat_address
from support_agent.adapters.models.chat_http import ChatHttp
from support_agent.adapters.models.chat_messages import chat_messages, chat_tools
from support_agent.adapters.models.chat_replies import read_reply
from support_agent.adapters.prices import Price
from support_agent.domain.errors import ConfigurationError
from support_agent.ports.model import ModelReply, ModelRequest, ToolSpec

MAX_OUTPUT_TOKENS = 1024


class OpenAIModel:
    """Asks `name` at `base_url` (None: OpenAI itself) once a call; it never retries.

    A model without an entry in `prices` is counted as free of charge.

    Raises:
        ConfigurationError: no model name, a bad address, a missing key; at construction.
    """

    def __init__(
        self,
        *,
        name: str,
        base_url: str | None,
        api_key: SecretStr | str | None,
        timeout_s: float,
        prices: Mapping[str, Price] | None = None,
        max_output_tokens: int = MAX_OUTPUT_TOKENS,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("is missing; name the model to ask", setting=NAME_SETTING)
        key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
        address = chat_address(base_url, key)
        # OpenAI's newer models refuse `max_tokens`; most other servers know nothing else.
        limit = "max_completion_tokens" if address.is_openai else "max_tokens"
        self._settings: dict[str, Any] = {"model": name, limit: max_output_tokens}
        self._timeout_s = timeout_s
        self._price = (prices or {}).get(name)
        self._tools: tuple[tuple[ToolSpec, ...], list[dict[str, Any]]] = ((), [])
        self._http = ChatHttp(address)

    async def decide(self, request: ModelRequest) -> ModelReply:
        body = {**self._settings, "messages": chat_messages(request)}
        if request.tools:
            body |= {"tools": self._tool_dicts(request.tools), "tool_choice": "auto"}
        timeout_s = min(self._timeout_s, request.timeout_s)
        reply = await self._http.post(body, timeout_s=timeout_s)
        prefix = f"{request.run_id}:{request.step}"
        return read_reply(reply, call_prefix=prefix, price=self._price)

    async def aclose(self) -> None:
        await self._http.aclose()

    def _tool_dicts(self, tools: tuple[ToolSpec, ...]) -> list[dict[str, Any]]:
        """The same list as long as the tools are the same: they hardly ever change."""
        known, dicts = self._tools
        if known != tools:
            dicts = chat_tools(tools)
            self._tools = (tools, dicts)
        return dicts

"""Any server that speaks the Messages API: Claude, thinking or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from support_agent.adapters.models.anthropic_errors import ANTHROPIC, THINKING_SETTING
from support_agent.adapters.models.anthropic_http import AnthropicHttp
from support_agent.adapters.models.anthropic_messages import (
    WrittenMessages,
    system_blocks,
    tool_blocks,
    write_messages,
)
from support_agent.adapters.models.anthropic_replies import read_message
from support_agent.adapters.models.anthropic_thinking import Block, thinking_state
from support_agent.adapters.models.chat_address import NAME_SETTING, chat_address
from support_agent.adapters.models.chat_http import encoded
from support_agent.adapters.models.chat_transport import Transport
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price
from support_agent.ports.model import ModelReply, ModelRequest, ToolSpec

MAX_OUTPUT_TOKENS = 1024
LEAST_THINKING = 1024  # the API takes no smaller budget


class AnthropicModel:
    """Asks `name` at `base_url` (None: Anthropic itself) once a call; it never retries.

    With `thinking_tokens` it asks an older model to think; newer ones think by themselves. Signed
    thinking goes with a step and is shown to the same model again while its run lasts. A model
    without an entry in `prices` is counted as free of charge.

    Raises:
        ConfigurationError: no model name, a bad address, a missing key, too few or too many tokens
            to think with, the extra is not installed; at construction.
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
        thinking_tokens: int | None = None,
        transport: Transport | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("is missing; name the model to ask", setting=NAME_SETTING)
        _check_thinking(thinking_tokens, max_output_tokens)
        key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
        address = chat_address(base_url, key, vendor=ANTHROPIC)
        self._name = name
        self._timeout_s = timeout_s
        self._price = (prices or {}).get(name)
        self._max_output_tokens = max_output_tokens
        self._thinking_tokens = thinking_tokens
        self._offer = _Offer(tools=(), blocks=[], names=frozenset())
        self._http = AnthropicHttp(address, price=self._price, transport=transport)

    async def decide(self, request: ModelRequest) -> ModelReply:
        offer = self._offered(request.tools)
        written = write_messages(request, model=self._name, tools=offer.blocks)
        content = encoded(self._body(request, written, offer.blocks))
        timeout_s = min(self._timeout_s, request.timeout_s)
        answer = await self._http.post(content, timeout_s=timeout_s)

        def state(content: Sequence[Block]) -> str:
            after = written.prefix.mark(written.messages)
            return thinking_state(content, model=self._name, after=after)

        return read_message(
            answer,
            call_prefix=f"{request.run_id}:{request.step}",
            tool_names=offer.names,
            price=self._price,
            state=state,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    def _body(
        self, request: ModelRequest, written: WrittenMessages, tools: list[Block]
    ) -> dict[str, Any]:
        limit = min(self._max_output_tokens, request.max_output_tokens or self._max_output_tokens)
        body: dict[str, Any] = {"model": self._name, "max_tokens": limit}
        thinking = self._thinking_tokens
        if thinking is not None and thinking < limit and written.thinking_is_whole:
            body["thinking"] = {"type": "enabled", "budget_tokens": thinking}
        if request.system.strip():
            body["system"] = system_blocks(request.system)
        if tools:
            body["tools"] = tools
        return body | {"messages": written.messages}

    def _offered(self, tools: tuple[ToolSpec, ...]) -> "_Offer":
        """The same as long as the tools are the same: they hardly ever change."""
        if self._offer.tools != tools:
            names = frozenset(tool.name for tool in tools)
            self._offer = _Offer(tools=tools, blocks=tool_blocks(tools), names=names)
        return self._offer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """Tools as they are sent, and their names."""

    tools: tuple[ToolSpec, ...]
    blocks: list[Block]
    names: frozenset[str]


def _check_thinking(thinking_tokens: int | None, max_output_tokens: int) -> None:
    if thinking_tokens is None:
        return
    if thinking_tokens < LEAST_THINKING:
        raise ConfigurationError(
            f"must be {LEAST_THINKING} at least, not {thinking_tokens}", setting=THINKING_SETTING
        )
    if thinking_tokens >= max_output_tokens:
        raise ConfigurationError(
            f"must be below SUPPORT_AGENT_MODEL__MAX_OUTPUT_TOKENS, which is {max_output_tokens} "
            "and counts thinking too",
            setting=THINKING_SETTING,
        )

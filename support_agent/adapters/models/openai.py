"""Any server that speaks OpenAI chat completions with native tool calls."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from support_agent.adapters.models.chat_address import NAME_SETTING, chat_address
from support_agent.adapters.models.chat_http import ChatHttp, encoded
from support_agent.adapters.models.chat_messages import chat_messages, chat_tools
from support_agent.adapters.models.chat_replies import read_reply
from support_agent.adapters.models.chat_transport import Transport
from support_agent.domain.errors import ConfigurationError
from support_agent.domain.prices import Price
from support_agent.ports.model import ModelReply, ModelRequest, ToolSpec

MAX_OUTPUT_TOKENS = 1024
_LONGEST_ID = (
    40  # of a call, for OpenAI; others take what they made, which may hold more than a name
)


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
        stream: bool = False,
        transport: Transport | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("is missing; name the model to ask", setting=NAME_SETTING)
        key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
        address = chat_address(base_url, key)
        # OpenAI's newer models refuse `max_tokens`; most other servers know nothing else.
        self._limit = "max_completion_tokens" if address.is_openai else "max_tokens"
        self._longest_id = _LONGEST_ID if address.is_openai else None
        self._max_output_tokens = max_output_tokens
        self._settings: dict[str, Any] = {"model": name}
        if stream:
            self._settings |= {"stream": True, "stream_options": {"include_usage": True}}
        self._timeout_s = timeout_s
        self._offer = _Offer(())
        self._http = ChatHttp(address, price=(prices or {}).get(name), transport=transport)

    async def decide(self, request: ModelRequest) -> ModelReply:
        offer = self._offer_of(request.tools)
        completion = await self._http.post(
            self._body(request, offer), timeout_s=min(self._timeout_s, request.timeout_s)
        )
        prefix = f"{request.run_id}:{request.step}"
        return read_reply(completion, call_prefix=prefix, tool_names=offer.names)

    async def aclose(self) -> None:
        await self._http.aclose()

    def _body(self, request: ModelRequest, offer: "_Offer") -> bytes:
        left = request.max_output_tokens
        most = self._max_output_tokens
        limit = {self._limit: most if left is None else max(1, min(left, most))}
        messages = chat_messages(request, longest_id=self._longest_id)
        head = encoded({**self._settings, **limit, "messages": messages})
        return head[:-1] + offer.members + b"}"

    def _offer_of(self, tools: tuple[ToolSpec, ...]) -> "_Offer":
        """The same one as long as the tools are the same: they hardly ever change."""
        offer = self._offer
        if offer.tools is not tools and offer.tools != tools:
            offer = self._offer = _Offer(tools)
        return offer


class _Offer:
    """The tools of a request, with the members of the body that offer them."""

    def __init__(self, tools: tuple[ToolSpec, ...]) -> None:
        self.tools = tools
        self.names = frozenset(tool.name for tool in tools)
        self.members = b""
        if tools:
            offered = {"tools": chat_tools(tools), "tool_choice": "auto"}
            self.members = b"," + encoded(offered)[1:-1]

"""Models without tool calling, over chat completions: they write each step as JSON."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import SecretStr

from support_agent.adapters.models.chat_address import NAME_SETTING, chat_address
from support_agent.adapters.models.chat_http import ChatHttp, encoded
from support_agent.adapters.models.chat_replies import read_reply
from support_agent.adapters.models.chat_transport import Transport
from support_agent.adapters.models.json_protocol import json_messages, json_system, step_schema
from support_agent.adapters.models.openai import MAX_OUTPUT_TOKENS
from support_agent.domain.errors import ConfigurationError, ContextTooLong, ModelUnavailable
from support_agent.domain.prices import Price
from support_agent.ports.model import ModelReply, ModelRequest, ToolSpec


class JsonModel:
    """Asks `name` at `base_url` once a call, in the protocol of `json_protocol`.

    With `schema` "on" the server is told to hold the model to the JSON schema of a step. With
    "auto" it is told so until it refuses: that call raises ModelUnavailable that may pass at once,
    and from then on nothing more is said of it. Replies are read alike with and without.

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
        schema: Literal["auto", "on", "off"] = "auto",
        transport: Transport | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("is missing; name the model to ask", setting=NAME_SETTING)
        key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
        address = chat_address(base_url, key)
        self._limit = "max_completion_tokens" if address.is_openai else "max_tokens"
        self._max_output_tokens = max_output_tokens
        self._settings: dict[str, Any] = {"model": name}
        if stream:
            self._settings |= {"stream": True, "stream_options": {"include_usage": True}}
        self._timeout_s = timeout_s
        self._sends_schema = schema != "off"
        self._schema_is_known = schema != "auto"
        self._offer = _Offer("", ())
        self._http = ChatHttp(address, price=(prices or {}).get(name), transport=transport)

    async def decide(self, request: ModelRequest) -> ModelReply:
        offer = self._offer_of(request)
        sent_schema = self._sends_schema and bool(offer.schema)
        try:
            completion = await self._http.post(
                self._body(request, offer), timeout_s=min(self._timeout_s, request.timeout_s)
            )
        except ContextTooLong:
            raise
        except ModelUnavailable as error:
            # Refused for what it is: the schema is the part that a server may not know.
            if error.may_pass or self._schema_is_known or not sent_schema:
                raise
            self._sends_schema = False
            told = f"{error}; asked without a schema from now on"
            raise ModelUnavailable(told, retry_after=0.0, usage=error.usage) from error
        self._schema_is_known |= sent_schema
        prefix = f"{request.run_id}:{request.step}"
        return read_reply(completion, call_prefix=prefix, tool_names=offer.names)

    async def aclose(self) -> None:
        await self._http.aclose()

    def _body(self, request: ModelRequest, offer: "_Offer") -> bytes:
        asked = request.max_output_tokens or self._max_output_tokens
        limit = {self._limit: min(asked, self._max_output_tokens)}
        messages = json_messages(offer.text, request.turns)
        head = encoded({**self._settings, **limit, "messages": messages})
        return head[:-1] + offer.schema + b"}" if self._sends_schema else head

    def _offer_of(self, request: ModelRequest) -> "_Offer":
        """The same one as long as system text and tools are the same: they hardly ever change."""
        offer, system, tools = self._offer, request.system, request.tools
        if offer.system != system or (offer.tools is not tools and offer.tools != tools):
            offer = self._offer = _Offer(system, tools)
        return offer


class _Offer:
    """What stands at the head of each request: system text and schema for some tools."""

    def __init__(self, system: str, tools: tuple[ToolSpec, ...]) -> None:
        self.system = system
        self.tools = tools
        self.names = frozenset(tool.name for tool in tools)
        self.text = json_system(system, tools)
        form = {"name": "step", "schema": step_schema(tools)}
        told = {"response_format": {"type": "json_schema", "json_schema": form}}
        # Without tools there is nothing to choose: plain words will do.
        self.schema = b"," + encoded(told)[1:-1] if tools else b""

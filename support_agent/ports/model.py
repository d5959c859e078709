"""The only door to a language model."""

from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from support_agent.domain.reasons import Language
from support_agent.domain.runs import Decision, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model sees it; `parameters` is a JSON schema, built once."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerTurn:
    """What the customer wrote, untrusted, with the business date it is answered on."""

    text: str
    today: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurn:
    """What the customer was told: the model's words and the sentences code put beside them."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantCalls:
    """Calls the model made. Each is answered by exactly one `ToolResult` before the next turn."""

    calls: tuple[ToolCall, ...]
    thought: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to, in the words of `Observation.content`; data, never instructions."""

    call: ToolCall
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Code tells the model that its last reply was not usable and why."""

    text: str


Turn = CustomerTurn | AssistantTurn | AssistantCalls | ToolResult | Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to the model. `turns` is pair-safe: every call stands with its result.

    `language` is the conversation's: a message that does not show its own is answered in it.
    `call_index` numbers the model calls of the conversation from 0, over runs and processes;
    failed calls count, and asking again after one is another call.
    """

    conversation_id: str
    run_id: str
    step: int  # of this run, from 1: names the calls `run_id:step:index`
    system: str
    tools: tuple[ToolSpec, ...]
    turns: tuple[Turn, ...]
    timeout_s: float
    call_index: int = 0
    language: Language = "vi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """A decision and what it cost; `usage.requests` counts every attempt that was sent."""

    decision: Decision
    usage: Usage


class ChatModel(Protocol):
    """Decides the next step from the conversation so far.

    Invariants:
        - Call ids are `f"{request.run_id}:{request.step}:{index}"`, index from 0; the provider's
          own id goes into `provider_id` untouched (made up where it is missing or repeated).
        - Nothing is executed here and nothing is remembered between calls: the request is all.
        - Arguments are passed on as text, not repaired and not validated.

    Raises:
        ModelUnavailable: no answer (time-out, connection, 429, 5xx).
        ModelReplyInvalid: an answer that is no decision; the caller tells the model and goes on.
    """

    async def decide(self, request: ModelRequest) -> ModelReply: ...

    async def aclose(self) -> None: ...

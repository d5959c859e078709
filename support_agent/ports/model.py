"""The only door to a language model."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
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
    """What the customer wrote, untrusted, with the business date it is answered on.

    `note` is code's: how they want to be served, where that was known before.
    """

    text: str
    today: date
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantTurn:
    """What the customer was told: the model's words and the sentences code put beside them."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantCalls:
    """Calls the model made. Each is answered by exactly one `ToolResult` before the next turn."""

    calls: tuple[ToolCall, ...]
    thought: str = ""
    provider_state: str = ""  # see CallTools: only the adapter that made it reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call came to, in the words of `Observation.content`; data, never instructions."""

    call: ToolCall
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Code tells the model that its last reply was not usable and why."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recap:
    """What stands for turns that are no longer shown: facts code keeps, then a summary.

    `facts` is compact JSON made by code; `summary` may be a model's words or the customer's: both
    are data, never instructions. `note` as of a customer's turn.
    """

    facts: str
    summary: str
    note: str = ""


Turn = CustomerTurn | AssistantTurn | AssistantCalls | ToolResult | Correction | Recap


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to the model. `turns` is pair-safe: every call stands with its result.

    `language` is the conversation's: a message that does not show its own is answered in it.
    `call_index` numbers the model calls of the conversation from 0, over runs and processes;
    failed calls count, and asking again after one is another call.

    `timeout_s` is for all attempts together. Whoever sends the request once more, to this model or
    to another, asks `again` first, with what it has cost so far: the most output tokens the next
    attempt may have come back, or None when nothing is left for one.
    """

    conversation_id: str
    run_id: str
    step: int  # of this run, from 1: names the calls `run_id:step:index`
    system: str
    tools: tuple[ToolSpec, ...]
    turns: tuple[Turn, ...]
    timeout_s: float
    max_output_tokens: int | None = None  # what the budget leaves; the adapter's own limit stands
    call_index: int = 0
    language: Language = "vi"
    again: Callable[[Usage], Awaitable[int | None]] | None = field(
        default=None, repr=False, compare=False
    )


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
        - An adapter asks once a call; what asks again or elsewhere is a wrapper around it.
        - It gives up after `timeout_s`; what does not is cut off at the deadline of the run.

    Raises:
        ContextTooLong: the request is longer than the model can read.
        ModelUnavailable: no answer (time-out, connection, 429, 5xx); has what it cost.
        ModelReplyInvalid: an answer that is no decision; the caller tells the model and goes on.
        ConfigurationError: key, model or address are refused.
    """

    async def decide(self, request: ModelRequest) -> ModelReply: ...

    async def aclose(self) -> None: ...

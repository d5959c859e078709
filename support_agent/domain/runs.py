"""What one run of the agent loop is made of: decisions, calls, observations, and why it stopped."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from support_agent.domain.conversation import Assurance

# How steps are recorded today. A step of a higher one was recorded by a newer program, which is not
# guessed at: whoever reads it raises NewerState. Lower ones stay readable.
STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call the model asked for.

    `id` is ours (`run_id:step:index`); `provider_id` is only echoed to the provider.
    `arguments` is the model's text as it came, usually JSON.
    """

    id: str
    provider_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTools:
    """Calls to make.

    `provider_state` is the adapter's own text, signed thinking for one: it is stored with the step
    and shown to the same adapter again, unchanged. To everyone else it is nothing.
    """

    calls: tuple[ToolCall, ...]
    thought: str = ""
    provider_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalAnswer:
    text: str
    thought: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskCustomer:
    question: str
    thought: str = ""


Decision = CallTools | FinalAnswer | AskCustomer


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a call came to: `content` is compact UTF-8 JSON, or starts with ERROR."""

    ok: bool
    content: str
    error_code: str | None = None
    quote_ids: tuple[str, ...] = ()  # quotes made: code shows them with the answer
    request_ids: tuple[str, ...] = ()  # requests spoken of: code states their status


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What model calls cost. Tokens as the server counted; cost in millionths of a USD."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=self.requests - other.requests,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            cost_micros=self.cost_micros - other.cost_micros,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class StopReason(StrEnum):
    ANSWERED = "answered"
    ASKED_CUSTOMER = "asked_customer"
    HANDED_OFF = "handed_off"
    MAX_STEPS = "max_steps"
    DEADLINE = "deadline"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - a word, not a secret
    COST_BUDGET = "cost_budget"
    REPEATED_ERRORS = "repeated_errors"
    NO_PROGRESS = "no_progress"
    MODEL_UNAVAILABLE = "model_unavailable"
    CANCELLED = "cancelled"


class RunStatus(StrEnum):
    RUNNING = "running"
    WAITING_CUSTOMER = "waiting_customer"
    DONE = "done"
    STOPPED = "stopped"
    HANDED_OFF = "handed_off"
    DEAD = "dead"


STATUS_OF_STOP: Mapping[StopReason, RunStatus] = MappingProxyType(
    {
        StopReason.ANSWERED: RunStatus.DONE,
        StopReason.ASKED_CUSTOMER: RunStatus.WAITING_CUSTOMER,
        StopReason.HANDED_OFF: RunStatus.HANDED_OFF,
    }
)


def status_of(stop: StopReason) -> RunStatus:
    """The run's status once it ended for this reason; every limit leaves it STOPPED."""
    return STATUS_OF_STOP.get(stop, RunStatus.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One turn of the agent, from what the customer wrote to what it ended in."""

    id: str
    conversation_id: str
    trigger_seq: int  # the last message there was when it began: it answers all up to it
    status: RunStatus
    stop_reason: StopReason | None
    operator: str | None
    started_at: datetime
    assurance: Assurance  # how sure the channel was of who wrote the message
    usage: Usage = field(default_factory=Usage)
    steps: int = 0
    consecutive_errors: int = 0
    epoch: int = 0
    # How many owners it had since one of them got on with it; who stops in good order counts not.
    attempts: int = 1
    answer_seq: int | None = None  # the message that it ended with


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call with what came of it; None while it is not answered."""

    call: ToolCall
    observation: Observation | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One committed decision of a run, numbered from 1, with its calls' observations."""

    run_id: str
    number: int
    decision: Decision
    usage: Usage
    at: datetime
    calls: tuple[RecordedCall, ...] = ()

"""What a run may spend, counted as it goes; the counters continue when a run is resumed."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field

from support_agent.domain.prices import Price
from support_agent.domain.runs import StopReason, ToolCall, Usage

LEAST_OUTPUT_TOKENS = 64  # with fewer no answer is worth asking for
# Codes of calls that were answered without being executed.
TOO_MANY_CALLS = "TOO_MANY_CALLS"
NOT_EXECUTED = "NOT_EXECUTED"
WITHOUT_RUNNING = frozenset({TOO_MANY_CALLS, NOT_EXECUTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of one run, from settings. Times in seconds, cost in millionths of a USD."""

    max_steps: int
    max_calls_per_step: int
    max_tool_calls: int
    run_seconds: float
    tool_seconds: float
    max_tokens: int
    max_cost_micros: int | None
    max_consecutive_errors: int
    max_identical_calls: int


@dataclass(slots=True, kw_only=True)
class Budget:
    """The counters of one run. Business time plays no part: the deadline is monotonic."""

    limits: RunLimits
    usage: Usage = field(default_factory=Usage)
    steps: int = 0  # model calls, also those whose reply was not usable
    consecutive_errors: int = 0
    tool_calls: int = 0  # that were executed
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        return self.started + self.limits.run_seconds - time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.seconds_left <= 0

    def model_timeout(self) -> float:
        """For a decision with all its attempts; how long one may take is the model's to know."""
        return max(0.0, self.seconds_left)

    def tool_timeout(self) -> float:
        return max(0.0, min(self.limits.tool_seconds, self.seconds_left))

    def output_room(self, input_tokens: int, price: Price | None) -> int | StopReason:
        """The most tokens an answer to a request of this size may have.

        A limit that leaves too few comes back instead: then the request is not made.
        """
        room = self.limits.max_tokens - self.usage.tokens - input_tokens
        if room < LEAST_OUTPUT_TOKENS:
            return StopReason.TOKEN_BUDGET
        cap = self.limits.max_cost_micros
        if cap is None or price is None:
            return room
        affordable = price.output_tokens(cap - self.usage.cost_micros, input_tokens)
        if affordable < LEAST_OUTPUT_TOKENS:
            return StopReason.COST_BUDGET
        return min(room, affordable)

    def no_more_calls(self) -> StopReason | None:
        """Why no further tool may run, if so."""
        if self.is_late:
            return StopReason.DEADLINE
        if self.tool_calls >= self.limits.max_tool_calls:
            return StopReason.MAX_STEPS
        return None

    def spent(self) -> StopReason | None:
        """Why no further step may be taken, if so."""
        if self.is_late:
            return StopReason.DEADLINE
        if self.steps >= self.limits.max_steps:
            return StopReason.MAX_STEPS
        if self.usage.tokens >= self.limits.max_tokens:
            return StopReason.TOKEN_BUDGET
        cap = self.limits.max_cost_micros
        if cap is not None and self.usage.cost_micros >= cap:
            return StopReason.COST_BUDGET
        return None

    def standing(self) -> StopReason | None:
        """Why the step that was broken off may run no further call, if so."""
        if self.consecutive_errors >= self.limits.max_consecutive_errors:
            return StopReason.REPEATED_ERRORS
        if any(times >= self.limits.max_identical_calls for times in self.calls.values()):
            return StopReason.NO_PROGRESS
        return None

    def note_result(self, *, ok: bool) -> StopReason | None:
        """Count an observation; errors in a row stop the run."""
        self.consecutive_errors = 0 if ok else self.consecutive_errors + 1
        if self.consecutive_errors >= self.limits.max_consecutive_errors:
            return StopReason.REPEATED_ERRORS
        return None

    def note_call(self, call: ToolCall) -> StopReason | None:
        """Count a call; the same one again and again stops the run before it is executed."""
        what = what_is_asked(call)
        self.calls[what] += 1
        if self.calls[what] >= self.limits.max_identical_calls:
            return StopReason.NO_PROGRESS
        return None


def what_is_asked(call: ToolCall) -> tuple[str, str]:
    """Equal for two calls that ask the same: key order and white space do not count."""
    try:
        arguments = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return call.name, arguments

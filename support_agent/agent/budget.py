"""What a run may spend, counted as it goes; the counters continue when a run is resumed."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field

from support_agent.domain.runs import StopReason, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of one run, from settings. Times in seconds, cost in millionths of a USD."""

    max_steps: int
    max_calls_per_step: int
    run_seconds: float
    model_seconds: float
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
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds_left(self) -> float:
        return self.started + self.limits.run_seconds - time.monotonic()

    @property
    def is_late(self) -> bool:
        return self.seconds_left <= 0

    def model_timeout(self) -> float:
        return max(0.0, min(self.limits.model_seconds, self.seconds_left))

    def tool_timeout(self) -> float:
        return max(0.0, min(self.limits.tool_seconds, self.seconds_left))

    def spent(self) -> StopReason | None:
        """Why no further step may be taken, if so."""
        if self.is_late:
            return StopReason.DEADLINE
        if self.steps >= self.limits.max_steps:
            return StopReason.MAX_STEPS
        if self.usage.input_tokens + self.usage.output_tokens >= self.limits.max_tokens:
            return StopReason.TOKEN_BUDGET
        cap = self.limits.max_cost_micros
        if cap is not None and self.usage.cost_micros >= cap:
            return StopReason.COST_BUDGET
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

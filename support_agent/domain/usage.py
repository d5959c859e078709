"""Who a model's work is counted for, and how much of it each may have."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from support_agent.domain.runs import StopReason, Usage

INSTALLATION = "installation"  # the subject of what is counted for the whole shop


class Scope(StrEnum):
    """What is counted together: a conversation for its whole life, the others by the day."""

    CONVERSATION = "conversation"
    CUSTOMER = "customer"
    CHANNEL = "channel"
    INSTALLATION = "installation"


class Measure(StrEnum):
    """What can be limited; each is an attribute of `Usage` and of `Allowance`."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    COST = "cost_micros"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAccount:
    """Whom a call is counted for; a day is the shop's civil day."""

    conversation_id: str
    customer_id: str | None
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The most one scope may use; None is no limit. Cost in millionths of a USD."""

    requests: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None

    def passed_by(self, used: Usage) -> tuple[Measure, int] | None:
        """The first limit of which more was used than may be."""
        if self.requests is not None and used.requests > self.requests:
            return Measure.REQUESTS, self.requests
        if self.tokens is not None and used.tokens > self.tokens:
            return Measure.TOKENS, self.tokens
        if self.cost_micros is not None and used.cost_micros > self.cost_micros:
            return Measure.COST, self.cost_micros
        return None


Allowances = Mapping[Scope, Allowance]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What was counted ahead for a call that is not answered yet, and on which day."""

    usage: Usage
    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """Which limit leaves no room for another call."""

    scope: Scope
    measure: Measure
    limit: int

    @property
    def stop_reason(self) -> StopReason:
        cost = self.measure is Measure.COST
        return StopReason.COST_BUDGET if cost else StopReason.TOKEN_BUDGET


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCount:
    """What one subject has used: a conversation in all, anyone else on one day."""

    scope: Scope
    subject: str
    day: date | None
    usage: Usage

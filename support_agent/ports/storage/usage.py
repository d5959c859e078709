"""What models were used for, counted per conversation, customer, channel and installation."""

from dataclasses import dataclass
from datetime import date
from typing import Protocol

from support_agent.domain.runs import Usage
from support_agent.domain.usage import Measure, Scope, UsageAccount, UsageCount
from support_agent.ports.storage.requests import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageFilter:
    """Whose counters are listed; None is any."""

    scope: Scope
    subject: str | None = None
    day: date | None = None


class UsageCounters(Protocol):
    """One row a conversation, and one a day for each customer, channel and the installation."""

    def move(
        self, account: UsageAccount, day: date, *, add: Usage, take: Usage
    ) -> dict[Scope, Usage]:
        """Count `add`, and no longer `take`, which was counted before; what each scope has now.

        One statement over all the account's rows, always in the same order. They stay locked until
        the transaction ends, so what comes back is true until then. None falls below zero.
        """
        ...

    def list(self, where: UsageFilter, *, limit: int, cursor: str | None) -> Page[UsageCount]:
        """The newest day first, then by subject.

        Raises:
            InvalidInput: the cursor was not handed out by this list.
        """
        ...

    def top(self, day: date, by: Measure, *, limit: int, cursor: str | None) -> Page[UsageCount]:
        """Customers of a day, those who used most first.

        Raises:
            InvalidInput: the cursor was not handed out by this list.
        """
        ...

    def median(self, measure: Measure, *, since: date, before: date) -> int:
        """What a customer uses on a day, of all who used anything on those days; 0 without any."""
        ...

    def above(self, day: date, *, requests: int, tokens: int, limit: int) -> tuple[UsageCount, ...]:
        """Customers who used more requests or more tokens on a day, by their id."""
        ...

"""What was decided and paid, added up by the database: for a report, never for a decision."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.ports.storage.trail import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Decisions of one subject in one currency, counted and in minor units."""

    subject: str  # an approver's name, or where the money went, masked
    currency: str
    customer_id: str | None  # of a pair of approver and customer
    customers: int  # how many different ones
    decided: int
    approved: int
    paid: int
    approved_minor: int
    paid_minor: int


class Reports(Protocol):
    """One statement each. Automatic decisions count as those of AUTO; amounts as they were then."""

    def by_approver(self, since: datetime) -> tuple[Tally, ...]:
        """Per person, who approved most first. With four eyes each of the two counts."""
        ...

    def by_pair(self, since: datetime, *, limit: int) -> tuple[Tally, ...]:
        """Per person and customer, most approved first; without automatic decisions."""
        ...

    def by_destination(self, since: datetime, *, limit: int) -> tuple[Tally, ...]:
        """Per account the money goes to, those of most customers first, then most approved.

        The same bank account is one, whichever customers gave it.
        """
        ...

    def newest_tasks(self, kind: str, *, limit: int) -> tuple[Task, ...]:
        """Tasks of a kind, done or not, newest first."""
        ...

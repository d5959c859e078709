"""Who lets how much pass, for whom, and where to: what a shop's owner looks at now and then."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Tally, Task, Transaction
from support_agent.services.second_look import SECOND_LOOK

MOST_ROWS = 20
MOST_DRAWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskReport:
    """The decisions since then; the longest lists are cut to their first rows."""

    since: datetime
    approvers: tuple[Tally, ...]
    pairs: tuple[Tally, ...]
    destinations: tuple[Tally, ...]
    draws: tuple[Task, ...]  # paid ones drawn for a second look, newest first
    approved_minor: Mapping[str, int]  # by currency, over all approvers

    def share(self, tally: Tally) -> float:
        """The part of all approved amounts in its currency, 0 to 1."""
        total = self.approved_minor.get(tally.currency, 0)
        return tally.approved_minor / total if total else 0.0


class Reporting:
    """Reads the sums in one snapshot."""

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def desk(self, *, days: int) -> DeskReport:
        """The approver's desk over the last days."""
        since = self._clock.now() - timedelta(days=days)
        return await self._database.read(lambda tx: _desk(tx, since))


def _desk(tx: Transaction, since: datetime) -> DeskReport:
    approvers = tx.reports.by_approver(since)
    return DeskReport(
        since=since,
        approvers=approvers,
        pairs=tx.reports.by_pair(since, limit=MOST_ROWS),
        destinations=tx.reports.by_destination(since, limit=MOST_ROWS),
        draws=tx.reports.newest_tasks(SECOND_LOOK, limit=MOST_DRAWS),
        approved_minor=_totals(approvers),
    )


def _totals(tallies: Sequence[Tally]) -> Mapping[str, int]:
    totals: Counter[str] = Counter()
    for tally in tallies:
        totals[tally.currency] += tally.approved_minor
    return totals

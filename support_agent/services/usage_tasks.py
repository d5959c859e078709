"""Tells staff about use: a budget that is used up, a customer far above the usual."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from support_agent.domain.usage import INSTALLATION, Measure, Scope, UsageAccount, UsageCount
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Task, Transaction

LIMIT = "usage.limit"
UNUSUAL = "usage.unusual"
USUAL_DAYS = timedelta(days=30)  # that tell what is usual
MOST = 500  # customers of one day that staff is told of


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusualRule:
    """Far above the usual: more than `factor` times the median customer-day, and than a floor."""

    factor: int
    least_requests: int
    least_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """What the rule comes to on one day; more than either of them is unusual."""

    requests: int
    tokens: int

    def is_passed_by(self, count: UsageCount) -> bool:
        return count.usage.requests > self.requests or count.usage.tokens > self.tokens


def tell_of_limit(
    tx: Transaction, account: UsageAccount, scope: Scope, *, now: datetime, zone: tzinfo
) -> None:
    """A task for staff: once for a conversation, once a day for anyone else."""
    subject = {
        Scope.CONVERSATION: account.conversation_id,
        Scope.CUSTOMER: account.customer_id or account.conversation_id,
        Scope.CHANNEL: account.channel,
        Scope.INSTALLATION: INSTALLATION,
    }[scope]
    when = "" if scope is Scope.CONVERSATION else f"_{_day(now, zone)}"
    own = scope in {Scope.CONVERSATION, Scope.CUSTOMER}
    tx.tasks.add(
        Task(
            id=f"task_{LIMIT}_{scope}_{subject}{when}",
            kind=LIMIT,
            subject=f"{scope} {subject}" if subject != scope else subject,
            conversation_id=account.conversation_id if own else None,
            created_at=now,
        )
    )


class UnusualUse:
    """Finds customers far above the usual. Nothing is blocked by it: staff takes a look."""

    def __init__(
        self, *, database: Database, clock: Clock, zone: tzinfo, rule: UnusualRule
    ) -> None:
        self._database = database
        self._clock = clock
        self._zone = zone
        self._rule = rule

    def threshold(self, tx: Transaction, day: date) -> Threshold:
        """By the days before this one, so that a busy day does not make itself usual."""
        rule, since = self._rule, day - USUAL_DAYS
        requests, tokens = (
            tx.usage.median(measure, since=since, before=day)
            for measure in (Measure.REQUESTS, Measure.TOKENS)
        )
        return Threshold(
            requests=max(rule.factor * requests, rule.least_requests),
            tokens=max(rule.factor * tokens, rule.least_tokens),
        )

    async def tell(self) -> int:
        """A task for each such customer of today and yesterday, once a day; how many were made.

        Yesterday as well, because a day may end between two ticks.
        """
        today = _day(self._clock.now(), self._zone)
        days = (today - timedelta(days=1), today)
        found = await self._database.read(
            lambda tx: [count for day in days for count in self._above(tx, day)]
        )
        if not found:
            return 0
        return await self._database.transact(lambda tx: sum(self._task(tx, c) for c in found))

    def _above(self, tx: Transaction, day: date) -> tuple[UsageCount, ...]:
        most = self.threshold(tx, day)
        return tx.usage.above(day, requests=most.requests, tokens=most.tokens, limit=MOST)

    def _task(self, tx: Transaction, count: UsageCount) -> bool:
        task = Task(
            id=f"task_{UNUSUAL}_{count.subject}_{count.day}",
            kind=UNUSUAL,
            subject=count.subject,
            conversation_id=None,
            created_at=self._clock.now(),
        )
        return tx.tasks.add(task)


def _day(now: datetime, zone: tzinfo) -> date:
    return now.astimezone(zone).date()

"""Lets go of what is no longer needed, class by class; the books and the audit are kept."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from support_agent.domain.audit import AuditEvent
from support_agent.domain.people import SYSTEM
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, Transaction
from support_agent.services.chores import Counts

PAGE = 100  # rows of one transaction; a conversation is a row, and what belongs to it goes with it
SMALL_ROWS = 2_000  # of one transaction, where many come and nothing hangs on one
MOST_PAGES = 10  # of one class in one run; the next run goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFor:
    """How long each class is kept; None is for good.

    Attributes:
        conversations: what was said and done in them, since the last message, and what is
            remembered of the customer after the last of them.
        deliveries: events to the outside, since they were delivered or given up.
        provider_events: which events of the gateway came in.
        usage: what models were used for by day.
    """

    conversations: timedelta | None
    deliveries: timedelta | None
    provider_events: timedelta | None
    usage: timedelta | None


class Retention:
    """Each page is a transaction of its own: who is called off in the middle loses nothing."""

    def __init__(
        self, *, database: Database, clock: Clock, zone: tzinfo, kept_for: KeptFor
    ) -> None:
        self._database = database
        self._clock = clock
        self._zone = zone
        self._kept_for = kept_for

    async def run(self) -> Counts:
        """Let go of what is too old, a bounded part of it; how many of each class."""
        now, kept = self._clock.now(), self._kept_for
        gone: Counter[str] = Counter()
        if kept.conversations is not None:
            before = now - kept.conversations
            gone["CONVERSATIONS"] = await self._pages(lambda tx: self._quiet(tx, before, now))
            gone["PREFERENCES"] = await self._pages(
                lambda tx: tx.privacy.let_go_preferences(before, limit=PAGE)
            )
        if kept.deliveries is not None:
            delivered = now - kept.deliveries
            gone["DELIVERIES"] = await self._pages(
                lambda tx: tx.privacy.let_go_delivered(delivered, limit=PAGE)
            )
            gone["WEBHOOKS"] = await self._pages(
                lambda tx: tx.webhooks.let_go(delivered, limit=PAGE)
            )
        if kept.provider_events is not None:
            received = now - kept.provider_events
            gone["PROVIDER_EVENTS"] = await self._pages(
                lambda tx: tx.privacy.let_go_accepted(received, limit=PAGE)
            )
        if kept.usage is not None:
            day = self._day(now - kept.usage)
            gone["USAGE"] = await self._pages(lambda tx: tx.privacy.let_go_usage(day, limit=PAGE))
        gone["IDEMPOTENT_REPLIES"] = await self._pages(
            lambda tx: tx.idempotency.let_go(limit=SMALL_ROWS), of=SMALL_ROWS
        )
        return +gone

    async def _pages(self, page: Callable[[Transaction], int], *, of: int | None = None) -> int:
        done = 0
        for _ in range(MOST_PAGES):
            count = await self._database.transact(page)
            done += count
            if count < (PAGE if of is None else of):
                break
        return done

    def _quiet(self, tx: Transaction, before: datetime, now: datetime) -> int:
        """The history says that texts went by themselves, or a gap would look like a hand's."""
        count = tx.privacy.let_go_quiet(before, at=now, limit=PAGE)
        if count:
            tx.audit.append(
                AuditEvent(
                    action="retention.applied",
                    actor=SYSTEM,
                    subject="conversations",
                    at=now,
                    data={"count": str(count), "before": self._day(before).isoformat()},
                )
            )
        return count

    def _day(self, moment: datetime) -> date:
        return moment.astimezone(self._zone).date()

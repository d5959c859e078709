"""The caps of automatic refunds: what a misled model can let go in a day, and in thirty."""

from collections.abc import Sequence
from datetime import timedelta, tzinfo

from support_agent.domain.policy import CurrencyLimits
from support_agent.domain.reasons import Reason
from support_agent.ports.storage import CapKey, CapScope, Posting, Transaction

INSTALLATION = "installation"
CAP_DAYS = timedelta(days=29)  # 30 civil days, today included


class AutomaticCaps:
    """Counts automatic refunds by customer and over the whole shop; days are the shop's."""

    def __init__(self, *, zone: tzinfo) -> None:
        self._zone = zone

    def take(
        self,
        tx: Transaction,
        postings: Sequence[Posting],
        *,
        customer_id: str,
        limits: CurrencyLimits,
    ) -> Reason | None:
        """Count postings of one group, all or none; the first cap that is full says why none."""
        full = self._full(tx, postings, customer_id, limits)
        if full is not None:
            for posting in postings:
                tx.books.give_back_caps(posting)
        return full

    def _full(
        self,
        tx: Transaction,
        postings: Sequence[Posting],
        customer_id: str,
        limits: CurrencyLimits,
    ) -> Reason | None:
        """The day's counter is raised by a conditional update before the 30 days are added up.

        So two filings at once see each other.
        """
        first = postings[0]
        day = first.at.astimezone(self._zone).date()
        customer, shop = (
            CapKey(scope=scope, subject=subject, day=day, currency=first.currency)
            for scope, subject in (
                (CapScope.CUSTOMER, customer_id),
                (CapScope.INSTALLATION, INSTALLATION),
            )
        )
        if not _take_all(tx, customer, postings, limits.auto_per_customer_day):
            return Reason.CAP_CUSTOMER_DAY
        month = limits.auto_per_customer_30_days
        if month is not None and tx.books.cap_used(customer, since=day - CAP_DAYS) > month:
            return Reason.CAP_CUSTOMER_30_DAYS
        if not _take_all(tx, shop, postings, limits.auto_per_installation_day):
            return Reason.CAP_INSTALLATION_DAY
        return None


def _take_all(tx: Transaction, key: CapKey, postings: Sequence[Posting], limit: int | None) -> bool:
    return all(tx.books.take_cap(key, posting=posting, limit=limit) for posting in postings)

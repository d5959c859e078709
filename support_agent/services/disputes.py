"""A customer's bank asks a payment back: it blocks refunds, and may take the money."""

from datetime import UTC, datetime

import structlog

from support_agent.domain.audit import AuditEvent, holds
from support_agent.domain.people import SYSTEM
from support_agent.domain.signing import KeyRing
from support_agent.ports.clock import Clock
from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import PaymentRef
from support_agent.ports.storage import FactKind, GatewayFact, Task, Transaction
from support_agent.services.gateway_refunds import Meaning, names_of, record_fact

log = structlog.get_logger(__name__)
# In the order in which a dispute goes. Of one moment, the later one counts.
STAGES = (EventKind.DISPUTE_OPENED, EventKind.DISPUTE_LOST, EventKind.DISPUTE_WON)
FACTS = {
    EventKind.DISPUTE_LOST: FactKind.CHARGEBACK,
    EventKind.DISPUTE_WON: FactKind.CHARGEBACK_REVERSED,
}
STALE = "stale"  # older than what we know of the dispute


class Disputes:
    """Takes in how disputes stand. What comes late or twice changes nothing."""

    def __init__(self, *, keys: KeyRing, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock

    def take_in(self, tx: Transaction, event: ProviderEvent, *, another_open: bool) -> str:
        """What the event came to: the dispute's stage, or why it changed nothing.

        `another_open` is the gateway's word on the payment, which may have several disputes: one
        that is won does not end the others.
        """
        payment = self._known(tx, event)
        if payment is None or event.dispute_id is None:
            log.warning("dispute.unknown_payment", dispute=event.dispute_id)
            return Meaning.UNKNOWN_PAYMENT
        latest = tx.audit.latest_for(event.dispute_id, prefix="dispute.")
        ours = latest is not None and holds(self._keys, latest)
        if latest is not None and ours and _place(event) <= _recorded(latest.event):
            return STALE
        self._book(tx, event, payment)  # order and payment are taken before the payment alone
        open_ = event.kind is not EventKind.DISPUTE_WON or another_open
        order_id = tx.books.set_disputed(payment, disputed=open_)
        self._record(tx, event, order_id or "")
        return str(event.kind)

    def _known(self, tx: Transaction, event: ProviderEvent) -> PaymentRef | None:
        if event.payment is None or event.currency is None:
            return None
        names = names_of(event.payment, event.other_payment_id)
        return next((name for name in names if tx.books.knows(name, event.currency)), None)

    def _book(self, tx: Transaction, event: ProviderEvent, payment: PaymentRef) -> None:
        kind = FACTS.get(event.kind)
        if kind is None or not event.amount_minor or not event.dispute_id or not event.currency:
            return
        fact = GatewayFact(
            kind=kind,
            payment=payment,
            reference=event.dispute_id,
            amount_minor=event.amount_minor,
            currency=event.currency,
            at=self._clock.now(),
        )
        booked = tx.books.book_fact(fact)
        if booked is not None:
            record_fact(tx, fact, booked.order_id, booked.overdrawn_minor, self._clock)

    def _record(self, tx: Transaction, event: ProviderEvent, order_id: str) -> None:
        now, dispute = self._clock.now(), event.dispute_id or ""
        told = event.created_at.astimezone(UTC).isoformat()
        tx.audit.append(
            AuditEvent(
                action=str(event.kind),
                actor=SYSTEM,
                subject=dispute,
                at=now,
                data={"order": order_id, "told_at": told},
            )
        )
        kind = event.kind.replace(".", "_")
        tx.tasks.add(
            Task(
                id=f"task_{kind}_{dispute}",
                kind=kind,
                subject=order_id,
                conversation_id=None,
                created_at=now,
            )
        )


def _place(event: ProviderEvent) -> tuple[datetime, int]:
    return event.created_at, STAGES.index(event.kind)


def _recorded(event: AuditEvent) -> tuple[datetime, int]:
    return datetime.fromisoformat(event.data["told_at"]), STAGES.index(EventKind(event.action))

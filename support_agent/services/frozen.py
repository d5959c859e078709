"""Letting a payment be refunded again, after a person understood what happened at the gateway."""

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import PaymentNotFrozen
from support_agent.domain.people import Principal
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Transaction

UNFROZEN = "payment.unfrozen"


def unfreeze(
    tx: Transaction, order_id: str, payment_id: str, *, by: Principal, clock: Clock
) -> None:
    """Lift the freeze that something unexplained put on a payment; audited.

    No room comes of it: what was overdrawn stays so, and a balance that is gone stays gone.

    Raises:
        PaymentNotFrozen: no such payment in our books, or it is not frozen.
    """
    if not tx.books.unfreeze(order_id, payment_id):
        raise PaymentNotFrozen(order_id, payment_id)
    tx.audit.append(
        AuditEvent(
            action=UNFROZEN,
            actor=by,
            subject=order_id,
            at=clock.now(),
            data={"payment": payment_id},
        )
    )

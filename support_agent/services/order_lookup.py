"""Reading an order for a customer: ownership is judged here, on every row an adapter returns."""

from support_agent.domain.audit import AuditEvent
from support_agent.domain.errors import OrderNotFound
from support_agent.domain.orders import Order
from support_agent.domain.people import Asker
from support_agent.ports.clock import Clock
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database

MOST_ORDERS = 20


class OrderLookup:
    """Hands out only what belongs to the asker. Anything else is as if it did not exist."""

    def __init__(self, *, orders: OrderRepository, database: Database, clock: Clock) -> None:
        self._orders = orders
        self._database = database
        self._clock = clock

    async def owned(self, order_id: str, asker: Asker) -> Order:
        """The asker's order.

        Raises:
            OrderNotFound: missing, or another customer's (which leaves an audit event).
            OrdersUnavailable: the shop's system did not answer.
        """
        order = await self._orders.get(order_id)
        if order is None or order.id != order_id:
            raise OrderNotFound(order_id)
        if order.customer_id != asker.customer_id:
            await self.note_foreign("order", order_id, asker)
            raise OrderNotFound(order_id)
        return order

    async def owned_list(self, asker: Asker) -> tuple[Order, ...]:
        """The asker's newest orders."""
        orders = await self._orders.list_for_customer(asker.customer_id, limit=MOST_ORDERS)
        return tuple(order for order in orders if order.customer_id == asker.customer_id)

    async def note_foreign(self, kind: str, subject: str, asker: Asker) -> None:
        """Leave the audit event of somebody reaching for what is not theirs."""
        event = foreign_access(kind, subject, asker, self._clock)
        await self._database.transact(lambda tx: tx.audit.append(event))


def foreign_access(kind: str, subject: str, asker: Asker, clock: Clock) -> AuditEvent:
    """The event itself; also for callers that are inside a transaction."""
    data = {"kind": kind, "customer": asker.customer_id, "conversation": asker.conversation_id}
    return AuditEvent(
        action="access.denied",
        actor=asker.principal,
        subject=subject,
        at=clock.now(),
        data=data,
    )

"""Staff files a refund without a conversation: for what the shop itself wants to pay back."""

from support_agent.domain.allocation import Wish
from support_agent.domain.errors import OrderNotFound
from support_agent.domain.orders import Order
from support_agent.domain.people import Principal
from support_agent.domain.refunds import RefundRequest
from support_agent.domain.signing import KeyRing
from support_agent.ports.orders import OrderRepository
from support_agent.ports.storage import Database, Transaction
from support_agent.services.approvers import check_acting
from support_agent.services.filing import Filing


class StaffDesk:
    """Files for any order, under every guard of filing; another person always decides."""

    def __init__(
        self, *, database: Database, orders: OrderRepository, filing: Filing, keys: KeyRing
    ) -> None:
        self._database = database
        self._orders = orders
        self._filing = filing
        self._keys = keys

    async def order(self, order_id: str) -> Order:
        """The order to file for.

        Raises:
            OrderNotFound: the shop does not know it.
            OrdersUnavailable: the shop's system did not answer.
        """
        order = await self._orders.get(order_id)
        if order is None or order.id != order_id:
            raise OrderNotFound(order_id)
        return order

    async def file(
        self, order: Order, wish: Wish, *, by: Principal, reference: str | None = None
    ) -> tuple[RefundRequest, ...]:
        """One request a payment; the same reference again gives the same ones.

        Raises:
            NotAuthorised: `by` is an approver whose row does not stand.
            InvalidInput, Conflict, RefundRefused: see `Filing.file_by_staff`.
        """

        def write(tx: Transaction) -> tuple[RefundRequest, ...]:
            check_acting(tx, by, self._keys)
            return self._filing.file_by_staff(
                tx, order=order, wish=wish, by=by, reference=reference
            )

        return await self._database.transact(write)

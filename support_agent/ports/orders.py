"""The shop's orders: a foreign system, read before a transaction and never inside one."""

from typing import Protocol

from support_agent.domain.orders import Customer, Order


class OrderRepository(Protocol):
    """Reads orders where they live.

    Invariants:
        - Ids are opaque and compared byte for byte; nothing is trimmed, folded or completed.
        - A missing order is None. Whose it is is judged by the caller, on every order returned.
        - Money is in minor units of the order's currency; a status it does not know is UNKNOWN.

    Raises:
        OrdersUnavailable: the system did not answer.
    """

    async def get(self, order_id: str) -> Order | None: ...

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        """Newest first, at most `limit`."""
        ...

    async def find_customer(self, customer_id: str) -> Customer | None: ...


class ShopWriter(Protocol):
    """The sample shop's back door: `db seed` fills it through this port."""

    async def put_customers(self, customers: tuple[Customer, ...]) -> int:
        """Insert or replace; returns how many changed."""
        ...

    async def put_orders(self, orders: tuple[Order, ...]) -> int:
        """Insert or replace with their lines and payments; returns how many changed."""
        ...

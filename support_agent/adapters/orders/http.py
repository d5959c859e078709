"""Orders behind a shop's own HTTP API, as a map describes it."""

import asyncio
from collections.abc import Sequence

import structlog

from support_agent.adapters.orders.http_addresses import Address
from support_agent.adapters.orders.http_map import HttpMap
from support_agent.adapters.orders.http_orders import HttpOrderReader
from support_agent.adapters.orders.http_pointers import Node, Pointer, UnusableAnswer
from support_agent.adapters.orders.http_transport import ShopHttp
from support_agent.adapters.orders.http_values import identifier
from support_agent.domain.orders import Customer, Order

log = structlog.get_logger(__name__)
AUTHORIZATION = "Authorization"


class HttpOrders:
    """`OrderRepository` over JSON; each call asks the shop anew.

    An order that cannot be read exactly is unavailable when it is asked for by its id, and left out
    of a customer's list; either way the log says why. `auth` is the whole value of the map's
    header, such as `Bearer …`; None sends none.
    """

    def __init__(self, *, told: HttpMap, auth: str | None, timeout_s: float) -> None:
        headers = {} if auth is None else {told.auth_header or AUTHORIZATION: auth}
        self._told = told
        self._reader = HttpOrderReader(told)
        self._http = ShopHttp(headers=headers, timeout_s=timeout_s)

    async def get(self, order_id: str) -> Order | None:
        answer = await self._ask(self._told.urls.order, order_id=order_id)
        try:
            found = _part(answer, self._told.orders.at)
            order = None if found is None else self._reader.order(found)
        except UnusableAnswer as why:
            log.warning("orders.unusable", order_id=order_id, why=str(why))
            raise
        return order if order is not None and order.id == order_id else None

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        if limit < 1:
            return ()
        urls, form = self._told.urls, self._told.list
        answer = await self._ask(urls.list, customer_id=customer_id, limit=str(limit))
        array = _part(answer, form.at)
        listed = [] if array is None else [*array.each()]
        if form.id is None:
            orders = [self._listed(node.at(form.order)) for node in listed]
        else:
            orders = await self._all([identifier(node.at(form.id)) for node in listed[:limit]])
        theirs = {o.id: o for o in orders if o is not None and o.customer_id == customer_id}
        newest = sorted(theirs.values(), key=lambda o: (o.placed_at, o.id), reverse=True)
        return tuple(newest[:limit])

    async def find_customer(self, customer_id: str) -> Customer | None:
        answer = await self._ask(self._told.urls.customer, customer_id=customer_id)
        found = _part(answer, self._told.customers.at)
        if found is None:
            return None
        customer = self._reader.customer(found)
        return customer if customer.id == customer_id else None

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _ask(self, address: Address, **ids: str) -> object:
        url = address.of(ids)
        return None if url is None else await self._http.get(url)

    def _listed(self, node: Node) -> Order | None:
        try:
            return self._reader.order(node)
        except UnusableAnswer as why:
            log.warning("orders.unusable", why=str(why))
            return None

    async def _all(self, ids: Sequence[str]) -> list[Order | None]:
        """Several at once; what could not be asked for fails the list, as it would by itself."""
        found = await asyncio.gather(*map(self.get, ids), return_exceptions=True)
        orders: list[Order | None] = []
        for one in found:
            if isinstance(one, BaseException) and not isinstance(one, UnusableAnswer):
                raise one
            orders.append(one if isinstance(one, Order) else None)
        return orders


def _part(answer: object, place: Pointer) -> Node | None:
    """What stands there; None where the shop says that it has nothing.

    Raises:
        UnusableAnswer: the answer has no such place, so it says neither.
    """
    node = Node(answer, "")
    found = node.at(place)
    if found.there:
        return found
    if answer is None or node.says_null(place):
        return None
    return found.unusable("is missing; is the map right?")

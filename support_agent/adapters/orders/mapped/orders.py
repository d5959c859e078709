"""`OrderRepository` over tables of the shop's own, as a map describes them; it never writes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.statements import storable
from support_agent.adapters.orders.mapped import values
from support_agent.adapters.orders.mapped.connecting import ForeignDatabase, Late
from support_agent.adapters.orders.mapped.faults import (
    MAP,
    is_about_the_value,
    is_set_up_wrongly,
    not_computed,
    set_up_wrongly,
    unavailable,
)
from support_agent.adapters.orders.mapped.reading import OrderReader
from support_agent.adapters.orders.mapped.reflecting import Misfit, reflect
from support_agent.adapters.orders.mapped.selecting import (
    MOST_COPIES,
    MOST_LINES,
    MOST_PAYMENTS,
    Row,
    Statements,
    statements,
)
from support_agent.adapters.orders.mapped.shape import OrdersMap
from support_agent.adapters.orders.mapped.values import Unusable
from support_agent.domain.errors import ConfigurationError, OrdersUnavailable
from support_agent.domain.orders import Customer, Order

T = TypeVar("T")
Search = Callable[[Statements], sa.Select[Any]]
log = structlog.get_logger(__name__)


class NotFitting(Exception):
    """The map names what is not there; `misfits` says what."""

    def __init__(self, misfits: Sequence[Misfit]) -> None:
        super().__init__("; ".join(map(str, misfits)))
        self.misfits = tuple(misfits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What one order, or what calls itself one, is made of."""

    order_id: str
    orders: tuple[Row, ...]
    lines: tuple[Row, ...]
    payments: tuple[Row, ...]


class MappedOrders:
    """Reads what is there now, in one state of the database. What is not exact is no order.

    An order that cannot be read exactly is unavailable when it is asked for by its id, and left out
    of a customer's list; either way the log says why.
    """

    def __init__(self, shape: OrdersMap, database: ForeignDatabase) -> None:
        self.shape = shape
        self._database = database
        self._reader = OrderReader(shape)
        self._statements: Statements | None = None

    async def get(self, order_id: str) -> Order | None:
        if not storable(order_id):
            return None
        here = {"of": order_id, "of_text": order_id}
        found = await self._read(lambda c: self._rows_of(c, order_id), lambda a: a.order, here)
        return None if found is None else self._ordered(found)

    async def list_for_customer(self, customer_id: str, *, limit: int) -> tuple[Order, ...]:
        if not storable(customer_id) or limit < 1:
            return ()
        here = {"of": customer_id, "of_text": customer_id, "most": limit}
        found = await self._read(
            lambda c: self._rows_each(c, self._asked(c).newest, here), lambda a: a.newest, here
        )
        orders = (self._ordered_or_none(rows) for rows in found or ())
        theirs = [order for order in orders if order and order.customer_id == customer_id]
        theirs.sort(key=lambda order: (order.placed_at, order.id), reverse=True)
        return tuple(theirs[:limit])

    async def find_customer(self, customer_id: str) -> Customer | None:
        if not storable(customer_id):
            return None
        here = {"of": customer_id, "of_text": customer_id}
        found = await self._read(
            lambda c: c.execute(self._asked(c).customer, here).mappings().all(),
            lambda a: a.customer,
            here,
        )
        exact = [row for row in found or () if values.key(row["id"]) == customer_id]
        try:
            customers = {self._reader.customer(row) for row in exact}
        except Unusable as why:
            raise _cannot_be_used("customer", customer_id, str(why)) from why
        if len(customers) > 1:
            raise _cannot_be_used("customer", customer_id, "its id is there more than once")
        return next(iter(customers), None)

    async def check(self) -> None:
        """Pass when the map fits what is there.

        Raises:
            ConfigurationError: it does not, or we may not look; says what to change.
            OrdersUnavailable: the database did not answer.
        """
        await self.look(self._probe)

    async def look(self, fn: Callable[[sa.Connection], T]) -> T:
        """What an operator asks for: a wrong set-up is told as such.

        Raises:
            ConfigurationError, OrdersUnavailable: as `check`.
        """
        try:
            return await self._database.run(fn)
        except NotFitting as error:
            raise ConfigurationError(
                f"does not fit the database: {error}; `support-agent orders check` says all of it",
                setting=MAP,
            ) from error
        except DBAPIError as error:
            if is_set_up_wrongly(error):
                raise set_up_wrongly(error, self._database.url) from error
            if is_about_the_value(error):
                raise not_computed(error) from error
            raise _away(error) from error
        except (Late, UnicodeError, ValueError, OverflowError) as error:
            raise _away(error) from error

    async def aclose(self) -> None:
        await self._database.aclose()

    def read_each(self, found: Iterable[Rows]) -> Iterable[tuple[str, Order | Unusable]]:
        """Each order, or why it cannot be used."""
        for rows in found:
            try:
                yield rows.order_id, self._whole(rows)
            except Unusable as why:
                yield rows.order_id, why

    def recent(self, connection: sa.Connection, most: int) -> Sequence[Rows]:
        """What stands under the last ids."""
        return self._rows_each(connection, self._asked(connection).recent, {"most": most})

    async def _read(
        self, fn: Callable[[sa.Connection], T], search: Search, here: Mapping[str, Any]
    ) -> T | None:
        """None for an id of a kind that the shop has not; `search` is what looks for it.

        Raises:
            OrdersUnavailable: whatever else there was no answer for.
        """
        try:
            return await self._database.run(fn)
        except NotFitting as error:
            log.error("orders.map_does_not_fit", problem=str(error))  # noqa: TRY400 - no fault of ours
            raise unavailable("the orders map does not fit the shop's database") from error
        except DBAPIError as error:
            if is_about_the_value(error) and await self._is_no_id(search, here):
                return None
            raise _away(error) from error
        except (Late, UnicodeError, ValueError, OverflowError) as error:
            # The last ones: text that is no UTF-8, dates that Python has not, and too many rows.
            raise _away(error) from error

    async def _is_no_id(self, search: Search, here: Mapping[str, Any]) -> bool:
        """Whether the database refuses the id itself: it does so before it reads any row.

        A view that cannot be worked out, or a line whose order_id is of another kind, says nothing
        of whether there is such an order.
        """
        try:
            await self._database.run(lambda c: c.execute(search(self._asked(c)).limit(0), here))
        except DBAPIError as error:
            return is_about_the_value(error)
        except (Late, NotFitting):
            pass
        return False

    def _asked(self, connection: sa.Connection) -> Statements:
        """Made when the map was held against the database; two threads may do so, to the same."""
        if self._statements is None:
            fit = reflect(connection, self.shape)
            if fit.misfits:
                raise NotFitting(fit.misfits)
            postgres = connection.dialect.name == "postgresql"
            self._statements = statements(self.shape, fit.tables, postgres=postgres)
        return self._statements

    def _probe(self, connection: sa.Connection) -> None:
        """Ask for nothing of each table: rights are missed now and not with the first order."""
        for probe in self._asked(connection).probes:
            connection.execute(probe)

    def _rows_of(self, connection: sa.Connection, order_id: str) -> Rows | None:
        here = {"of": order_id, "of_text": order_id}
        found = connection.execute(self._asked(connection).order, here).mappings().all()
        exact = tuple(row for row in found if values.key(row["id"]) == order_id)
        if not exact:
            return None
        return next(iter(self._with_parts(connection, {order_id: exact})))

    def _rows_each(
        self, connection: sa.Connection, orders: sa.Select[Any], here: Mapping[str, Any]
    ) -> Sequence[Rows]:
        grouped: defaultdict[str, list[Row]] = defaultdict(list)
        found = connection.execute(orders, here).mappings().all()
        _all_of_them(found, at_most=here["most"] * MOST_COPIES - 1)
        for row in found:
            own_id = values.key(row["id"])
            if own_id is not None:
                grouped[own_id].append(row)
        return self._with_parts(connection, {key: tuple(rows) for key, rows in grouped.items()})

    def _with_parts(
        self, connection: sa.Connection, orders: Mapping[str, tuple[Row, ...]]
    ) -> Sequence[Rows]:
        asked = self._asked(connection)
        lines = _parts(connection, asked.lines, [*orders], most=MOST_LINES)
        payments = _parts(connection, asked.payments, [*orders], most=MOST_PAYMENTS)
        return [
            Rows(
                order_id=order_id,
                orders=rows,
                lines=tuple(lines[order_id]),
                payments=tuple(payments[order_id]),
            )
            for order_id, rows in orders.items()
        ]

    def _whole(self, rows: Rows) -> Order:
        if len(rows.orders) > 1:
            raise Unusable("its id is there more than once")
        return self._reader.order(rows.orders[0], rows.lines, rows.payments)

    def _ordered(self, rows: Rows) -> Order:
        try:
            return self._whole(rows)
        except Unusable as why:
            raise _cannot_be_used("order", rows.order_id, str(why)) from why

    def _ordered_or_none(self, rows: Rows) -> Order | None:
        try:
            return self._ordered(rows)
        except OrdersUnavailable:
            return None


def _parts(
    connection: sa.Connection, statement: sa.Select[Any], ids: Sequence[str], *, most: int
) -> defaultdict[str, list[Row]]:
    """Rows by the order they name, to the byte."""
    parts: defaultdict[str, list[Row]] = defaultdict(list)
    if ids:
        here = {"ids": ids, "most": len(ids) * most + 1}
        found = connection.execute(statement, here).mappings().all()
        if len(ids) > 1:  # of a single order whoever reads it says so
            _all_of_them(found, at_most=len(ids) * most)
        for row in found:
            parts[values.key(row["order_id"]) or ""].append(row)
    return parts


def _all_of_them(found: Sequence[Row], *, at_most: int) -> None:
    """What was cut off would be missing from an order that looks whole.

    Raises:
        ValueError: there are more.
    """
    if len(found) > at_most:
        raise ValueError(f"more than {at_most} rows belong to these orders")


def _cannot_be_used(kind: str, of: str, why: str) -> OrdersUnavailable:
    log.warning("orders.unusable", kind=kind, id=of, problem=why)
    return unavailable(f"{kind} {of!r} cannot be used, a person has to look at it: {why}")


def _away(error: Exception) -> OrdersUnavailable:
    cause = getattr(error, "orig", None) or error
    late = isinstance(error, Late)
    told = "it took too long" if late else " ".join(str(cause).split()) or type(cause).__name__
    log.warning("orders.away", problem=told)
    return unavailable("it took too long" if late else "the shop's database did not answer")

"""`orders check`: everything that is wrong with a map or the tables under it, before going live."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from support_agent.adapters.orders.mapped.counting import SHOWN, Counting, Remark
from support_agent.adapters.orders.mapped.orders import MappedOrders
from support_agent.adapters.orders.mapped.reflecting import reflect
from support_agent.adapters.orders.mapped.values import Unusable
from support_agent.domain.orders import Order

NEWEST = 200  # orders that are read whole, as the product would
SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found, and some orders as the product would read them."""

    remarks: tuple[Remark, ...]
    samples: tuple[Order, ...]


async def examine(orders: MappedOrders) -> Examination:
    """Look at the tables; where the map does not fit them, only that is told.

    Raises:
        ConfigurationError, OrdersUnavailable: it cannot be looked at at all.
    """
    return await orders.look(lambda connection: _examined(connection, orders))


def _examined(connection: sa.Connection, orders: MappedOrders) -> Examination:
    fit = reflect(connection, orders.shape)
    if fit.misfits:
        remarks = [
            Remark(level="fail", name=misfit.key, detail=misfit.problem) for misfit in fit.misfits
        ]
        return Examination(remarks=tuple(remarks), samples=())
    counting = Counting(connection, orders.shape, fit.tables)
    read = [*orders.read_each(orders.recent(connection, NEWEST))]
    samples = [order for _, order in read if isinstance(order, Order)][:SAMPLES]
    remarks = [
        Remark(level="ok", name="columns", detail="the map fits the tables"),
        *counting.remarks(),
        counting.total(),
        *_unusable([(of, why) for of, why in read if isinstance(why, Unusable)], len(read)),
    ]
    return Examination(remarks=tuple(remarks), samples=tuple(samples))


def _unusable(found: Sequence[tuple[str, Unusable]], of: int) -> Iterator[Remark]:
    """One remark a reason, the most frequent first."""
    if not found:
        yield Remark(level="ok", name="orders", detail=f"{of} were read, each can be used")
        return
    reasons = Counter(str(why).partition(":")[0] for _, why in found)
    for reason, count in reasons.most_common(SHOWN):
        example = next(of for of, why in found if str(why).partition(":")[0] == reason)
        detail = f"{count} of {of} read cannot be used, such as {example!r}: {reason}"
        yield Remark(level="fail", name="orders", detail=detail)

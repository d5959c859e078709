"""Channels that remember what they were given, for tests of what leaves the shop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa

from support_agent.adapters.db.tables import metadata
from support_agent.domain.errors import ChannelUnavailable
from support_agent.ports.channel import ToApprovers, ToCustomer
from tests.heart import open_shop_with
from tests.kit import Shop

OUTBOX = metadata.tables["outbox"]


class Customers:
    """A customer channel; `fails` says of which messages it is down."""

    def __init__(self) -> None:
        self.sent: list[ToCustomer] = []
        self.tried: list[str] = []
        self.fails: Callable[[ToCustomer], bool] = lambda _: False
        self.hangs_after: asyncio.Event | None = None  # set once a message is out

    async def send(self, message: ToCustomer) -> None:
        self.tried.append(message.id)
        if self.fails(message):
            raise ChannelUnavailable("the channel is down")
        self.sent.append(message)
        if self.hangs_after is not None:
            self.hangs_after.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)  # others may come in between

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.sent]

    @property
    def ids(self) -> list[str]:
        return [message.id for message in self.sent]


class Approvers:
    def __init__(self) -> None:
        self.told: list[ToApprovers] = []

    async def tell(self, notice: ToApprovers) -> None:
        self.told.append(notice)


class Outside:
    """The shop with both channels."""

    def __init__(self, shop: Shop, customers: Customers, approvers: Approvers) -> None:
        self.shop = shop
        self.customers = customers
        self.approvers = approvers

    async def deliver(self) -> int:
        return await self.shop.container.delivery().run()

    async def deliver_later(self) -> int:
        """When every pause and every lease is over."""
        await later(self.shop)
        return await self.deliver()

    async def all_out(self) -> None:
        """As often as there is something to do."""
        for _ in range(4):
            await self.deliver_later()


async def later(shop: Shop) -> None:
    over = sa.update(OUTBOX).where(OUTBOX.c.retry_at.is_not(None)).values(retry_at=0)
    await shop.container.database().run_write(lambda connection: connection.execute(over))


async def rows(shop: Shop) -> list[Any]:
    read = sa.select(OUTBOX).order_by(OUTBOX.c.seq)
    return await shop.container.database().run_read(lambda c: list(c.execute(read)))


@asynccontextmanager
async def open_outside(url: str, **more: Any) -> AsyncIterator[Outside]:
    customers = more.pop("customers", None) or Customers()
    approvers = Approvers()
    parts = more.pop("overrides", {}) | {
        "customer_channels": {"cli": customers},
        "approver_channel": approvers,
    }
    async with open_shop_with(url, overrides=parts, **more) as shop:
        yield Outside(shop, customers, approvers)

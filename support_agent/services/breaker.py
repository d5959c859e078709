"""The breaker: a gateway that does not take our credentials pauses payouts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from support_agent.domain.errors import GatewayRefusesUs
from support_agent.domain.people import SYSTEM
from support_agent.ports.clock import Clock
from support_agent.ports.storage import Database, SwitchName, Task, Transaction
from support_agent.services.switches import Switchboard

log = structlog.get_logger(__name__)
KIND = "gateway_refuses_us"


class Breaker:
    """Turns payouts off, once a fault: a wrong key must not burn one request after the other."""

    def __init__(self, *, database: Database, switchboard: Switchboard, clock: Clock) -> None:
        self._database = database
        self._switchboard = switchboard
        self._clock = clock

    async def trip(self, gateway: str, problem: str) -> None:
        """Pause payouts and call staff; nothing happens while they are paused already."""
        log.error("payout.gateway_refuses_us", gateway=gateway, problem=problem)
        await self._database.transact(lambda tx: self._pause(tx, gateway))

    @asynccontextmanager
    async def watching(self, gateway: str) -> AsyncIterator[None]:
        """Trips when the gateway refuses us inside the block; the error goes on."""
        try:
            yield
        except GatewayRefusesUs as refused:
            await self.trip(gateway, str(refused))
            raise

    def _pause(self, tx: Transaction, gateway: str) -> None:
        if not self._switchboard.turn(tx, SwitchName.PAYOUTS, on=False, by=SYSTEM):
            return
        moment = tx.database_now().strftime("%Y%m%dT%H%M%S%f")  # the next fault is another task
        tx.tasks.add(
            Task(
                id=f"task_{KIND}_{moment}",
                kind=KIND,
                subject=gateway,
                conversation_id=None,
                created_at=self._clock.now(),
            )
        )

"""The whole story of a refund, played by a process that dies at a counted point, and by who is left.

A point is before a transaction, in it (all written, nothing committed), after its commit, and before
and after each call of the gateway. A dry run counts them.
"""

import fcntl
import json
import os
import pickle
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.keys import load_keys
from support_agent.adapters.payments.ledger import LedgerGateway
from support_agent.agent.turns import Incoming
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from support_agent.ports.model import ModelRequest, ToolResult
from support_agent.ports.payments import GatewayRefund, RefundInstruction
from support_agent.testing.gateway import GatewaySimulator
from tests.agent_kit import FunctionModel
from tests.heart import open_shop_with, operator, problems, requests_of
from tests.kit import TODAY, Shop, binding_of, settings_for

S = RequestStatus
PAUSE = timedelta(minutes=10)  # longer than anything that was under way may take
MOST_ROUNDS = 6
WAITING = frozenset({S.PENDING_APPROVAL, S.APPROVED, S.PAYING, S.IN_DOUBT, S.PROVIDER_PENDING})


class Fuse:
    """Counts points; the process is gone when it comes to number `at`."""

    def __init__(self, at: int | None = None) -> None:
        self.points: list[str] = []
        self._at = at

    def burn(self, point: str) -> None:
        if len(self.points) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.points.append(point)


class MortalDatabase(SqlDatabase):
    """Burns before, in and after each transaction."""

    fuse = Fuse()

    def transact(self, fn: Callable[[Any], Any], *, durable: bool = True) -> Awaitable[Any]:
        name = fn.__qualname__.replace("<locals>.", "").removesuffix(".<lambda>")

        def work(tx: Any) -> Any:
            result = fn(tx)
            self.fuse.burn(f"in {name}")
            return result

        async def mortal() -> Any:
            self.fuse.burn(f"before {name}")
            result = await super(MortalDatabase, self).transact(work, durable=durable)
            self.fuse.burn(f"after {name}")
            return result

        return mortal()


class MortalGateway:
    """Burns before and after each call."""

    def __init__(self, gateway: Any, fuse: Fuse) -> None:
        self._gateway = gateway
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._gateway, name)
        if name not in {"refund", "find", "get", "payment_state"}:
            return found

        async def mortal(*arguments: Any) -> Any:
            self._fuse.burn(f"before gateway {name}")
            answer = await found(*arguments)
            self._fuse.burn(f"after gateway {name}")
            return answer

        return mortal


class KeptGateway:
    """A gateway simulator whose state is a file: whoever calls may die, what it did stays done."""

    livemode = False
    books_only = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = self.simulator().name

    def simulator(self) -> GatewaySimulator:
        """As it is now."""
        kept: GatewaySimulator = pickle.loads(self._path.read_bytes())  # noqa: S301 - our own file
        return kept

    @staticmethod
    def keep(simulator: GatewaySimulator, path: Path) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(pickle.dumps(simulator))
        fresh.replace(path)

    @classmethod
    def tell(cls, path: Path, what: Callable[[GatewaySimulator], object]) -> None:
        """What happens at the gateway by itself."""
        changed = cls(path).simulator()
        what(changed)
        cls.keep(changed, path)

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            with self._path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                simulator = self.simulator()
                try:
                    return await getattr(simulator, name)(*arguments)
                finally:
                    self.keep(simulator, self._path)

        return call

    async def refunds_since(self, since: datetime) -> AsyncIterator[GatewayRefund]:
        async for refund in self.simulator().refunds_since(since):
            yield refund

    async def aclose(self) -> None:
        """Nothing is open."""


class NewKeyEachTime:
    """The classical mistake: a retry that the gateway cannot know from the first call."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    async def refund(self, instruction: RefundInstruction) -> GatewayRefund:
        key = f"{instruction.key}:{os.urandom(4).hex()}"
        return replace(
            await self._gateway.refund(replace(instruction, key=key)), key=instruction.key
        )

    async def find(self, instruction: RefundInstruction) -> None:
        """It asks for a key that it never sent."""


Said = dict[str, Any]  # conversation, quote_id, customer


async def say_yes(shop: Shop, said: Said) -> None:
    """The customer says yes, the model files; whoever goes on with that does the same."""
    shop.model.model, shop.model.base = FunctionModel(partial(files, said["quote_id"])), 0
    await shop.container.agent().take(
        Incoming(
            text="đồng ý",
            binding=binding_of(said["customer"]),
            conversation_id=said["conversation"],
            message_id="yes",
        )
    )


def files(quote_id: str, request: ModelRequest) -> Any:
    if isinstance(request.turns[-1], ToolResult):
        return "Vâng."
    return [("request_refund", json.dumps({"quote_id": quote_id}))]


async def approve(shop: Shop, _: Said) -> None:
    """Lan approves what waits, and tries to pay it at once."""
    for request in await requests_of(shop):
        if (await shop.request(request.id)).status is S.PENDING_APPROVAL:
            by = await shop.approver("lan")
            await shop.container.approvals().approve(request.id, by=by)
    for request in await requests_of(shop):
        await shop.container.payouts().pay(request.id)


async def retry(shop: Shop, _: Said) -> None:
    """Staff asks to pay again what failed."""
    for request in await requests_of(shop):
        if request.status is S.FAILED:
            await shop.container.retries().retry(request.id, by=operator("op"))


async def tick(shop: Shop, _: Said) -> None:
    await shop.container.life().expire_due(shop.container.database())
    await shop.container.payouts().pay_due()
    await shop.container.payouts().reconcile()


Step = Callable[[Shop, Said], Awaitable[None]]
STORIES: dict[str, tuple[Step, ...]] = {
    "automatic": (say_yes, tick),
    "approved": (say_yes, approve, tick),
    "retried": (say_yes, approve, retry, approve, tick),
}


@asynccontextmanager
async def opened(
    url: str,
    *,
    gateway: str | None,
    fuse: Fuse,
    later: timedelta,
    broken: bool = False,
    now: datetime | None = None,
    parts: Mapping[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Shop]:
    """The shop with parts that burn a fuse, its gateway in the database or kept in a file.

    `now` is business time; without one it goes with the other clocks.
    """
    settings = settings_for(url)
    keys = load_keys(configured=settings.security.keys, database_url=url)
    database = MortalDatabase(url, keys, now=lambda c: database_now(c) + later)
    database.fuse = fuse
    real: Any = KeptGateway(Path(gateway)) if gateway else LedgerGateway(database)
    mortal = MortalGateway(NewKeyEachTime(real) if broken else real, fuse)
    overrides = {
        "database": database,
        "gateway": mortal,
        "wall_clock": lambda: datetime.now(UTC) + later,
        **(parts or {}),
    }
    try:
        async with open_shop_with(
            url, now=now or TODAY + later, overrides=overrides, **sections
        ) as shop:
            yield shop
    finally:
        await database.aclose()


async def play(
    url: str, story: str, said: Said, *, at: int | None, gateway: str | None, broken: bool = False
) -> list[str]:
    """The story up to point `at`, or to its end: then the points that it has."""
    fuse = Fuse(at)
    async with opened(url, gateway=gateway, fuse=fuse, later=timedelta(), broken=broken) as shop:
        for step in STORIES[story]:
            await step(shop, said)
    return fuse.points


async def recover(
    url: str, story: str, said: Said, *, gateway: str | None, broken: bool = False
) -> dict[str, Any]:
    """What the customer, the approver, staff and the clockwork do until nothing happens any more.

    Each repeats the step, whether it was done or not: they cannot know.
    """
    for number in range(1, MOST_ROUNDS):
        later = PAUSE * number
        async with opened(url, gateway=gateway, fuse=Fuse(), later=later, broken=broken) as shop:
            if number == 1:
                await let_leases_end(shop)
            for step in STORIES[story][0 if number == 1 else 1 :]:
                with suppress(SupportAgentError):
                    await step(shop, said)
            end = await found(shop)
        goes_on = WAITING | ({S.FAILED} if retry in STORIES[story] else set())
        if not {status for status, _ in end["requests"]} & goes_on:
            break
    return end


async def let_leases_end(shop: Shop) -> None:
    """Leases are counted by the database's clock, which nobody can put forward."""
    sql = "UPDATE conversations SET lease_until = 0 WHERE lease_until IS NOT NULL"
    await shop.container.database().run_write(lambda c: c.exec_driver_sql(sql))


async def found(shop: Shop) -> dict[str, Any]:
    """What there is in the end, at the gateway and in the books."""
    gateway = shop.container.gateway()
    refunds = [r async for r in gateway.refunds_since(TODAY - timedelta(days=400))]
    requests = sorted(await requests_of(shop), key=lambda request: request.id)
    return {
        "requests": [(r.status, r.amount_minor) for r in requests],
        "refunds": [(r.key, r.amount_minor) for r in refunds],
        "attempts": [
            [(a.key, a.status) for a in await shop.read(lambda tx, r=r: tx.attempts.of(r.id))]
            for r in requests
        ],
        "books": [str(m) for m in await shop.read(lambda tx: tx.books.check())],
        "history": list(await problems(shop)),
    }

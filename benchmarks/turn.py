"""What a turn of the A100 question costs on SQLite, beside the commits it consists of.

Prints a table to paste into RESULTS.md; writes only into a temporary folder. Run by `make bench`.
"""

import sys

sys.path.pop(0)  # this folder has a file named like a module of the standard library

import asyncio
import os
import platform
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from support_agent import Agent, Assurance, Binding, Incoming, customer_principal, open_container
from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.keys import load_keys
from support_agent.domain.conversation import Author
from support_agent.domain.runs import StopReason
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction
from support_agent.settings import Settings
from support_agent.testing import ScriptedModel

T = TypeVar("T")
TURNS, COMMITS = 200, 1_000
QUESTION = "Đơn A100 của tôi có được hoàn tiền không?"
SCRIPT: tuple[dict[str, object], ...] = (
    {"tool": "lookup_order", "arguments": {"order_id": "A100"}},
    {"tool": "refund_policy", "arguments": {}},
    {"answer": "Đơn A100 vẫn còn trong thời hạn hoàn tiền."},
)
CUSTOMER = Binding(
    channel="bench",
    account="local",
    external_contact="C001",
    customer_id="C001",
    assurance=Assurance.VERIFIED,
    principal=customer_principal("C001", via="bench"),
)


class CountingDatabase(SqlDatabase):
    """Counts what is committed, by how durable it is."""

    def __init__(self, url: str, keys: KeyRing) -> None:
        super().__init__(url, keys)
        self.commits: Counter[bool] = Counter()

    def transact(self, fn: Callable[[Transaction], T], *, durable: bool = True) -> Awaitable[T]:
        self.commits[durable] += 1
        return super().transact(fn, durable=durable)


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds."""

    cpu: float
    wall: float

    def times(self, factor: float) -> "Cost":
        return Cost(self.cpu * factor, self.wall * factor)

    def plus(self, other: "Cost") -> "Cost":
        return Cost(self.cpu + other.cpu, self.wall + other.wall)


async def cost(times: int, work: Callable[[], Awaitable[object]]) -> Cost:
    """What one `work` costs, after a tenth of them to warm up."""
    for _ in range(times // 10):
        await work()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(times):
        await work()
    spent = Cost(time.process_time() - cpu, time.perf_counter() - wall)
    return spent.times(1000 / times)


async def conversation(agent: Agent) -> str:
    """A new conversation with one turn; its id."""
    result = await agent.take(Incoming(text=QUESTION, binding=CUSTOMER))
    if result.stop_reason is not StopReason.ANSWERED:
        raise RuntimeError(f"a turn that is measured ended as {result.stop_reason}")
    return result.conversation_id


def committing(database: SqlDatabase, conversation_id: str, *, durable: bool) -> Awaitable[int]:
    """The smallest write there is: one message."""
    now = datetime.now(UTC)
    return database.transact(
        lambda tx: tx.conversations.append(
            conversation_id, author=Author.NOTICE, text="x", at=now, run_id=None
        ),
        durable=durable,
    )


async def measure(url: str) -> dict[str, Cost]:
    """The rows of the table."""
    database = CountingDatabase(url, load_keys(configured=None, database_url=url))
    # One customer asks more often here than one may in a day.
    budgets = {"customer_day_requests": 10**9, "customer_day_tokens": 10**12}
    settings = Settings(_env_file=None, database={"url": url}, budgets=budgets)
    overrides = {"model": ScriptedModel(SCRIPT), "database": database}
    async with open_container(settings, overrides=overrides) as container:
        agent = container.agent()
        known = await conversation(agent)
        database.commits.clear()
        await conversation(agent)
        durable, relaxed = database.commits[True], database.commits[False]
        turn = await cost(TURNS, lambda: conversation(agent))
        firm = await cost(COMMITS, lambda: committing(database, known, durable=True))
        loose = await cost(COMMITS, lambda: committing(database, known, durable=False))
    await database.aclose()
    return {
        f"a turn: {len(SCRIPT)} steps, {durable} durable and {relaxed} relaxed commits": turn,
        "a step of it": turn.times(1 / len(SCRIPT)),
        "a durable commit of one message": firm,
        "a relaxed commit of one message": loose,
        "as many such commits as a turn has": firm.times(durable).plus(loose.times(relaxed)),
    }


def show(rows: dict[str, Cost]) -> None:
    """Print the machine and the table; the last column makes runs on other machines comparable."""
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, SQLite "
        f"{sqlite3.sqlite_version}; {TURNS} turns, {COMMITS} commits\n"
    )
    whole = next(iter(rows.values())).cpu
    print("| | CPU ms | wall ms | CPU in turns |\n|---|---:|---:|---:|")
    for name, one in rows.items():
        print(f"| {name} | {one.cpu:.2f} | {one.wall:.2f} | {one.cpu / whole:.3f} |")


def main() -> None:
    """Make a sample shop in a temporary folder and measure on it."""
    command = Path(sys.executable).parent / "support-agent"
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'shop.db'}"
        env = {**os.environ, "SUPPORT_AGENT_DATABASE__URL": url}
        for step in ("upgrade", "seed"):
            done = [str(command), "db", step]
            subprocess.run(done, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        show(asyncio.run(measure(url)))


if __name__ == "__main__":
    main()

"""What the approval queue costs in a shop with very many requests: pages, a brief, a decision.

`python benchmarks/queue.py --requests 1000000` makes the shop once, under var/, and prints a table
to paste into RESULTS.md. One of twenty requests waits. Deciding changes the database: each run
works on requests that the ones before left.
"""

import os
import sys

# This file is named like a module of the standard library: its folder must not come first.
sys.path.append(os.path.dirname(sys.path.pop(0)))  # noqa: PTH120 - pathlib comes after it

import argparse
import asyncio
import platform
import shutil
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.large_shop import NOW, build, settings_of
from support_agent import open_container
from support_agent.container import Container
from support_agent.domain.people import SYSTEM, Approver
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import Page, RequestFilter, Transaction
from support_agent.testing import ScriptedModel
from support_agent.testing.clock import FixedClock

PAGE_SIZE, FAR = 50, 900
TIMES, DECISIONS = 200, 150
SMALL = 250_000  # what one approver may decide 200 times a day
QUEUE = RequestFilter(status=RequestStatus.PENDING_APPROVAL)


async def times(work: Callable[[], Awaitable[object]], count: int = TIMES) -> list[float]:
    """Milliseconds of each call."""
    spent = []
    for _ in range(count):
        start = time.perf_counter()
        await work()
        spent.append(1000 * (time.perf_counter() - start))
    return spent


class Desk:
    """The things that are measured."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._database = container.database()

    async def page(self, cursor: str | None = None) -> Page[RefundRequest]:
        def read(tx: Transaction) -> Page[RefundRequest]:
            return tx.requests.list(QUEUE, limit=PAGE_SIZE, cursor=cursor)

        return await self._database.read(read)

    async def walk(self) -> tuple[int, str | None, list[RefundRequest]]:
        """Page FAR or the last full one, its cursor, and the small ones that wait before it."""
        number, cursor, found = 1, None, []
        page = await self.page()
        while page.next_cursor is not None and number < FAR:
            found += [one for one in page.data if one.amount_minor == SMALL]
            following = await self.page(page.next_cursor)
            if not following.has_more:
                break
            number, cursor, page = number + 1, page.next_cursor, following
        return number, cursor, found

    async def brief(self, request: RefundRequest) -> object:
        return await self._container.approvals().brief(request.id)

    async def decide(self, requests: list[RefundRequest]) -> list[float]:
        """By somebody new, whose day has not begun: an approver decides up to a cap a day."""
        approvals, name = self._container.approvals(), f"bench-{time.time_ns()}"
        new = Approver(name=name, person_id=name, level=1, limits={"VND": 2_000_000})
        await self._container.approvers().add(new, by=SYSTEM)
        by = await approvals.prove(name, None, via="bench")
        waiting = iter(requests)
        return await times(lambda: approvals.approve(next(waiting).id, by=by), len(requests))

    async def plans(self, cursor: str | None) -> list[str]:
        """How SQLite goes about the first page and one later on."""
        asked: list[tuple[str, Any]] = []
        engine = self._database._engines.reading  # noqa: SLF001 - to listen in

        def note(*args: Any) -> None:  # noqa: ANN401 - of SQLAlchemy
            asked.append((args[2], args[3]))

        sa.event.listen(engine, "before_cursor_execute", note)
        for one in (None, cursor):
            await self.page(one)
        sa.event.remove(engine, "before_cursor_execute", note)

        def explain(connection: sa.Connection) -> list[str]:
            return [
                str(row[-1])
                for words, values in asked
                if words.startswith("SELECT")
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {words}", values)
            ]

        return await self._database.run_read(explain)


async def measure(url: str) -> None:
    overrides = {"clock": FixedClock(NOW), "model": ScriptedModel(())}
    async with open_container(settings_of(url), overrides=overrides) as container:
        desk = Desk(container)
        far, cursor, waiting = await desk.walk()
        shown = iter(waiting[-TIMES:])
        rows = {
            f"first page of {PAGE_SIZE}": await times(desk.page),
            f"page {far}": await times(lambda: desk.page(cursor)),
            "show (the brief)": await times(
                lambda: desk.brief(next(shown)), min(TIMES, len(waiting))
            ),
            "decide (approve, with its commit)": await desk.decide(waiting[:DECISIONS]),
        }
        plans = await desk.plans(cursor)
    print("| | median ms | 10 of 100 within ms | 95 of 100 within ms |\n|---|---:|---:|---:|")
    for name, spent in rows.items():
        _, best, *_, worst = statistics.quantiles(spent, n=20)
        print(f"| {name} | {statistics.median(spent):.2f} | {best:.2f} | {worst:.2f} |")
    print("\nPlans:")
    for plan in plans:
        print(f"- `{plan}`")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=100_000, help="how many, at least 2,000")
    options.add_argument("--folder", type=Path, default=Path("var"), help="where the shop is kept")
    options.add_argument("--fresh", action="store_true", help="make the shop anew")
    chosen = options.parse_args()
    made = chosen.folder / f"bench-{chosen.requests}"
    if chosen.fresh and made.exists():
        shutil.rmtree(made)
    started = time.perf_counter()
    if not (made / "ready").exists():
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        build(made / "shop.db", chosen.requests)
        (made / "ready").touch()
        print(f"made {chosen.requests:,} requests in {time.perf_counter() - started:.0f} s")
    size = (made / "shop.db").stat().st_size / 2**30
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}, SQLite "
        f"{sqlite3.sqlite_version}; {chosen.requests:,} requests, {size:.1f} GB\n"
    )
    asyncio.run(measure(f"sqlite:///{made / 'shop.db'}"))


if __name__ == "__main__":
    main()

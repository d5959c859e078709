"""The product as one side of a comparison of agent frameworks: what it adds to the model's time.

    python benchmarks/agent_overhead.py --base-url http://127.0.0.1:PORT/v1 --scenario steps-20

It talks to a scripted chat-completion server, whose script is chosen by the model's name:

- `a100`: lookup_order, refund_policy, then the answer;
- `steps-N`: N times lookup_order, then the answer;
- `hitl`: lookup_order, refund_order; the run is cut off once the refund is filed and waits; an
  approver approves, it is paid, and the run is resumed from what is stored for the answer.

Everything is the product's own: container, loop, tools, and each step committed to DIR/state.db.
After the runs the rows are counted, and one JSON line is printed last.
"""

# ruff: noqa: E402 - the clocks have to start before anything is imported
import sys

sys.path.pop(0)  # this folder has a file named like a module of the standard library

import time

WALL, CPU = time.perf_counter(), time.process_time()

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import sqlite3
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from support_agent import Assurance, Binding, Incoming, customer_principal, logging, open_container
from support_agent.container import Container
from support_agent.domain.allocation import Wish
from support_agent.domain.orders import Customer, Order
from support_agent.ports.storage import Transaction
from support_agent.ports.tool import (
    Arguments,
    CallContext,
    Effect,
    ReadTool,
    Tool,
    ToolOutput,
    WriteTool,
)
from support_agent.services.audit import verify
from support_agent.settings import Settings
from support_agent.tools.lookup_order import LookupOrder, LookupOrderArguments
from support_agent.tools.refund_policy import RefundPolicy

IMPORTED = time.perf_counter()

SYSTEM = (
    "You are a customer-support order agent. Look up the order and the refund policy with the "
    "tools before you answer. Answer in the customer's language."
)
QUESTION = "Đơn A100 của tôi có được hoàn tiền không? Hôm nay là 2026-10-13."
REFUND_QUESTION = "Hoàn tiền đơn A100 giúp tôi. Hôm nay là 2026-10-13."
RIGHT_ANSWERS = ("12 ngày", "250000 VND")
ORDER = "A100"
KEYS = f"bench:{'5e' * 32}"
# Each may let 50 million a day pass, so that four of them are enough for 800 refunds of A100.
APPROVERS = ("lan", "huong", "tuan", "minh")
MOST_REFUNDS = 800
PLENTY = 1_000_000_000
SCOPES = ("conversation", "customer_day", "channel_day", "installation_day")
MEASURES = ("requests", "tokens")
# What a turn may come to before its old observations become digests: a support turn of three calls
# stays below it.
HIGH_WATER = 900
Runs = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was asked for on the command line."""

    base_url: str
    scenario: str
    runs: int
    concurrency: int
    warmup: int
    folder: Path

    @property
    def is_refund(self) -> bool:
        return self.scenario == "hitl"

    @property
    def model_calls(self) -> int:
        prefix, _, steps = self.scenario.partition("-")
        return int(steps) + 1 if prefix == "steps" else 3

    @property
    def names(self) -> list[str]:
        """Of every run there is: the first one, those that warm up, those that are measured."""
        warming = (f"w{number}" for number in range(self.warmup))
        return ["first", *warming, *(f"r{number}" for number in range(self.runs))]

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'state.db'}"

    @property
    def settings(self) -> Settings:
        """The product's defaults, but for limits that no run of the comparison may meet."""
        return Settings(
            _env_file=None,
            database={"url": self.url},
            model={"kind": "openai", "name": self.scenario},
            clock={"now": "2026-10-13"},
            approvals={"proof": "asserted"},
            consent={"request_refund": "implied"},
            limits={
                "max_steps": self.model_calls + 5,
                "max_tool_calls": self.model_calls + 5,
                "max_identical_calls": self.model_calls + 5,
                "max_tokens": PLENTY,
                "run_seconds": 3_600,
            },
            budgets={f"{scope}_{measure}": PLENTY for scope in SCOPES for measure in MEASURES},
            history={"high_water_tokens": HIGH_WATER, "low_water_tokens": HIGH_WATER // 2},
            security={"keys": KEYS},
            openai_base_url=self.base_url,
            openai_api_key=os.environ.get("OPENAI_API_KEY", "stub"),
        )


def job_of(arguments: list[str]) -> tuple[Job, bool]:
    """The job, and whether this process is only to make the database for it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--scenario", default="a100", help="a100, hitl or steps-N")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--dir", default="", help="a folder for state.db; a new one by default")
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    job = Job(
        base_url=given.base_url,
        scenario=given.scenario,
        runs=given.runs,
        concurrency=given.concurrency,
        warmup=given.warmup,
        folder=Path(given.dir or tempfile.mkdtemp(prefix="bench-")),
    )
    if job.is_refund and len(job.names) > MOST_REFUNDS:
        parser.error(f"the approvers' day allows {MOST_REFUNDS} refunds")
    return job, given.prepare


def customer_of(job: Job, name: str) -> str:
    """A100 is refunded once, so each run that refunds it is another customer's."""
    return f"C-{name}" if job.is_refund else "C001"


def own_order(customer_id: str) -> str:
    return ORDER if customer_id == "C001" else f"{ORDER}-{customer_id}"


def prepare(job: Job) -> None:
    """Make and fill the database, as a shop has one before it starts its agent."""
    from support_agent.adapters.db.migrations import upgrade  # noqa: PLC0415 - of this process only
    from support_agent.adapters.policy_files import (  # noqa: PLC0415
        load_policy,
        policy_body,
    )
    from support_agent.adapters.shop_files import (  # noqa: PLC0415
        load_approvers,
        load_customers,
        load_orders,
    )
    from support_agent.resources import resource_dir  # noqa: PLC0415
    from support_agent.services.seeding import SampleShop  # noqa: PLC0415

    upgrade(job.url, live=False)
    data = resource_dir() / "data"
    policy = data / "policies" / "standard.yaml"
    customer = next(c for c in load_customers(data / "shop") if c.id == "C001")
    order = next(o for o in load_orders(data / "shop") if o.id == ORDER)
    ids = dict.fromkeys(customer_of(job, name) for name in job.names)
    sample = SampleShop(
        customers=tuple(Customer(id=id_, name=customer.name) for id_ in ids),
        orders=tuple(_copy(order, id_) for id_ in ids),
        approvers=load_approvers(data / "shop"),
        policy=load_policy(policy),
        policy_body=policy_body(policy),
    )

    async def fill() -> None:
        async with open_container(job.settings) as container:
            await container.seeding().run(sample)

    asyncio.run(fill())


def _copy(order: Order, customer_id: str) -> Order:
    """The order as another customer's, with payments and lines of its own."""
    id_ = own_order(customer_id)
    return replace(
        order,
        id=id_,
        customer_id=customer_id,
        lines=tuple(replace(one, id=one.id.replace(ORDER, id_)) for one in order.lines),
        payments=tuple(
            replace(one, id=f"PAY-{id_}-{number}", gateway_payment_id=f"led_{id_}_{number}")
            for number, one in enumerate(order.payments)
        ),
    )


class OrderArguments(Arguments):
    order_id: str


class OwnOrder(ReadTool[OrderArguments]):
    """The product's lookup_order; the script's A100 is the order of whoever is asking.

    It is described to the model in the words that the other frameworks use.
    """

    name: ClassVar[str] = LookupOrder.name
    description: ClassVar[str] = "Look up an order by its id."
    arguments = OrderArguments

    def __init__(self, tool: LookupOrder) -> None:
        self._tool = tool

    async def run(self, arguments: OrderArguments, context: CallContext) -> ToolOutput:
        order_id = own_order(context.asker.customer_id)
        return await self._tool.run(LookupOrderArguments(order_id=order_id), context)


class Policy(RefundPolicy):
    """The product's refund_policy, described as the others do."""

    description: ClassVar[str] = "The shop's refund policy."


class RefundOrderArguments(OrderArguments):
    amount: int


@dataclass(frozen=True, slots=True)
class Filed:
    """What waits for an approver: the run that filed it and the request."""

    run_id: str
    request_id: str


class RefundOrder(WriteTool[RefundOrderArguments, tuple[Order, Wish]]):
    """Quotes and files in one call, as the other frameworks' tool does; a person has to approve.

    Once that is committed it stands still, so that the run can be cut off there.
    """

    name: ClassVar[str] = "refund_order"
    description: ClassVar[str] = "Refund an order. Needs a person's approval."
    effect: ClassVar[Effect] = Effect.WRITE  # it files; the payout is what pays
    arguments = RefundOrderArguments

    def __init__(self, container: Container) -> None:
        self._lookup = container.lookup()
        self._quotes = container.quotes()
        self._filing = container.filing()
        self.filed: dict[str, asyncio.Future[Filed]] = {}

    async def prepare(
        self, arguments: RefundOrderArguments, context: CallContext
    ) -> tuple[Order, Wish]:
        order = await self._lookup.owned(own_order(context.asker.customer_id), context.asker)
        return order, Wish(amount_minor=arguments.amount)

    def apply(
        self, tx: Transaction, prepared: tuple[Order, Wish], context: CallContext
    ) -> ToolOutput:
        order, wish = prepared
        group, _ = self._quotes.make(tx, order=order, wish=wish, asker=context.asker)
        first, *_ = self._filing.file(tx, quote_id=group[0].id, order=order, asker=context.asker)
        content = {"request_id": first.id, "status": first.status.value}
        return ToolOutput(content=content, request_ids=(first.id,))

    async def after_commit(self, output: ToolOutput, context: CallContext) -> None:
        waiting = self.filed.get(context.asker.customer_id)
        if waiting is None:  # the run is resumed: it was approved and paid meanwhile
            return
        waiting.set_result(Filed(context.asker.run_id or "", output.request_ids[0]))
        await asyncio.Event().wait()


def tools_of(job: Job, container: Container) -> list[Tool[Any]]:
    """Those that the script calls: the other frameworks are given no more."""
    lookup = next(tool for tool in container.tools() if isinstance(tool, LookupOrder))
    policy = Policy(policies=container.policies(), database=container.database())
    refund = [RefundOrder(container)] if job.is_refund else []
    return [OwnOrder(lookup), policy, *refund]


def binding_of(customer_id: str) -> Binding:
    return Binding(
        channel="bench",
        account="local",
        external_contact=customer_id,
        customer_id=customer_id,
        assurance=Assurance.VERIFIED,
        principal=customer_principal(customer_id, via="bench"),
    )


def asking(container: Container) -> Runs:
    """A new conversation with one turn."""
    agent, incoming = container.agent(), Incoming(text=QUESTION, binding=binding_of("C001"))

    async def run(_name: str) -> str:
        return (await agent.take(incoming)).answer

    return run


async def refunding(job: Job, container: Container, tool: RefundOrder) -> Runs:
    """A turn that is cut off while its refund waits, the approval, the payout, and the rest."""
    agent, approvals, payouts = container.agent(), container.approvals(), container.payouts()
    approvers = [await approvals.prove(name, None, via="bench") for name in APPROVERS]
    turn_of = {name: number for number, name in enumerate(job.names)}

    async def run(name: str) -> str:
        customer_id = customer_of(job, name)
        by = approvers[turn_of[name] % len(approvers)]
        filed = await cut_off(customer_id)
        await approvals.approve(filed.request_id, by=by)
        await payouts.pay(filed.request_id)
        resumed = await agent.resume(filed.run_id, operator="bench", via="bench")
        return resumed.answer

    async def cut_off(customer_id: str) -> Filed:
        waiting: asyncio.Future[Filed] = asyncio.get_running_loop().create_future()
        tool.filed[customer_id] = waiting
        incoming = Incoming(text=REFUND_QUESTION, binding=binding_of(customer_id))
        turn = asyncio.create_task(agent.take(incoming))
        await asyncio.wait((turn, waiting), return_when=asyncio.FIRST_COMPLETED)
        if turn.done():
            raise RuntimeError(f"nothing was filed: {turn.result().answer}")
        turn.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turn
        del tool.filed[customer_id]
        return waiting.result()

    return run


@contextlib.asynccontextmanager
async def opened(job: Job) -> AsyncIterator[tuple[Container, Runs]]:
    """The product, ready: a container on the prepared database, and how one run is made."""
    async with open_container(job.settings, overrides={"system_prompt": SYSTEM}) as container:
        tools = tools_of(job, container)
        container.tools.override(tools)
        last = tools[-1]
        if isinstance(last, RefundOrder):
            yield container, await refunding(job, container, last)
        else:
            yield container, asking(container)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Milliseconds, but for the last two."""

    first: float
    each: list[float]  # sorted
    cpu: float  # of all of them together
    wall: float
    wrong: int
    written: int  # bytes of the database that the runs made


async def measure(job: Job, run: Runs) -> Measured:
    """The first run, those that warm up, then all others, some at a time."""
    path = job.folder / "state.db"
    empty = size_of(path)
    names = iter(job.names)
    answers: list[str] = []
    each: list[float] = []

    async def one(name: str) -> float:
        started = time.perf_counter()
        answers.append(await run(name))
        return (time.perf_counter() - started) * 1e3

    async def some() -> None:
        for name in names:
            each.append(await one(name))  # noqa: PERF401 - one after the other

    first = await one(next(names))
    for _ in range(job.warmup):
        await one(next(names))
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(some() for _ in range(job.concurrency)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(
        first=first,
        each=sorted(each),
        cpu=cpu * 1e3,
        wall=wall * 1e3,
        wrong=sum(not any(right in answer for right in RIGHT_ANSWERS) for answer in answers),
        written=size_of(path) - empty,
    )


def size_of(path: Path) -> int:
    """The database's bytes, after its log is folded in."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return path.stat().st_size


def expected_rows(job: Job) -> dict[str, int]:
    """What has to be in the database of all runs, by what `counted_rows` calls it."""
    calls, refunds = job.model_calls - 1, int(job.is_refund)
    each = {
        "runs that ended with an answer": 1,
        "conversations that are free again": 1,
        "messages of the customer": 1,
        "answers": 1,
        "notices": refunds,  # that it is paid; that it waits is in no answer of a run cut off
        "steps": calls + 1,
        "tool calls, each answered once": calls,
        "quotes": refunds,
        "requests, refunded": refunds,
        "decisions": refunds,
        "attempts that succeeded": refunds,
        "payouts of 250000 each": refunds,
        "ledger entries of the reserve": 4 * refunds,  # the order, its two lines, its payment
        "entries of the approvers' caps": 2 * refunds,  # the approver's day, the pair's day
        "ledger entries of the settlement": 4 * refunds,
        "audit events of requests": 4 * refunds,  # filed, approved, paying, refunded
        "events for other systems": 4 * refunds,
    }
    return {what: count * len(job.names) for what, count in each.items()}


COUNTS = {
    "runs that ended with an answer": "runs WHERE status = 'done' AND stop_reason = 'answered'",
    "conversations that are free again": "conversations WHERE lease_until IS NULL",
    "messages of the customer": "messages WHERE author = 'customer'",
    "answers": "messages WHERE author = 'agent'",
    "notices": "messages WHERE author = 'notice'",
    "steps": "steps",
    "tool calls, each answered once": "tool_calls WHERE ok",
    "quotes": "quotes",
    "requests, refunded": "refund_requests WHERE status = 'REFUNDED'",
    "decisions": "refund_decisions WHERE choice = 'approve'",
    "attempts that succeeded": "refund_attempts WHERE status = 'SUCCEEDED'",
    "payouts of 250000 each": "ledger_payouts WHERE amount_minor = 250000",
    "ledger entries of the reserve": (
        "ledger_entries WHERE kind = 'RESERVE' AND account_kind <> 'cap'"
    ),
    "entries of the approvers' caps": "ledger_entries WHERE account_kind = 'cap'",
    "ledger entries of the settlement": "ledger_entries WHERE kind = 'SETTLE'",
    "audit events of requests": "audit_events WHERE action LIKE 'refund.%'",
    "events for other systems": "outbox WHERE topic LIKE 'refund.%'",
}


def counted_rows(job: Job) -> dict[str, int]:
    """What is in the database, asked for beside the product."""
    with contextlib.closing(sqlite3.connect(job.folder / "state.db")) as connection:
        return {
            what: connection.execute(f"SELECT count(*) FROM {where}").fetchone()[0]  # noqa: S608 - ours
            for what, where in COUNTS.items()
        }


async def check(job: Job, container: Container) -> int:
    """How many refunds there are, once every row is there and books and history agree.

    Raises:
        SystemExit: something is missing or is there twice; says what.
    """
    counted, expected = counted_rows(job), expected_rows(job)
    wrong = [
        f"{counted[what]} {what}, not {count}"
        for what, count in expected.items()
        if counted[what] != count
    ]
    database, keys = container.database(), container.keys()
    wrong += [str(mismatch) for mismatch in await database.read(lambda tx: tx.books.check())]
    wrong += (await database.read(lambda tx: verify(tx, keys))).problems
    if wrong:
        raise SystemExit("; ".join(wrong))
    return counted["requests, refunded"]


def report(job: Job, measured: Measured, *, ready: dict[str, float], refunds: int) -> str:
    """The line that the comparison reads."""
    total, each = len(job.names), measured.each
    line = {
        "runner": "support_agent",
        "versions": {name: version(name) for name in ("support-agent", "openai")},
        "scenario": job.scenario,
        "runs": job.runs,
        "concurrency": job.concurrency,
        "warmup_runs": job.warmup + 1,
        "wrong_answers": measured.wrong,
        **ready,
        "first_run_ms": measured.first,
        "p50_ms": each[len(each) // 2],
        "p95_ms": each[min(len(each) - 1, int(0.95 * len(each)))],
        "min_ms": each[0],
        "runs_per_s": job.runs / measured.wall * 1e3,
        "cpu_ms_per_run": measured.cpu / job.runs,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "persist": "sqlite, every step and effect committed; money and approvals durable",
        "db_bytes_per_run": size_of(job.folder / "state.db") // total,
        "state_bytes_per_run": measured.written // total,  # without schema and sample shop
        "refunds": refunds,
    }
    rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()}
    return json.dumps(rounded, ensure_ascii=False)


async def compare(job: Job) -> str:
    """Run everything, check it, and say what it cost."""
    started = time.perf_counter()
    async with opened(job) as (container, run):
        ready = {
            "import_ms": (IMPORTED - WALL) * 1e3,
            "setup_ms": (time.perf_counter() - started) * 1e3,
            "ready_cpu_ms": (time.process_time() - CPU) * 1e3,
        }
        measured = await measure(job, run)
        refunds = await check(job, container)
    return report(job, measured, ready=ready, refunds=refunds)


def main() -> None:
    """Make the database in a process of its own, then run."""
    logging.configure(format="console", level="warning")
    job, prepares = job_of(sys.argv[1:])
    if prepares:
        prepare(job)
        return
    again = [sys.executable, __file__, *sys.argv[1:], "--dir", str(job.folder), "--prepare"]
    subprocess.run(again, check=True)  # noqa: S603 - this very script
    print(asyncio.run(compare(job)))


if __name__ == "__main__":
    main()

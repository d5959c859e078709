"""1,000 conversations in flight in one process: memory, event-loop lag, and no turn that is lost.

    python benchmarks/inflight.py --conversations 1000 --latency 1

Each is a customer of its own with two turns, on SQLite in a temporary folder. They begin within one
latency of the model, so that all of them are under way before the first is answered; `--together`
has them begin in the same instant. Prints a table to paste into RESULTS.md, and fails when a turn
was not answered.
"""

import os
import sys

# A neighbour is named like a module of the standard library: this folder must not come first.
sys.path.append(os.path.dirname(sys.path.pop(0)))  # noqa: PTH120 - pathlib comes after it

import argparse
import asyncio
import platform
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.crowd.fleet import configured, environment, model_server, prepare
from benchmarks.crowd.model import MARK
from benchmarks.crowd.talk import Story, stories
from support_agent import Agent, Incoming, open_container
from support_agent.domain.runs import StopReason
from support_agent.settings import Settings

TURNS = 2
SAMPLE_S = 0.005


@dataclass(slots=True)
class Lag:
    """How much later than asked for the event loop woke somebody, in seconds."""

    seen: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            asked = time.perf_counter()
            await asyncio.sleep(SAMPLE_S)
            self.seen.append(time.perf_counter() - asked - SAMPLE_S)

    def percentile(self, share: float) -> float:
        return sorted(self.seen)[min(len(self.seen) - 1, int(share * len(self.seen)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Seconds and megabytes."""

    turns: Sequence[float]  # sorted
    wall: float
    cpu: float
    lag: Lag
    idle_mb: float
    peak_mb: float
    wrong: Sequence[str]


async def talk(
    agent: Agent, story: Story, spent: list[float], wrong: list[str], *, after_s: float = 0
) -> None:
    """Two turns of one conversation, each held against the marks of what was asked."""
    await asyncio.sleep(after_s)
    conversation = None
    for said in [*story.messages][:TURNS]:
        started = time.perf_counter()
        result = await agent.take(
            Incoming(
                text=said.text,
                binding=story.binding,
                conversation_id=conversation,
                message_id=said.id,
            )
        )
        spent.append(time.perf_counter() - started)
        conversation = result.conversation_id
        answered = set(MARK.findall(said.text)) <= set(MARK.findall(result.answer))
        if not answered or result.stop_reason not in _GOOD:
            wrong.append(f"{said.id}: {result.stop_reason}, {result.answer!r}")


_GOOD = {StopReason.ANSWERED, StopReason.ASKED_CUSTOMER}


async def measure(settings: Settings, crowd: Sequence[Story], *, within_s: float) -> Measured:
    lag, spent, wrong = Lag(), list[float](), list[str]()
    async with open_container(settings) as container:
        agent = container.agent()
        await talk(agent, crowd[0], [], wrong)  # what is made on first use is there
        idle_mb = peak_mb()
        watching = asyncio.create_task(lag.watch())
        wall, cpu = time.perf_counter(), time.process_time()
        step_s = within_s / len(crowd)
        talking = (
            talk(agent, one, spent, wrong, after_s=n * step_s) for n, one in enumerate(crowd[1:])
        )
        await asyncio.gather(*talking)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        watching.cancel()
    return Measured(
        turns=sorted(spent),
        wall=wall,
        cpu=cpu,
        lag=lag,
        idle_mb=idle_mb,
        peak_mb=peak_mb(),
        wrong=wrong,
    )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(measured: Measured, conversations: int, latency_s: float, most_open: int) -> None:
    turns, lag = measured.turns, measured.lag
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; {conversations:,} "
        f"conversations at once, model latency {latency_s} s\n"
    )
    rows = {
        "turns, none lost": f"{len(turns):,}",
        "model calls open at once, at most": f"{most_open:,}",
        "turns/s": f"{len(turns) / measured.wall:.0f}",
        "CPU ms a turn": f"{measured.cpu / len(turns) * 1e3:.1f}",
        "CPU s of wall s": f"{measured.cpu:.1f} of {measured.wall:.1f}",
        "a turn, p50 / p95 / max s": " / ".join(
            f"{turns[int(share * (len(turns) - 1))]:.1f}" for share in (0.5, 0.95, 1)
        ),
        "event-loop lag, p50 / p99 / max ms": " / ".join(
            f"{lag.percentile(share) * 1e3:.0f}" for share in (0.5, 0.99, 1)
        ),
        "memory before, at the peak, MB": f"{measured.idle_mb:.0f}, {measured.peak_mb:.0f}",
        "memory a conversation, KB": (
            f"{(measured.peak_mb - measured.idle_mb) * 1024 / conversations:.0f}"
        ),
    }
    print("| | |\n|---|---:|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--conversations", type=int, default=1_000, help="how many at once")
    options.add_argument("--latency", type=float, default=1.0, help="seconds of each model call")
    options.add_argument("--together", action="store_true", help="all begin in one instant")
    chosen = options.parse_args()
    crowd = stories(chosen.conversations + 1)
    with tempfile.TemporaryDirectory() as folder, model_server(chosen.latency) as model:
        url = f"sqlite:///{Path(folder) / 'crowd.db'}"
        env = environment(url, model.port)
        prepare(env, crowd)
        with configured(env) as settings:
            measured = asyncio.run(
                measure(settings, crowd, within_s=0 if chosen.together else chosen.latency)
            )
    if measured.wrong:
        raise SystemExit("\n".join(measured.wrong[:20]))
    show(measured, chosen.conversations, chosen.latency, model.counted["most_open"])


if __name__ == "__main__":
    main()

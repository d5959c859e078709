"""Sends a crowd through a fleet of workers, undisturbed or not, and says how it went."""

import asyncio
import json
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import LiteralString

import psycopg

from benchmarks.crowd.check import Found, found, is_settled, latencies, problems
from benchmarks.crowd.fleet import (
    Environment,
    Process,
    Workers,
    configured,
    cpu_of,
    crowd_of,
    environment,
    model_server,
    prepare,
    wait_until,
    workers,
)
from benchmarks.crowd.talk import Story, stories
from support_agent import open_container
from support_agent.testing.postgres import PostgresServer, fresh_database

SETTLE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is sent through what."""

    conversations: int
    workers: int
    latency_s: float
    think_s: float = 0.0  # that customers take before their next turn, half as long to half more
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def crowd(self) -> tuple[Story, ...]:
        return stories(self.conversations)

    @property
    def messages(self) -> int:
        return sum(len([*one.messages]) for one in self.crowd)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Times in seconds; `cpu` by process. `problems` is empty when nothing was lost or doubled."""

    seconds: float
    turns: int
    latencies: Sequence[float]
    cpu: Mapping[str, float]
    model: Mapping[str, int]
    taken_over: int
    posts: int
    duplicates: int
    problems: Sequence[str]
    notes: Sequence[str]

    @property
    def turns_per_s(self) -> float:
        return self.turns / self.seconds

    def percentile(self, share: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]


Disturb = Callable[[Workers, "Progress"], list[str]]


def on_postgres(
    trial: Trial, server: PostgresServer, folder: Path, disturb: Disturb | None = None
) -> Outcome:
    """On a new database of the server."""
    return _run(trial, fresh_database(server.url), folder, server=server, disturb=disturb)


def on_sqlite(trial: Trial, folder: Path) -> Outcome:
    """On a new file, with workers that look for work instead of being woken."""
    return _run(trial, f"sqlite:///{folder / 'crowd.db'}", folder)


def _run(
    trial: Trial,
    url: str,
    folder: Path,
    *,
    server: PostgresServer | None = None,
    disturb: Disturb | None = None,
) -> Outcome:
    log = folder / f"workers-{time.time_ns()}.log"
    with model_server(trial.latency_s) as model:
        env = environment(url, model.port, **trial.settings)
        prepare(env, trial.crowd)
        with workers(env, trial.workers, log) as fleet:
            wait_until("workers that are ready", lambda: _ready(log) >= trial.workers)
            before = {**_cpu(fleet, model.process, server)}
            with crowd_of(env, trial.conversations, trial.think_s) as crowd:
                notes = disturb(fleet, Progress(trial, url)) if disturb else []
                out, _ = crowd.popen.communicate()
            after = {**_cpu(fleet, model.process, server)}
            told = json.loads(out)
            rows, wrong = asyncio.run(_settled(env, trial))
        codes = [one.popen.returncode for one in fleet.started]
    wrong += told["problems"]
    wrong += [f"a worker ended with {code}" for code in codes if code not in (0, -signal.SIGKILL)]
    spent = {name: cpu - before.get(name, 0.0) for name, cpu in after.items()}
    return Outcome(
        seconds=told["seconds"],
        turns=len({m["run_id"] for m in rows.messages if m["author"] == "customer"}),
        latencies=latencies(rows),
        cpu={**spent, "crowd": told["cpu"]},
        model=model.counted,
        taken_over=rows.taken_over,
        posts=told["posts"],
        duplicates=told["duplicates"],
        problems=wrong,
        notes=notes,
    )


def _ready(log: Path) -> int:
    return log.read_text().count("working (")


def _cpu(fleet: Workers, model: Process, server: PostgresServer | None) -> dict[str, float]:
    spent = {f"worker {n}": cpu for n, cpu in enumerate(fleet.measure(), start=1)}
    spent["model"] = model.measure()
    if server is not None and server.pid is not None:
        spent["PostgreSQL"] = cpu_of(server.pid, with_children=True)
    return spent


async def _settled(env: Environment, trial: Trial) -> tuple[Found, list[str]]:
    """The rows once everything is paid, or when waiting for it is over."""
    with configured(env) as settings:
        async with open_container(settings) as container:
            give_up = time.monotonic() + SETTLE_S
            rows = await found(container)
            while not is_settled(rows) and time.monotonic() < give_up:
                await asyncio.sleep(0.2)
                rows = await found(container)
            return rows, await problems(container, trial.crowd, rows)


class Progress:
    """How far a crowd on PostgreSQL is, asked for beside the product."""

    def __init__(self, trial: Trial, url: str) -> None:
        self._messages = trial.messages
        self._url = url

    @property
    def share(self) -> float:
        """Of the messages, how many were taken up."""
        taken = self._ids(
            "SELECT conversation_id || seq FROM messages"
            " WHERE author = 'customer' AND run_id IS NOT NULL"
        )
        return len(taken) / self._messages

    def running(self) -> set[str]:
        """The runs that somebody has."""
        return self._ids("SELECT id FROM runs WHERE status = 'running'")

    def left(self, runs: set[str]) -> bool:
        """Whether one of these still waits for a second owner."""
        return bool(
            runs & self._ids("SELECT id FROM runs WHERE status = 'running' AND attempts = 1")
        )

    def taken_over(self, runs: set[str]) -> int:
        """How many of these have had a second owner."""
        return len(runs & self._ids("SELECT id FROM runs WHERE attempts > 1"))

    def reaches(self, share: float) -> None:
        wait_until(f"{share:.0%} of the messages", lambda: self.share >= share, patience_s=120)

    def _ids(self, query: LiteralString) -> set[str]:
        with psycopg.connect(self._url) as connection:
            return {row[0] for row in connection.execute(query)}


def faults(server: PostgresServer, *, lease_s: float) -> Disturb:
    """Kill one worker, stop another until its runs are taken over, then restart the database."""

    def disturb(fleet: Workers, progress: Progress) -> list[str]:
        progress.reaches(0.15)
        had = _stopped_in_a_turn(fleet.started[0], progress, but=set())
        fleet.started[0].send(signal.SIGKILL)
        fleet.start()
        progress.reaches(0.35)
        stopped = _stop_for_too_long(fleet.started[1], progress, lease_s, but=had)
        share, started = progress.share, time.monotonic()
        server.stop()
        server.start()
        away_s = time.monotonic() - started
        wait_until("the killed one's runs", lambda: progress.taken_over(had) > 0, 4 * lease_s)
        return [
            f"killed a worker with SIGKILL: {progress.taken_over(had)} of its runs were taken over",
            stopped,
            f"restarted PostgreSQL at {share:.0%} of the messages; it was away for {away_s:.1f} s",
        ]

    return disturb


def _stop_for_too_long(
    worker: Process, progress: Progress, lease_s: float, *, but: set[str]
) -> str:
    """`but`: runs that are taken over for another reason."""
    had = _stopped_in_a_turn(worker, progress, but=but)
    started = time.monotonic()
    try:
        # One that is not taken over it would end itself: its time is up.
        wait_until("false take-overs", lambda: not progress.left(had), 4 * lease_s)
    finally:
        worker.send(signal.SIGCONT)
    taken, spent_s = progress.taken_over(had), time.monotonic() - started
    return f"stopped one for {spent_s:.1f} s and let it go on: {taken} of its runs were taken over"


def _stopped_in_a_turn(worker: Process, progress: Progress, *, but: set[str]) -> set[str]:
    """Its runs: those that do not end while it stands still."""
    give_up = time.monotonic() + SETTLE_S
    while time.monotonic() < give_up:
        worker.send(signal.SIGSTOP)
        had = progress.running() - but
        time.sleep(1.5)
        had &= progress.running()
        if had:
            return had
        worker.send(signal.SIGCONT)
        time.sleep(0.3)
    raise TimeoutError("the worker never had a turn")

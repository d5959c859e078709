"""A crowd of customers against 1, 2 and 4 workers: turns a second, latency, and what bounds them.

    python benchmarks/scale.py                 200 conversations of five turns each
    python benchmarks/scale.py --faults        the same once, with everything going wrong

Real processes: `support-agent worker` as a command, PostgreSQL of our own on this machine's disk, a
model server that answers after 200 ms, and the crowd, which posts the next turn when the last one
is answered. Then the same on SQLite with one worker. After each run the rows are read: no turn
lost, none answered twice, order kept, every refund once, books and signed history valid; anything
else fails. `--faults` kills one worker, has the runs of another that stands still taken over
before it goes on, and restarts PostgreSQL. Prints tables to paste into RESULTS.md.
"""

import os
import sys

# A neighbour is named like a module of the standard library: this folder must not come first.
sys.path.append(os.path.dirname(sys.path.pop(0)))  # noqa: PTH120 - pathlib comes after it

import argparse
import platform
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.crowd.trial import Outcome, Trial, faults, on_postgres, on_sqlite
from support_agent.testing.postgres import PostgresServer, own_server

AT_ONCE = 100  # turns of a worker; so many that the model's latency is not what bounds it
RUN_S, GRACE_S = 20, 1  # of a lease, where one has to run out
THINK_S = 6  # where customers have to be there long enough for that


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--conversations", type=int, default=200)
    options.add_argument("--latency", type=float, default=0.2, help="seconds of each model call")
    options.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    options.add_argument("--at-once", type=int, default=AT_ONCE, help="turns of one worker")
    options.add_argument("--faults", action="store_true", help="the one disturbed run")
    chosen = options.parse_args()
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, {platform.system()} "
        f"{platform.machine()}, Python {platform.python_version()}; {chosen.conversations} "
        f"conversations x 5 turns, model latency {chosen.latency * 1e3:.0f} ms, "
        f"{chosen.at_once} turns of a worker at once\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder, own_server(forgetful=False) as server:
        if chosen.faults:
            disturbed(chosen, server, Path(folder))
        else:
            undisturbed(chosen, server, Path(folder))


def undisturbed(chosen: argparse.Namespace, server: PostgresServer, folder: Path) -> None:
    head = "| | turns/s | x | p50 / p95 / p99 s | CPU ms a turn | cores busy |"
    print(f"{head}\n|---|---:|---:|---|---|---:|", flush=True)
    first: Outcome | None = None
    for name, outcome in outcomes(chosen, server, folder):
        first = first or outcome
        print(f"| {name} | {row(outcome, first)} |", flush=True)


def outcomes(
    chosen: argparse.Namespace, server: PostgresServer, folder: Path
) -> Iterator[tuple[str, Outcome]]:
    for count in chosen.workers:
        trial = trial_of(chosen, count, QUEUE__KIND="procrastinate")
        name = f"PostgreSQL, {count} worker{'s' if count > 1 else ''}"
        yield name, checked(on_postgres(trial, server, folder))
    trial = trial_of(chosen, 1, QUEUE__KIND="inline", QUEUE__POLL_SECONDS=0.05)
    yield "SQLite, 1 worker", checked(on_sqlite(trial, folder))


def trial_of(
    chosen: argparse.Namespace, count: int, *, think_s: float = 0, **settings: object
) -> Trial:
    return Trial(
        conversations=chosen.conversations,
        workers=count,
        latency_s=chosen.latency,
        think_s=think_s,
        settings={"QUEUE__CONCURRENCY": chosen.at_once, **settings},
    )


def row(outcome: Outcome, first: Outcome) -> str:
    spread = " / ".join(f"{outcome.percentile(share):.2f}" for share in (0.5, 0.95, 0.99))
    return " | ".join(
        (
            f"{outcome.turns_per_s:.1f}",
            f"{outcome.turns_per_s / first.turns_per_s:.2f}",
            spread,
            ", ".join(f"{name} {cpu:.1f}" for name, cpu in cpu_of_a_turn(outcome).items()),
            f"{sum(outcome.cpu.values()) / outcome.seconds:.2f}",
        )
    )


def cpu_of_a_turn(outcome: Outcome) -> dict[str, float]:
    """Milliseconds; the workers together."""
    spent: dict[str, float] = {}
    for name, cpu in outcome.cpu.items():
        kind = "workers" if name.startswith("worker") else name
        spent[kind] = spent.get(kind, 0.0) + cpu / outcome.turns * 1e3
    return spent


def disturbed(chosen: argparse.Namespace, server: PostgresServer, folder: Path) -> None:
    trial = trial_of(
        chosen,
        max(chosen.workers),
        QUEUE__KIND="procrastinate",
        think_s=THINK_S,
        LIMITS__RUN_SECONDS=RUN_S,
        QUEUE__LEASE_GRACE_SECONDS=GRACE_S,
        DATABASE__BUSY_SECONDS=4,
    )
    outcome = checked(
        on_postgres(trial, server, folder, disturb=faults(server, lease_s=RUN_S + GRACE_S))
    )
    for note in outcome.notes:
        print(f"- {note}")
    spread = ", ".join(f"{outcome.percentile(share):.1f}" for share in (0.5, 0.95, 0.99, 1))
    print(
        f"- {outcome.turns} turns for {trial.messages} messages posted {outcome.posts} times "
        f"({outcome.duplicates} duplicates) in {outcome.seconds:.0f} s; "
        f"{outcome.taken_over} taken over, none lost, none answered twice\n"
        f"- p50, p95, p99, max: {spread} s; the model was asked {outcome.model['asked']} times, "
        f"{outcome.model['again']} times the same"
    )


def checked(outcome: Outcome) -> Outcome:
    """The outcome, if nothing was lost or doubled.

    Raises:
        SystemExit: something was; says what.
    """
    if outcome.problems:
        raise SystemExit("\n".join([*outcome.notes, *outcome.problems[:50]]))
    return outcome


if __name__ == "__main__":
    main()

"""`doctor --deep`: what waits and stands still, and whether clocks, rights and files are sound."""

import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from support_agent.cli.findings import Finding
from support_agent.cli.runtime import run
from support_agent.domain.errors import SupportAgentError

if TYPE_CHECKING:
    from support_agent.adapters.db.backlog import Backlog, Jobs, Waiting
    from support_agent.adapters.db.condition import Files, Held
    from support_agent.container import Container
    from support_agent.settings import Settings

LIBRARIES = (
    *("sqlalchemy", "pydantic", "dependency-injector", "openai", "anthropic", "stripe"),
    *("psycopg", "procrastinate"),
)
MB, GB = 1024**2, 1024**3
OLDEST_SERVER = 15_00_00  # before it everybody may make tables in the schema `public`
LOOKS = 3  # at the clocks; the quickest counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where on a number is worth a word, and from where on somebody has to act."""

    warns: float
    fails: float

    def judged(self, name: str, value: float, detail: str, *, what_to_do: str) -> Finding:
        ok, warns = value < self.fails, self.warns <= value
        return Finding(
            name=name,
            ok=ok,
            warns=ok and warns,
            detail=f"{detail}; {what_to_do}" if warns else detail,
        )


SKEW = Limits(warns=1, fails=30)  # seconds
UNREAD = Limits(warns=60, fails=15 * 60)
ORPHANED = Limits(warns=0, fails=15 * 60)  # since the lease ended
UNDELIVERED = Limits(warns=5 * 60, fails=60 * 60)
STALLED = Limits(warns=1, fails=10)  # jobs
WAL = Limits(warns=64 * MB, fails=GB)


def deep_findings(settings: "Settings") -> list[Finding]:
    """For an installation that starts."""
    found: list[Finding] = []

    async def work(container: "Container") -> None:
        async for finding in looked(container, settings):
            found.append(finding)  # noqa: PERF401 - what was found before an error is told, too

    try:
        run(work, settings, check_history=False)
    except SupportAgentError as error:
        found.append(Finding(name="deep", ok=False, detail=str(error)))
    return found


async def looked(container: "Container", settings: "Settings") -> AsyncIterator[Finding]:
    """One finding after the other, the cheap ones first."""
    from support_agent.adapters.db import backlog, condition  # noqa: PLC0415 - not for --help

    database, url = container.database(), settings.database.url
    now = container.clock().now()
    held = await database.run_read(condition.held_rights)
    live = await database.read(lambda tx: tx.installation.is_live())
    name, number = await database.run_read(condition.server_version)
    yield versions(name, number)
    yield clocks(*await _skew(container))
    if held is not None and held.missing:  # then nobody knows what waits
        yield rights(held, live=live)
        return
    for finding in waiting(await database.run_read(backlog.backlog), settings, now):
        yield finding
    yield queue_jobs(await database.run_read(backlog.jobs))
    yield rights(held, live=live)
    if settings.database.migrate_url is not None:
        detail = "only `db upgrade` and `db seed` need DATABASE__MIGRATE_URL; unset it elsewhere"
        yield Finding(name="owner", warns=True, detail=detail)
    found = await database.run_read(lambda connection: condition.files(connection, url))
    for finding in files(found):
        yield finding


def versions(server: str, number: int) -> Finding:
    """What runs here, for who compares two machines."""
    from importlib import metadata  # noqa: PLC0415 - not for --help

    installed = {dist.name.lower(): dist.version for dist in metadata.distributions() if dist.name}
    python = ".".join(map(str, sys.version_info[:3]))
    ours = installed.get("support-agent", "unknown")
    others = [f"{name} {installed[name]}" for name in LIBRARIES if name in installed]
    detail = f"support-agent {ours}, Python {python}, {server}, {', '.join(others)}"
    old = server.startswith("PostgreSQL") and number < OLDEST_SERVER
    if old:
        detail += "; the server is too old for its rights to be trusted, upgrade it to 15 or newer"
    return Finding(name="versions", warns=old, detail=detail)


async def _skew(container: "Container") -> tuple[float, float]:
    """How far the database's clock is ahead of this machine's, and how exactly that is known."""
    looks = [await _look(container) for _ in range(LOOKS)]
    return min(looks, key=lambda look: look[1])


async def _look(container: "Container") -> tuple[float, float]:
    wall = container.wall_clock()
    before = wall()
    told = await container.database().read(lambda tx: tx.database_now())
    half = (wall() - before) / 2
    return (told - before - half).total_seconds(), half.total_seconds()


def clocks(skew_s: float, exact_s: float) -> Finding:
    """Leases count by the database's clock, logs and payments' ages by both."""
    side = "ahead of" if skew_s > 0 else "behind"
    detail = f"the database's is {abs(skew_s):.3f} s {side} this machine's (±{exact_s:.3f} s)"
    return SKEW.judged(
        "clock skew", abs(skew_s), detail, what_to_do="let NTP set both machines' clocks"
    )


def waiting(found: "Backlog", settings: "Settings", now: datetime) -> Iterator[Finding]:
    """Customers, runs, approvers and channels."""
    runner = "see that `support-agent worker` runs, or run `support-agent tick`"
    yield _since(
        UNREAD,
        "unread",
        found.unread,
        found.unread.oldest,
        f"conversations with unread messages; {runner}",
    )
    yield _since(
        ORPHANED,
        "orphaned",
        found.orphaned,
        found.orphaned.oldest,
        f"runs whose owner is gone; {runner}",
    )
    due = Limits(warns=settings.decide_within.total_seconds(), fails=float("inf"))
    yield _since(
        due,
        "pending",
        found.pending,
        _age(found.pending, now),
        "refund requests wait for a person; see `approvals list`",
    )
    yield _since(
        UNDELIVERED,
        "outbox",
        found.undelivered,
        _age(found.undelivered, now),
        f"events are not delivered yet; {runner}, and `tasks list` has those that cannot be",
    )


def _age(of: "Waiting", now: datetime) -> float | None:
    return None if of.oldest is None else (now - of.oldest).total_seconds()


def _since(limits: Limits, name: str, of: "Waiting", seconds: float | None, about: str) -> Finding:
    what, _, what_to_do = about.partition("; ")
    if not of.count or seconds is None:
        return Finding(name=name, detail=f"0 {what}")
    oldest = f", the oldest ({of.name})" if of.name else ", the oldest"
    detail = f"{of.count} {what}{oldest} since {duration(seconds)}"
    return limits.judged(name, seconds, detail, what_to_do=what_to_do)


def duration(seconds: float) -> str:
    """As a person says it: 45 s, 12 min, 30 h, 4 d."""
    whole = max(0, round(seconds))
    for unit, size, least in (("d", 86_400, 3), ("h", 3_600, 2), ("min", 60, 2)):
        if whole >= least * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def queue_jobs(found: "Jobs | None") -> Finding:
    """The queue's own table, where there is one."""
    if found is None:
        return Finding(name="jobs", detail="no queue is installed; workers look for themselves")
    states = ", ".join(f"{count} {state}" for state, count in found.by_state.items())
    detail = f"{states or 'none'}; {found.stalled} stalled"
    return STALLED.judged(
        "jobs",
        found.stalled,
        detail,
        what_to_do="their worker is not heard of; any running worker takes them over, so start one",
    )


def rights(held: "Held | None", *, live: bool) -> Finding:
    """Whether the role that works could rewrite what happened."""
    if held is None:
        return Finding(name="rights", detail="a file: who may open it may do anything")
    if held.missing:
        return Finding(
            name="rights",
            ok=False,
            detail=f"{held.role} lacks {_some(held.missing)}; run `support-agent db upgrade` "
            "with DATABASE__MIGRATE_URL",
        )
    if held.is_bound:
        detail = f"{held.role} owns nothing and cannot rewrite history, ledger or decisions"
        return Finding(name="rights", detail=detail)
    return Finding(
        name="rights",
        ok=not live,
        warns=not live,
        detail=f"{held.role} {_why_unbound(held)}; let another role own the tables "
        "(DATABASE__MIGRATE_URL) and run `support-agent db upgrade`",
    )


def _why_unbound(held: "Held") -> str:
    if held.is_superuser:
        return "is a superuser"
    if held.owns:
        return f"owns {_some(held.owns)}"
    return f"may {_some(held.too_much)}" if held.too_much else "may make tables"


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


def files(found: "Files | None") -> Iterator[Finding]:
    """Room and soundness of a SQLite file; a server's disk is watched by its own means."""
    if found is None:
        return
    yield _room(found.free, found.database)
    yield WAL.judged(
        "wal",
        found.wal,
        _size(found.wal),
        what_to_do="a reader keeps it from shrinking; end processes that hang",
    )
    damage = f"{found.problem}; stop everything and restore a backup"
    yield Finding(
        name="integrity",
        ok=found.problem is None,
        detail="a quick check found nothing" if found.problem is None else damage,
    )


def _room(free: int, database: int) -> Finding:
    """A backup needs the database's size once more."""
    ok, warns = free >= 100 * MB, free < max(GB, 2 * database)
    detail = f"{_size(free)} free beside a database of {_size(database)}"
    return Finding(
        name="disk",
        ok=ok,
        warns=ok and warns,
        detail=f"{detail}; make room, or move the database" if warns else detail,
    )


def _size(size: int) -> str:
    return f"{size / GB:.1f} GB" if size >= GB else f"{size / MB:.1f} MB"

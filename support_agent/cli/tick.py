"""`tick`: what has to happen by itself, once; run it every minute or so."""

from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
import typer

from support_agent.cli.audit import head_text
from support_agent.cli.exits import ExitCode, code_of
from support_agent.cli.options import Json
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import run
from support_agent.domain.audit import AuditHead
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RefundRequest

if TYPE_CHECKING:
    from support_agent.container import Container

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Report:
    """What one tick did: per phase how many requests are in which state now."""

    head: AuditHead
    phases: dict[str, Counter[str]] = field(default_factory=dict)
    problems: dict[str, SupportAgentError] = field(default_factory=dict)


def tick(*, as_json: Json = False) -> None:
    """Expire what waited too long, pay what is approved, ask about payouts that are unclear.

    Prints the audit head: keep it elsewhere, and `audit verify --head` finds a history cut short.
    """
    report = run(_work)
    if as_json:
        print_json(_object(report))
    else:
        for phase, counts in report.phases.items():
            say(f"{phase}: " + (", ".join(f"{n} {s}" for s, n in counts.items()) or "nothing"))
        for phase, error in report.problems.items():
            say(f"{phase}: {error}; the next tick tries again")
        say(f"audit head {head_text(report.head)}")
    raise typer.Exit(max(map(code_of, report.problems.values()), default=ExitCode.DONE))


async def _work(container: "Container") -> _Report:
    database, life, payouts = container.database(), container.life(), container.payouts()
    report = _Report(head=await database.read(lambda tx: tx.audit.head()))
    await _phase(report, "expired", database.transact(life.expire_due))
    await _phase(report, "paid", payouts.pay_due())
    await _phase(report, "reconciled", payouts.reconcile())
    report.head = await database.read(lambda tx: tx.audit.head())
    log.info("audit.head", seq=report.head.seq, mac=report.head.mac)
    return report


async def _phase(report: _Report, name: str, work: Awaitable[Sequence[RefundRequest]]) -> None:
    """One phase that cannot go on must not keep the others from running."""
    try:
        done = await work
    except SupportAgentError as error:
        log.warning("tick.phase_failed", phase=name, problem=str(error))
        report.problems[name] = error
    else:
        report.phases[name] = Counter(str(request.status) for request in done)


def _object(report: _Report) -> dict[str, object]:
    return {
        **{phase: dict(counts) for phase, counts in report.phases.items()},
        "problems": {
            phase: {"code": error.code, "message": str(error)}
            for phase, error in report.problems.items()
        },
        "audit_head": head_text(report.head),
    }

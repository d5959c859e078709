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
from support_agent.domain.refunds import RefundRequest, RequestStatus

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.ports.storage import Transaction

NOT_SENT = RequestStatus.APPROVED
MOST = 1_000  # that are counted
log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Report:
    """What one tick did: per phase how many requests are in which state now."""

    head: AuditHead
    phases: dict[str, Counter[str]] = field(default_factory=dict)
    not_paid: Counter[str] = field(default_factory=Counter)
    problems: dict[str, SupportAgentError] = field(default_factory=dict)


def tick(*, as_json: Json = False) -> None:
    """Expire and escalate what waited too long, pay what is approved, ask about unclear payouts.

    Staff gets a task about what stays unclear, and about a customer who uses models far more than
    is usual.

    `paid` counts what became of the payouts, `not_paid` what is approved and was not sent: refused
    because its approval does not hold (`tasks list` has it), or put off until the next tick (the
    log has it). The exit code is that of a phase that could not run: a request that is not paid
    leaves it 0.

    Prints the audit head: keep it elsewhere, and `audit verify --head` finds a history cut short.
    """
    report = run(_work)
    if as_json:
        print_json(_object(report))
    else:
        for phase, counts in report.phases.items():
            say(f"{phase}: {_counted(counts)}")
        if report.not_paid:
            say(f"not paid (see `tasks list`): {_counted(report.not_paid)}")
        for phase, error in report.problems.items():
            say(f"{phase}: {error}; the next tick tries again")
        say(f"audit head {head_text(report.head)}")
    raise typer.Exit(max(map(code_of, report.problems.values()), default=ExitCode.DONE))


async def _work(container: "Container") -> _Report:
    from support_agent.services.overdue import overdue_tasks  # noqa: PLC0415 - not for --help

    database, life, payouts = container.database(), container.life(), container.payouts()
    report = _Report(head=await database.read(lambda tx: tx.audit.head()))
    await _phase(report, "expired", life.expire_due(database))
    await _phase(report, "escalated", container.escalations().run())
    await _phase(report, "paid", payouts.pay_due())
    await _phase(report, "reconciled", payouts.reconcile())
    await _call_staff(report, "overdue", overdue_tasks(container.database(), container.clock()))
    await _call_staff(report, "unusual", container.unusual_use().tell())
    report.head, report.not_paid = await database.read(_left)
    log.info("audit.head", seq=report.head.seq, mac=report.head.mac)
    return report


def _left(tx: "Transaction") -> tuple[AuditHead, Counter[str]]:
    unpaid = len(tx.requests.in_status((NOT_SENT,), limit=MOST))
    return tx.audit.head(), Counter({str(NOT_SENT): unpaid} if unpaid else {})


async def _phase(report: _Report, name: str, work: Awaitable[Sequence[RefundRequest]]) -> None:
    """One phase that cannot go on must not keep the others from running."""
    try:
        done = await work
    except SupportAgentError as error:
        log.warning("tick.phase_failed", phase=name, problem=str(error))
        report.problems[name] = error
    else:
        sent = (request.status for request in done if request.status is not NOT_SENT)
        report.phases[name] = Counter(map(str, sent))


async def _call_staff(report: _Report, name: str, work: Awaitable[int]) -> None:
    """What the reconciler leaves unclear for too long, and who uses far more than is usual.

    Each becomes a task for a person, once.
    """
    try:
        made = await work
    except SupportAgentError as error:
        log.warning("tick.phase_failed", phase=name, problem=str(error))
        report.problems[name] = error
    else:
        report.phases[name] = Counter({"TASKS": made} if made else {})


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing"


def _object(report: _Report) -> dict[str, object]:
    return {
        **{phase: dict(counts) for phase, counts in report.phases.items()},
        "not_paid": dict(report.not_paid),
        "problems": {
            phase: {"code": error.code, "message": str(error)}
            for phase, error in report.problems.items()
        },
        "audit_head": head_text(report.head),
    }

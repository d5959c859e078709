"""`tick`: what has to happen by itself, once; run it every minute or so."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
import typer

from support_agent.cli.exits import ExitCode, code_of
from support_agent.cli.options import Json
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import run
from support_agent.cli.views import head_text
from support_agent.domain.audit import AuditHead
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.refunds import RequestStatus
from support_agent.services.workers import tell

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.ports.storage import Transaction
    from support_agent.services.chores import Chore, Counts

NOT_SENT = RequestStatus.APPROVED
PAID = "paid"  # the phase
MOST = 1_000  # that are counted
log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Report:
    """What one tick did: per phase how many of what, requests by the state they are in now."""

    head: AuditHead
    phases: "dict[str, Counts]" = field(default_factory=dict)
    not_paid: Counter[str] = field(default_factory=Counter)
    problems: dict[str, Exception] = field(default_factory=dict)

    @property
    def pays(self) -> bool:
        """Whether this process tried to."""
        return PAID in self.phases or PAID in self.problems


def tick(*, as_json: Json = False) -> None:
    """Expire and escalate what waited too long, pay what is approved, ask about unclear payouts.

    Staff gets a task about what stays unclear, and about a customer who uses models far more than
    is usual. Conversations with something unread are answered, or with QUEUE__KIND=procrastinate a
    worker is woken for them; then messages that wait to be delivered are, and events are sent to
    webhook endpoints. `support-agent worker` does all of it, each at its intervals.

    `paid` counts what became of the payouts, `not_paid` what is approved and was not sent: refused
    because its approval does not hold (`tasks list` has it), or put off until the next tick (the
    log has it). Where PAYOUTS__RUN=worker and the gateway's key is not here nothing is paid, a
    worker does. The exit code is that of a phase that could not run: a request that is not paid
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
            why = "see `tasks list`" if report.pays else "a worker pays"
            say(f"not paid ({why}): {_counted(report.not_paid)}")
        for phase, error in report.problems.items():
            say(f"{phase}: {_problem(error)}; the next tick tries again")
        say(f"audit head {head_text(report.head)}")
    raise typer.Exit(max(map(code_of, report.problems.values()), default=ExitCode.DONE))


async def _work(container: "Container") -> _Report:
    database = container.database()
    report = _Report(head=await database.read(lambda tx: tx.audit.head()))
    for chore in container.chores():
        await _phase(report, chore)
    report.head, report.not_paid = await database.read(_left)
    log.info("audit.head", seq=report.head.seq, mac=report.head.mac)
    return report


def _left(tx: "Transaction") -> tuple[AuditHead, Counter[str]]:
    unpaid = len(tx.requests.in_status((NOT_SENT,), limit=MOST))
    return tx.audit.head(), Counter({str(NOT_SENT): unpaid} if unpaid else {})


async def _phase(report: _Report, chore: "Chore") -> None:
    """One phase that cannot go on must not keep the others from running."""
    try:
        report.phases[chore.name] = await chore.run()
    except Exception as error:  # noqa: BLE001 - a fault of ours in one must not stop payouts
        tell(error, "tick.phase_failed", phase=chore.name)
        report.problems[chore.name] = error


def _problem(error: Exception) -> str:
    if isinstance(error, SupportAgentError):
        return str(error)
    return f"failed unexpectedly ({type(error).__name__}), the log has more"


def _code(error: Exception) -> str:
    return error.code if isinstance(error, SupportAgentError) else "INTERNAL"


def _counted(counts: "Counts") -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "nothing"


def _object(report: _Report) -> dict[str, object]:
    return {
        **{phase: dict(counts) for phase, counts in report.phases.items()},
        "not_paid": dict(report.not_paid),
        "problems": {
            phase: {"code": _code(error), "message": _problem(error)}
            for phase, error in report.problems.items()
        },
        "audit_head": head_text(report.head),
    }

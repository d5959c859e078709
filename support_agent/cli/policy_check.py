"""`policies check`: what a new policy would change, before it is put in force."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import Json, examples
from support_agent.cli.output import Column, print_json, print_table, say
from support_agent.cli.runtime import ready, run

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.domain.policy import Policy
    from support_agent.services.policy_check import Effect, Outcome, PolicyReport

COLUMNS = (
    Column(title="ID"),
    Column(title="ORDER"),
    Column(title="STATUS"),
    Column(title="VERDICT"),
    Column(title="LEVEL"),
    Column(title="APPROVALS"),
    Column(title="LAST DAY"),
)

app = typer.Typer()


@app.command(
    epilog=examples("policies check new.yaml", "policies check new.yaml --days 365 --json")
)
def check(
    file: Annotated[Path, typer.Argument(help="A YAML file like standard.yaml.", metavar="FILE")],
    *,
    days: Annotated[
        int, typer.Option("--days", min=0, max=3650, help="How far back; open ones always.")
    ] = 90,
    as_json: Json = False,
) -> None:
    """Show which requests a policy file would change, and where it lets more money pass.

    A question: nothing is put in force, and the exit code is 0 with changes and without.
    """
    from support_agent.adapters.policy_files import load_policy  # noqa: PLC0415 - not for --help

    settings = ready()
    policy = load_policy(file)

    async def work(container: "Container") -> "PolicyReport":
        from support_agent.building.checks import check_zone  # noqa: PLC0415 - not for --help

        check_zone(policy, settings)
        return await container.policy_check().compare(policy, days=days)

    report = run(work, settings)
    if as_json:
        print_json(_object(report, policy))
    else:
        _tell(report, policy, days)


def _tell(report: "PolicyReport", policy: "Policy", days: int) -> None:
    for raised in report.raised:
        say(f"raises a limit: {raised}")
    if report.effects:
        print_table(COLUMNS, [_row(effect) for effect in report.effects])
    if report.missing:
        say(f"orders the shop no longer has: {', '.join(report.missing)}")
    old = f"{report.in_force.id} version {report.in_force.version}"
    say(
        f"{len(report.effects)} of {report.checked} requests (open, or of the last {days} days) "
        f"differ between {old} and {policy.id} version {policy.version}"
    )
    if report.cut:
        say("there are more requests than these; ask for fewer --days")


def _row(effect: "Effect") -> tuple[str, ...]:
    request, before, after = effect.request, effect.before, effect.after
    return (
        request.id,
        request.order_id,
        str(request.status),
        _change(before.verdict, after.verdict),
        _change(_level(before), _level(after)),
        _change(before.approvals, after.approvals),
        _change(before.last_day, after.last_day),
    )


def _change(before: object, after: object) -> str:
    return "" if before == after else f"{_word(before)} -> {_word(after)}"


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _level(outcome: "Outcome") -> str:
    return "refused" if outcome.level is None else str(outcome.level)


def _object(report: "PolicyReport", policy: "Policy") -> dict[str, object]:
    return {
        "policy": _policy_object(policy),
        "in_force": _policy_object(report.in_force),
        "raises": list(report.raised),
        "checked": report.checked,
        "changed": len(report.effects),
        "complete": not report.cut,
        "missing_orders": list(report.missing),
        "data": [
            {
                "id": effect.request.id,
                "order_id": effect.request.order_id,
                "status": effect.request.status,
                "before": _outcome_object(effect.before),
                "after": _outcome_object(effect.after),
            }
            for effect in report.effects
        ],
    }


def _policy_object(policy: "Policy") -> dict[str, object]:
    return {"id": policy.id, "version": policy.version, "hash": policy.hash}


def _outcome_object(outcome: "Outcome") -> dict[str, object]:
    return {
        "verdict": outcome.verdict,
        "level": outcome.level,
        "approvals": outcome.approvals,
        "last_day": outcome.last_day.isoformat() if outcome.last_day else None,
    }

"""`approvals report`: who lets how much pass, for whom, and where to."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import Json
from support_agent.cli.output import Column, print_json, print_table, rfc3339, say
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import Object, local
from support_agent.cli.words import Lang, column
from support_agent.domain.money import format_money
from support_agent.domain.reasons import Language
from support_agent.domain.wording import pick
from support_agent.ports.storage import Tally

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.reports import DeskReport

FIGURES = ("decided", "approved", "paid", "approved_sum", "paid_sum", "share")
TABLES = {
    "approvers": ("Theo người duyệt", "By approver"),
    "pairs": ("Theo người duyệt và khách", "By approver and customer"),
    "destinations": ("Theo nơi nhận tiền", "By destination"),
}


def report(
    *,
    days: Annotated[
        int, typer.Option("--days", help="How far it looks back.", min=1, max=3650)
    ] = 30,
    lang: Lang = None,
    as_json: Json = False,
) -> None:
    """Add up decisions by approver, by approver and customer, and by destination.

    Amounts are those approved, by currency; a share is of all that was approved in it. Below stand
    the newest payments that were drawn for a second look.
    """
    settings = ready()
    language = lang or settings.shop.language

    async def work(container: "Container") -> "DeskReport":
        return await container.reporting().desk(days=days)

    found = run(work, settings)
    if as_json:
        print_json(_object(found, days))
        return
    for name, tallies in _parts(found):
        say(f"{pick(TABLES[name], language)}:")
        _print(found, name, tallies, language)
        say()
    say(pick(("Rút ra để xem lại lần hai:", "Drawn for a second look:"), language))
    for task in found.draws:
        say(f"  {task.subject}  {local(task.created_at, settings.zone)}")
    if not found.draws:
        say(pick(("  chưa có", "  none yet"), language))


def _parts(found: "DeskReport") -> tuple[tuple[str, Sequence[Tally]], ...]:
    return (
        ("approvers", found.approvers),
        ("pairs", found.pairs),
        ("destinations", found.destinations),
    )


def _print(found: "DeskReport", name: str, tallies: Sequence[Tally], language: Language) -> None:
    keys: dict[str, Callable[[Tally], str]] = {
        "destination" if name == "destinations" else "approver": lambda t: t.subject
    }
    if name == "pairs":
        keys["customer"] = lambda t: t.customer_id or ""
    if name == "destinations":
        keys["customers"] = lambda t: str(t.customers)
    columns = [Column(title=column(key, language), right=key == "customers") for key in keys]
    columns += [Column(title=column(figure, language), right=True) for figure in FIGURES]
    print_table(
        columns, [[*(key(t) for key in keys.values()), *_figures(found, t)] for t in tallies]
    )


def _figures(found: "DeskReport", tally: Tally) -> tuple[str, ...]:
    return (
        str(tally.decided),
        str(tally.approved),
        str(tally.paid),
        format_money(tally.approved_minor, tally.currency),
        format_money(tally.paid_minor, tally.currency),
        f"{found.share(tally):.0%}",
    )


def _object(found: "DeskReport", days: int) -> Object:
    return {
        "since": rfc3339(found.since),
        "days": days,
        **{
            name: [_tally_object(found, name, tally) for tally in tallies]
            for name, tallies in _parts(found)
        },
        "second_looks": [
            {
                "request_id": task.subject,
                "drawn_at": rfc3339(task.created_at),
                "done_at": rfc3339(task.done_at) if task.done_at else None,
            }
            for task in found.draws
        ],
    }


def _tally_object(found: "DeskReport", name: str, tally: Tally) -> Object:
    subject = "destination" if name == "destinations" else "approver"
    return {
        subject: tally.subject,
        **({"customer_id": tally.customer_id} if name == "pairs" else {}),
        "customers": tally.customers,
        "currency": tally.currency,
        "decided": tally.decided,
        "approved": tally.approved,
        "paid": tally.paid,
        "approved_minor": tally.approved_minor,
        "paid_minor": tally.paid_minor,
        "share": round(found.share(tally), 4),
    }

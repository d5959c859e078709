"""`usage`: what models were used for, by whom, and who is far above the usual."""

import re
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import Cursor, Json, Limit, examples
from support_agent.cli.output import Column
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import Object
from support_agent.domain.errors import InvalidInput
from support_agent.domain.usage import (
    INSTALLATION,
    Allowance,
    Allowances,
    Measure,
    Scope,
    UsageCount,
)
from support_agent.ports.storage import Page, Transaction, UsageFilter

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.usage_tasks import Threshold

FIGURES = (
    Column(title="REQUESTS", right=True),
    Column(title="TOKENS IN", right=True),
    Column(title="TOKENS OUT", right=True),
    Column(title="COST USD", right=True),
)
ONE_OF = "give one of --customer, --conversation and --channel"


class By(StrEnum):
    """What the top is ordered by."""

    TOKENS = "tokens"
    COST = "cost"
    REQUESTS = "requests"


MEASURES = {By.TOKENS: Measure.TOKENS, By.COST: Measure.COST, By.REQUESTS: Measure.REQUESTS}

app = typer.Typer(name="usage", help="What models were used for: requests, tokens, cost.")
Day = Annotated[
    str | None, typer.Option("--day", help="A day of the shop's, 2026-10-13.", metavar="DAY")
]


@app.command(
    epilog=examples("usage show", "usage show --customer C001", "usage show --conversation con_01…")
)
def show(
    *,
    customer: Annotated[
        str | None, typer.Option("--customer", help="This customer by day.", metavar="ID")
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option("--conversation", help="This conversation in all.", metavar="ID"),
    ] = None,
    channel: Annotated[
        str | None, typer.Option("--channel", help="This channel by day.", metavar="NAME")
    ] = None,
    day: Day = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """Show what was used by day, the newest first: by the whole shop, or by whom you name.

    What calls under way may use at most is counted in.
    """
    where = _filter(customer, conversation, channel, _day(day))

    async def work(container: "Container") -> None:
        page = await container.database().read(
            lambda tx: tx.usage.list(where, limit=limit, cursor=cursor)
        )
        allowances = container.allowances()
        print_page(
            page,
            columns=(Column(title="DAY"), Column(title=where.scope.upper()), *FIGURES),
            row=lambda count: (_when(count), count.subject, *_figures(count)),
            as_object=lambda count: _object(count, allowances),
            as_json=as_json,
            none="nothing was used",
        )

    run(work)


@app.command(epilog=examples("usage top", "usage top --day 2026-10-13 --by cost --json"))
def top(
    *,
    day: Day = None,
    by: Annotated[
        By, typer.Option("--by", help="What counts most.", case_sensitive=False)
    ] = By.TOKENS,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List the customers of a day (today), those who used most first.

    Unusual is who used more than BUDGETS__UNUSUAL_FACTOR times what customers use on a day (the
    median of the 30 days before), and more than BUDGETS__UNUSUAL_REQUESTS or _TOKENS. `tick` makes
    a task of it; nothing is blocked.
    """
    settings = ready()
    given = _day(day)

    async def work(container: "Container") -> None:
        on = given or container.clock().now().astimezone(settings.zone).date()
        unusual = container.unusual_use()

        def read(tx: Transaction) -> "tuple[Page[UsageCount], Threshold]":
            page = tx.usage.top(on, MEASURES[by], limit=limit, cursor=cursor)
            return page, unusual.threshold(tx, on)

        page, most = await container.database().read(read)
        allowances = container.allowances()
        print_page(
            page,
            columns=(Column(title="CUSTOMER"), *FIGURES, Column(title="FLAG")),
            row=lambda count: (
                count.subject,
                *_figures(count),
                "unusual" if most.is_passed_by(count) else "",
            ),
            as_object=lambda count: (
                _object(count, allowances) | {"unusual": most.is_passed_by(count)}
            ),
            as_json=as_json,
            none=f"no customer used anything on {on}",
        )

    run(work, settings)


def _filter(
    customer: str | None, conversation: str | None, channel: str | None, day: date | None
) -> UsageFilter:
    named = {
        Scope.CUSTOMER: customer,
        Scope.CONVERSATION: conversation,
        Scope.CHANNEL: channel,
    }
    given = {scope: subject for scope, subject in named.items() if subject is not None}
    if len(given) > 1:
        raise typer.BadParameter(ONE_OF)
    if conversation is not None and day is not None:
        raise typer.BadParameter("a conversation is counted in all, not by the day; omit --day")
    scope, subject = next(iter(given.items()), (Scope.INSTALLATION, INSTALLATION))
    return UsageFilter(scope=scope, subject=subject, day=day)


def _day(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise InvalidInput("day", f"{text!r} is no day of the calendar; write 2026-10-13")


def _when(count: UsageCount) -> str:
    return "in all" if count.day is None else count.day.isoformat()


def _figures(count: UsageCount) -> tuple[str, ...]:
    used = count.usage
    dollars, micros = divmod(used.cost_micros, 1_000_000)
    return (
        f"{used.requests:,}",
        f"{used.input_tokens:,}",
        f"{used.output_tokens:,}",
        f"{dollars:,}.{micros:06d}",
    )


def _object(count: UsageCount, allowances: Allowances) -> Object:
    day = None if count.day is None else count.day.isoformat()
    allowed = allowances.get(count.scope, Allowance())
    return {
        "id": ":".join(filter(None, (count.scope, count.subject, day))),
        "scope": count.scope,
        "subject": count.subject,
        "day": day,
        "requests": count.usage.requests,
        "input_tokens": count.usage.input_tokens,
        "output_tokens": count.usage.output_tokens,
        "cost_micros": count.usage.cost_micros,
        "limits": {measure: getattr(allowed, measure) for measure in Measure},
    }

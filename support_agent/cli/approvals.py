"""`approvals`: the queue of requests that wait for a person, the brief of each, and the report."""

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.approvers import HIGHEST_LEVEL
from support_agent.cli.brief import print_brief
from support_agent.cli.brief_object import brief_object
from support_agent.cli.deciding import Request, approve, ask, reduce, reject
from support_agent.cli.desk_report import report
from support_agent.cli.listing import print_page
from support_agent.cli.options import AnyCustomer, Cursor, Json, Limit, examples
from support_agent.cli.output import Column, print_json, rfc3339
from support_agent.cli.review import review
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import Object, age, money, request_object
from support_agent.cli.words import Lang, column
from support_agent.domain.errors import InvalidInput
from support_agent.domain.money import check_currency, parse_amount
from support_agent.domain.reasons import Language
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.domain.wording import pick
from support_agent.ports.storage import RequestFilter

if TYPE_CHECKING:
    from support_agent.container import Container

NUMBERS = frozenset({"amount", "level", "age", "due", "version"})
TITLES = ("id", "order", "customer", "amount", "level", "age", "due", "state", "version")
UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}

app = typer.Typer(name="approvals", help="Decide about refunds that wait for a person.")


@app.command(
    "list",
    epilog=examples(
        "approvals list",
        "approvals list --older-than 2h --min 500.000 --level 2",
        "approvals list --json --limit 50",
    ),
)
def list_pending(
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="Filed longer ago, e.g. 45m, 2h, 3d.", metavar="AGE"),
    ] = None,
    least: Annotated[
        str | None,
        typer.Option("--min", help="This amount or more, e.g. 500.000.", metavar="AMOUNT"),
    ] = None,
    most: Annotated[
        str | None,
        typer.Option("--max", help="This amount or less.", metavar="AMOUNT"),
    ] = None,
    currency: Annotated[
        str | None,
        typer.Option(
            "--currency", help="Only this currency; --min and --max are in VND without it."
        ),
    ] = None,
    level: Annotated[
        int | None,
        typer.Option("--level", help="Only what needs this level.", min=1, max=HIGHEST_LEVEL),
    ] = None,
    customer: AnyCustomer = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    lang: Lang = None,
    as_json: Json = False,
) -> None:
    """List the requests that wait: escalated ones first, then the oldest."""
    settings = ready()
    language = lang or settings.shop.language
    bounds = _bounds(least, most, currency)
    waits_for = _duration(older_than)

    async def work(container: "Container") -> None:
        from support_agent.services.briefs import queue_page  # noqa: PLC0415 - not for --help

        now = container.clock().now()
        where = RequestFilter(
            status=RequestStatus.PENDING_APPROVAL,
            customer_id=customer,
            currency=bounds[0],
            least_minor=bounds[1],
            most_minor=bounds[2],
            level=level,
            filed_before=now - waits_for if waits_for is not None else None,
        )
        page, held = await container.database().read(
            lambda tx: queue_page(tx, where, limit=limit, cursor=cursor)
        )
        print_page(
            page,
            columns=[Column(title=column(t, language), right=t in NUMBERS) for t in TITLES],
            row=lambda request: _row(request, now, language, is_held=request.id in held),
            as_object=lambda request: _object(request, is_held=request.id in held),
            as_json=as_json,
            none=pick(("không có gì chờ duyệt", "nothing waits for a person"), language),
        )

    run(work, settings)


def _bounds(
    least: str | None, most: str | None, currency: str | None
) -> tuple[str | None, int | None, int | None]:
    """The currency (none named: of the bounds only) and both bounds in its minor units."""
    if currency is not None:
        check_currency(currency)  # a misspelt one would show an empty queue
    amounts = [
        None if text is None else _amount(option, text, currency or "VND")
        for option, text in (("min", least), ("max", most))
    ]
    low, high = amounts
    if low is not None and high is not None and low > high:
        raise InvalidInput("min", "is above --max; swap them")
    named = currency if amounts == [None, None] else currency or "VND"
    return named, low, high


def _amount(option: str, text: str, currency: str) -> int:
    try:
        return parse_amount(text, currency)
    except InvalidInput as error:
        field = option if error.field == "amount" else error.field
        raise InvalidInput(field, error.problem) from error


def _duration(text: str | None) -> timedelta | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,4})([mhd])", text)
    if found is None:
        raise InvalidInput("older-than", f"{text!r} is not an age; write it like 45m, 2h or 3d")
    return int(found[1]) * UNITS[found[2]]


def _row(
    request: RefundRequest, now: datetime, language: Language, *, is_held: bool
) -> tuple[str, ...]:
    return (
        request.id,
        request.order_id,
        request.customer_id,
        money(request),
        str(request.required_level),
        age(request.created_at, now),
        _due(request, now, language),
        _state(request, language, is_held=is_held),
        str(request.version),
    )


def _due(request: RefundRequest, now: datetime, language: Language) -> str:
    if request.due_at < now:
        late = age(request.due_at, now)
        return pick((f"trễ {late}", f"{late} late"), language)
    left = age(now, request.due_at)
    return pick((f"còn {left}", f"in {left}"), language)


def _state(request: RefundRequest, language: Language, *, is_held: bool) -> str:
    states = []
    if request.asked_at is not None:
        answered = ("khách đã trả lời", "answered")
        states.append(pick(("chờ khách trả lời", "held") if is_held else answered, language))
    if request.escalations:
        told = ("chuyển cấp {0} lần", "escalated {0}")
        states.append(pick(told, language).format(request.escalations))
    return ", ".join(states) or "-"


def _object(request: RefundRequest, *, is_held: bool) -> Object:
    return request_object(request) | {
        "due_at": rfc3339(request.due_at),
        "escalations": request.escalations,
        "asked_at": rfc3339(request.asked_at) if request.asked_at else None,
        "held": is_held,
    }


@app.command(epilog=examples("approvals show req_01…", "approvals show req_01… --lang en"))
def show(request: Request, *, lang: Lang = None, as_json: Json = False) -> None:
    """Show what an approver needs to see: computed facts first, the words of others last."""
    settings = ready()
    language = lang or settings.shop.language

    async def work(container: "Container") -> None:
        brief = await container.approvals().brief(request)
        if as_json:
            print_json(brief_object(brief, language))
        else:
            print_brief(brief, language, settings.zone)

    run(work, settings)


app.command(
    epilog=examples(
        "approvals approve req_01… --as lan --expect 1",
        'approvals approve req_01… --as lan --expect 1 --note "ok"',
    )
)(approve)
app.command(epilog=examples('approvals reject req_01… --as lan --expect 1 --note "worn"'))(reject)
app.command(
    epilog=examples("approvals reduce req_01… --as lan --amount 150.000 --expect 1"),
)(reduce)
app.command(
    epilog=examples('approvals ask req_01… --as lan --question "Bạn gửi ảnh giúp nhé?" --expect 1'),
)(ask)
app.command(epilog=examples("approvals review --as lan", "approvals review --as lan --lang en"))(
    review
)
app.command(epilog=examples("approvals report", "approvals report --days 7 --json"))(report)

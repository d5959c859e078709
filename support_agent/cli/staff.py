"""`refunds request`, `retry`, `resolve`: what staff starts, and another person decides."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import Json, Note, examples
from support_agent.cli.output import print_json, say
from support_agent.cli.proving import As, Expect, token_of
from support_agent.cli.refunds import Request
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import money, request_object
from support_agent.domain.errors import InvalidInput, RefundRefused
from support_agent.domain.money import parse_amount
from support_agent.domain.reasons import Reason
from support_agent.domain.refunds import RefundRequest

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.domain.allocation import Wish
    from support_agent.domain.orders import Order

app = typer.Typer()


@app.command(
    epilog=examples(
        "refunds request --order A100 --as lan",
        "refunds request --order A100 --amount 50.000 --reference T-42 --as lan",
        "refunds request --order A401 --line A401-1:2 --with-shipping --as lan",
    )
)
def request(
    *,
    order: Annotated[str, typer.Option("--order", help="The order to refund.", metavar="ID")],
    name: As,
    amount: Annotated[
        str | None,
        typer.Option("--amount", help="Only this much, e.g. 50.000; not with --line."),
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option("--line", help="Only units of a line; repeat it.", metavar="LINE:UNITS"),
    ] = None,
    with_shipping: Annotated[
        bool, typer.Option("--with-shipping", help="The shipping fee, too.")
    ] = False,
    overpaid: Annotated[
        bool,
        typer.Option("--overpaid", help="What was captured twice instead of what was bought."),
    ] = False,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="Yours, e.g. a ticket; twice is once.", metavar="ID"),
    ] = None,
    as_json: Json = False,
) -> None:
    """File a refund for an order; everything refundable unless an amount or lines are given.

    Another person has to approve it, at any amount.
    """
    settings = ready()
    token = token_of(name, settings)
    units = _units(line or [])

    async def work(container: "Container") -> tuple[RefundRequest, ...]:
        by = await container.approvals().prove(name, token, via="cli")
        desk = container.staff()
        found = await desk.order(order)
        wish = _wish(units, amount, found.currency, with_shipping=with_shipping, overpaid=overpaid)
        try:
            filed: tuple[RefundRequest, ...] = await desk.file(
                found, wish, by=by, reference=reference
            )
        except RefundRefused as refused:
            if refused.reason is Reason.DESTINATION_MISSING:
                refused.args = (_account_needed(refused.reason, found),)
            raise
        return filed

    filed = run(work, settings)
    if as_json:
        data = [request_object(one) for one in filed]
        print_json({"data": data, "has_more": False, "next_cursor": None})
        return
    for one in filed:
        say(f"request {one.id} over {money(one)} is {one.status}, level {one.required_level}")
    filer = filed[0].requester.id  # not NAME when the reference was there already
    say(f"another person than {filer} has to approve: support-agent approvals show {filed[0].id}")


@app.command(epilog=examples("refunds retry req_01… --as lan"))
def retry(request: Request, *, name: As, as_json: Json = False) -> None:
    """Ask to pay a failed request again: it is checked like a new one and waits for approval."""
    settings = ready()
    token = token_of(name, settings)

    async def work(container: "Container") -> RefundRequest:
        by = await container.approvals().prove(name, token, via="cli")
        return await container.retries().retry(request, by=by)

    again = run(work, settings)
    if as_json:
        print_json(request_object(again) | {"round": again.round, "attempt_no": again.attempt_no})
        return
    say(f"request {again.id} is {again.status} again, round {again.round}")
    say(f"another person than {name} has to approve it, level {again.required_level}")


@app.command(
    epilog=examples(
        "refunds resolve req_01… --paid --evidence FT26287000123 --as huong",
        'refunds resolve req_01… --not-paid --evidence CASE-42 --as huong --note "see the bank"',
    )
)
def resolve(
    request: Request,
    *,
    name: As,
    evidence: Annotated[
        str,
        typer.Option("--evidence", help="The id of the transfer, refund or enquiry.", metavar="ID"),
    ],
    paid: Annotated[
        bool | None, typer.Option("--paid/--not-paid", help="Whether the money left.")
    ] = None,
    expect: Expect = None,
    note: Note = None,
    as_json: Json = False,
) -> None:
    """End a manual review with a proof; not by who approved the refund. The customer is told."""
    if paid is None:
        raise InvalidInput("--paid or --not-paid", "is missing; say which")
    settings = ready()
    token = token_of(name, settings)

    async def work(container: "Container") -> RefundRequest:
        by = await container.approvals().prove(name, token, via="cli")
        return await container.resolutions().resolve(
            request, paid=paid, evidence=evidence, by=by, note=note, expect=expect
        )

    resolved = run(work, settings)
    if as_json:
        print_json(request_object(resolved) | {"by": name})
    else:
        say(f"request {resolved.id} is {resolved.status}: {money(resolved)}, by {name}")


def _account_needed(reason: Reason, order: "Order") -> str:
    """The words for staff: the sentence is for customers, whom it sends to staff."""
    return (
        f"{reason}: order {order.id!r} was paid in cash or by transfer, and customer "
        f"{order.customer_id!r} has no account to pay to; add it with: "
        f"support-agent destinations add --customer {order.customer_id}"
    )


def _units(lines: Sequence[str]) -> dict[str, int] | None:
    """Units by line id; an id may hold a colon, so the last one counts."""
    units: dict[str, int] = {}
    for text in lines:
        line_id, _, count = text.rpartition(":")
        if not line_id or not (count.isascii() and count.isdigit()) or len(count) > len("10000"):
            raise InvalidInput("line", f"{text!r} is not like A401-1:2, a line and its units")
        if line_id in units:
            raise InvalidInput("line", f"{line_id!r} is given twice; add the units up")
        units[line_id] = int(count)
    return units or None


def _wish(
    units: dict[str, int] | None,
    amount: str | None,
    currency: str,
    *,
    with_shipping: bool,
    overpaid: bool,
) -> "Wish":
    from support_agent.domain.allocation import Wish  # noqa: PLC0415 - not for --help

    if units is not None and amount is not None:
        raise InvalidInput("amount", "cannot be given together with lines; give one of them")
    minor = None if amount is None else parse_amount(amount, currency)
    return Wish(units=units, amount_minor=minor, with_shipping=with_shipping, overpaid=overpaid)

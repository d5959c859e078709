"""`refunds`: every request there is, taking one back, and putting the books right."""

from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.listing import print_page
from support_agent.cli.options import (
    AnyCustomer,
    Cursor,
    Json,
    Limit,
    Operator,
    examples,
    operator_or_user,
)
from support_agent.cli.output import Column, print_facts, print_json, say
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import (
    attempt_object,
    decision_object,
    local,
    money,
    request_details,
    request_object,
)
from support_agent.domain.approvals import Decision
from support_agent.domain.money import format_money
from support_agent.domain.refunds import Attempt, RefundRequest, RequestStatus
from support_agent.ports.storage import BookTotal, Mismatch, RequestFilter, Transaction
from support_agent.services.stored_requests import stored_request

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.overdue import Overdue

    _Checked = tuple[tuple[Mismatch, ...], tuple[BookTotal, ...], tuple[Overdue, ...]]

COLUMNS = (
    Column(title="ID"),
    Column(title="ORDER"),
    Column(title="CUSTOMER"),
    Column(title="AMOUNT", right=True),
    Column(title="STATUS"),
    Column(title="FILED"),
)

app = typer.Typer(name="refunds", help="Refund requests of every state, and the books.")
Request = Annotated[str, typer.Argument(help="The request's id.", metavar="REQUEST")]
Status = Annotated[
    RequestStatus | None,
    typer.Option("--status", help="Only in this state.", case_sensitive=False),
]
OfOrder = Annotated[str | None, typer.Option("--order", help="Only this order's.", metavar="ID")]


@app.command(
    "list", epilog=examples("refunds list --customer C001", "refunds list --status REFUNDED --json")
)
def list_requests(
    *,
    status: Status = None,
    customer: AnyCustomer = None,
    order: OfOrder = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List refund requests, the newest first."""
    settings = ready()
    where = RequestFilter(status=status, customer_id=customer, order_id=order)

    async def work(container: "Container") -> None:
        page = await container.database().read(
            lambda tx: tx.requests.list(where, limit=limit, cursor=cursor)
        )
        print_page(
            page,
            columns=COLUMNS,
            row=lambda r: (
                r.id,
                r.order_id,
                r.customer_id,
                money(r),
                str(r.status),
                local(r.created_at, settings.zone),
            ),
            as_object=request_object,
            as_json=as_json,
        )

    run(work, settings)


@app.command(epilog=examples("refunds show req_01…"))
def show(request: Request, *, as_json: Json = False) -> None:
    """Show one request with its decisions and every try to pay it."""
    settings = ready()

    async def work(
        container: "Container",
    ) -> tuple[RefundRequest, tuple[Decision, ...], tuple[Attempt, ...]]:
        return await container.database().read(lambda tx: _found(tx, request))

    found, decisions, attempts = run(work, settings)
    if as_json:
        about = {
            "decisions": [decision_object(decision) for decision in decisions],
            "attempts": [attempt_object(attempt) for attempt in attempts],
        }
        print_json(request_details(found) | about)
        return
    print_facts(
        [
            ("request", f"{found.id} (version {found.version}, round {found.round})"),
            ("status", str(found.status)),
            ("amount", f"{money(found)} to {found.destination}"),
            ("order", f"{found.order_id} of customer {found.customer_id}"),
            ("filed", local(found.created_at, settings.zone)),
            ("conversation", found.conversation_id or "none"),
        ]
    )
    if found.retried_by is not None:
        say(f"payout {found.attempt_no} was asked for by person {found.retried_by}")
    for decision in decisions:
        when, note = local(decision.at, settings.zone), f": {decision.note}" * bool(decision.note)
        proof = f" with {decision.evidence}" * (decision.evidence is not None)
        say(f"decided: {decision.choice} by {decision.name} at {when}{proof}{note}")
    for attempt in attempts:
        answer = attempt.provider_refund_id or attempt.error_code or "no answer yet"
        say(f"payout {attempt.number}: {attempt.status} ({answer})")


def _found(
    tx: Transaction, request_id: str
) -> tuple[RefundRequest, tuple[Decision, ...], tuple[Attempt, ...]]:
    request = stored_request(tx, request_id)
    return request, tx.decisions.of(request_id), tx.attempts.of(request_id)


@app.command(epilog=examples("refunds cancel req_01…"))
def cancel(request: Request, *, operator: Operator = None, as_json: Json = False) -> None:
    """Take a request back before it is paid; the customer is told."""
    by = at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> RefundRequest:
        life = container.life()
        return await container.database().transact(
            lambda tx: life.cancel_for_shop(tx, request, by=by)
        )

    cancelled = run(work)
    if as_json:
        print_json(request_object(cancelled))
    else:
        say(f"request {cancelled.id} is {cancelled.status}")


@app.command(epilog=examples("refunds reconcile"))
def reconcile(*, as_json: Json = False) -> None:
    """Hold our payouts and the gateway's refunds against one another; pays nothing twice."""

    async def work(container: "Container") -> tuple[RefundRequest, ...]:
        return await container.payouts().reconcile()

    looked_at = run(work)
    if as_json:
        data = [{"id": request.id, "status": request.status} for request in looked_at]
        print_json({"data": data, "has_more": False, "next_cursor": None})
        return
    for status, count in sorted(Counter(request.status for request in looked_at).items()):
        say(f"{count} {status}")
    if not looked_at:
        say("no payout is unclear")


@app.command(epilog=examples("refunds check"))
def check(*, as_json: Json = False) -> None:
    """Compare every balance with its ledger entries, and find payouts unclear for too long.

    Changes nothing; exit code 1 when it found anything.
    """

    async def work(container: "Container") -> "_Checked":
        from support_agent.services.overdue import find_overdue  # noqa: PLC0415 - not for --help

        def look(tx: Transaction) -> "_Checked":
            return tx.books.check(), tx.books.totals(), find_overdue(tx)

        return await container.database().read(look)

    mismatches, totals, overdue = run(work)
    if as_json:
        print_json(
            {
                "ok": not mismatches and not overdue,
                "mismatches": [mismatch_object(m) for m in mismatches],
                "totals": [asdict(total) for total in totals],
                "overdue": [overdue_object(one) for one in overdue],
            }
        )
    else:
        for total in totals:
            say(total_line(total))
        say("the books balance" if not mismatches else "the books do not balance:")
        for mismatch in mismatches:
            say(mismatch_line(mismatch))
        for one in overdue:
            say(overdue_line(one))
    raise typer.Exit(ExitCode.REFUSED if mismatches or overdue else ExitCode.DONE)


def total_line(total: BookTotal) -> str:
    """What the payments of a currency add up to."""
    sums = (
        ("captured", total.captured_minor),
        ("reserved", total.reserved_minor),
        ("refunded", total.refunded_minor),
        ("charged back", total.charged_back_minor),
    )
    parts = [f"{name} {format_money(amount, total.currency)}" for name, amount in sums]
    return f"{', '.join(parts)}; {total.entries} ledger entries"


def mismatch_object(mismatch: Mismatch) -> dict[str, object]:
    """A counter that is not the sum of its entries, as an object."""
    return {
        "account": mismatch.account,
        "counter": mismatch.counter,
        "stored": mismatch.stored,
        "ledger": mismatch.ledger,
    }


def overdue_object(overdue: "Overdue") -> dict[str, object]:
    """A request that has not moved for too long, as an object."""
    return {
        "id": overdue.request_id,
        "status": overdue.status,
        "longer_than_hours": overdue.longer_than // timedelta(hours=1),
    }


def overdue_line(overdue: "Overdue") -> str:
    """The same in words."""
    hours = overdue.longer_than // timedelta(hours=1)
    return f"request {overdue.request_id} has been {overdue.status} for more than {hours} h"


def mismatch_line(mismatch: Mismatch) -> str:
    """The same in words."""
    return (
        f"{mismatch.account} {mismatch.counter}: {mismatch.stored} stored, "
        f"{mismatch.ledger} by its entries"
    )

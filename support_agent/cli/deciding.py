"""`approvals approve`, `reject`, `reduce`, `ask`: each on the version that somebody has seen."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import Json, Note
from support_agent.cli.output import print_json, say
from support_agent.cli.proving import As, Expect, token_of
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import Object, money, request_object
from support_agent.domain.errors import InvalidInput
from support_agent.domain.money import format_money, parse_amount
from support_agent.domain.people import Principal, Proof
from support_agent.domain.refunds import RefundRequest, RequestStatus

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.approvals import Approvals
    from support_agent.services.decision_desk import Decided

DONE = {
    "approve": "approved",
    "reject": "rejected",
    "reduce": "reduced",
    "ask": "the customer is asked",
}
Request = Annotated[str, typer.Argument(help="The request's id.", metavar="REQUEST")]
Amount = Annotated[
    str,
    typer.Option("--amount", help="The lower amount, e.g. 150.000.", metavar="AMOUNT"),
]
Question = Annotated[
    str, typer.Option("--question", help="What the customer is asked.", metavar="TEXT")
]
Decide = Callable[["Approvals", Principal], Awaitable[RefundRequest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Who decided what, and what came of it."""

    decision: str
    by: Principal
    made: "Decided"


def approve(
    request: Request, *, name: As, expect: Expect = None, note: Note = None, as_json: Json = False
) -> None:
    """Approve a request and what is paid with it, then try to pay once; a worker may do that.

    The exit code is 0 once the decision stands, whatever the payout came to: `tick` tries again.
    """
    _decide(
        "approve",
        lambda desk, by: desk.approve(request, by=by, expect=expect, note=note),
        name=name,
        expect=expect,
        as_json=as_json,
    )


def reject(
    request: Request, *, name: As, expect: Expect = None, note: Note = None, as_json: Json = False
) -> None:
    """Reject a request and what is paid with it; the amount can be asked for again."""
    _decide(
        "reject",
        lambda desk, by: desk.reject(request, by=by, expect=expect, note=note),
        name=name,
        expect=expect,
        as_json=as_json,
    )


def reduce(
    request: Request,
    *,
    name: As,
    amount: Amount,
    expect: Expect = None,
    note: Note = None,
    as_json: Json = False,
) -> None:
    """Lower the amount. Decisions so far are void: it still has to be approved."""

    async def lower(desk: "Approvals", by: Principal) -> RefundRequest:
        currency = (await desk.brief(request)).request.currency
        minor = parse_amount(amount, currency)
        return await desk.reduce(request, amount_minor=minor, by=by, expect=expect, note=note)

    _decide("reduce", lower, name=name, expect=expect, as_json=as_json)


def ask(
    request: Request,
    *,
    name: As,
    question: Question,
    expect: Expect = None,
    as_json: Json = False,
) -> None:
    """Ask the customer in the request's conversation; the request waits on, expiring as before."""
    _decide(
        "ask",
        lambda desk, by: desk.ask(request, question=question, by=by, expect=expect),
        name=name,
        expect=expect,
        as_json=as_json,
    )


def _decide(decision: str, decide: Decide, *, name: str, expect: int | None, as_json: bool) -> None:
    _check_seen(expect)
    settings = ready()
    token = token_of(name, settings)

    async def work(container: "Container") -> Outcome:
        by = await container.approvals().prove(name, token, via="cli")
        decided = await decide(container.approvals(), by)
        made = await container.decision_desk().follow(decided)
        return Outcome(decision=decision, by=by, made=made)

    outcome = run(work, settings)
    if as_json:
        print_json(_object(outcome))
    else:
        _tell(outcome)


def _check_seen(expect: int | None) -> None:
    """A script has to name what it decides about; a person at a terminal has just looked."""
    if expect is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InvalidInput(
            "expect",
            "is needed without a terminal: give --expect VERSION, as `approvals show` or "
            "`approvals list` told it",
        )


def _object(outcome: Outcome) -> Object:
    made, trouble = outcome.made, outcome.made.trouble
    return request_object(made.request) | {
        "decision": outcome.decision,
        "by": outcome.by.id,
        "proof": outcome.by.proof,
        "group": [request_object(member) for member in made.group],
        "payout_error": {"code": trouble.code, "message": str(trouble)} if trouble else None,
    }


def _tell(outcome: Outcome) -> None:
    made, by = outcome.made, outcome.by
    request = made.request
    proof = f" (proof: {by.proof})" if by.proof is Proof.ASSERTED else ""
    done = f"{DONE[outcome.decision]} by {by.id}{proof}"
    say(f"{done}: request {request.id} is {request.status}")
    say(f"{money(request)} for order {request.order_id} of customer {request.customer_id}")
    for member in made.group:
        say(f"with it {money(member)}: request {member.id} is {member.status}")
    if made.trouble is not None:
        say(f"approved; the payout will be tried again by tick: {made.trouble}")
    elif request.status is RequestStatus.PENDING_APPROVAL:
        say(_what_now(outcome))
    elif request.status is RequestStatus.MANUAL_REVIEW:
        say(
            "no gateway carries it, or its answer needs a person: `tasks list` says what to do, "
            "then another person ends it with `refunds resolve`"
        )
    elif request.status is RequestStatus.APPROVED and made.by_worker:
        say("the worker pays it, and the customer is told when it is paid")
    elif request.status is RequestStatus.APPROVED:  # payouts are paused, or it was refused
        say("not paid yet: `tick` tries again, and `tasks list` has what a person must look at")


def _what_now(outcome: Outcome) -> str:
    request = outcome.made.request
    match outcome.decision:
        case "approve":
            persons = request.approvals_needed
            return f"{persons} persons must approve: another approver is needed"
        case "reduce":
            filed = format_money(request.filed_minor, request.currency)
            version = request.version
            return f"filed with {filed}; it has to be approved now, at version {version}"
        case _:
            return f"it waits for a decision, now at version {request.version}"

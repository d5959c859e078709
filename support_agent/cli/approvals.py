"""`approvals`: the queue of requests that wait for a person, and the decisions on them."""

import getpass
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.brief import brief_object, print_brief
from support_agent.cli.listing import print_page
from support_agent.cli.options import LONGEST_NAME, Cursor, Json, Limit, Note, at_most, examples
from support_agent.cli.output import Column, print_json, say
from support_agent.cli.runtime import ready, run
from support_agent.cli.views import age, money, request_object
from support_agent.domain.errors import SupportAgentError
from support_agent.domain.people import Proof
from support_agent.domain.refunds import RefundRequest, RequestStatus
from support_agent.ports.storage import RequestFilter

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.settings import Settings

TOKEN_NAME = "SUPPORT_AGENT_APPROVER_TOKEN"  # noqa: S105 - the variable's name
DONE = {"approve": "approved", "reject": "rejected"}
COLUMNS = (
    Column(title="ID"),
    Column(title="ORDER"),
    Column(title="CUSTOMER"),
    Column(title="AMOUNT", right=True),
    Column(title="LEVEL", right=True),
    Column(title="AGE", right=True),
    Column(title="VERSION", right=True),
)

app = typer.Typer(name="approvals", help="Decide about refunds that wait for a person.")
Request = Annotated[str, typer.Argument(help="The request's id.", metavar="REQUEST")]
As = Annotated[
    str,
    typer.Option(
        "--as",
        help=f"The approver; proved by {TOKEN_NAME} or a hidden prompt.",
        metavar="NAME",
        callback=at_most(LONGEST_NAME, "as"),
    ),
]
Expect = Annotated[
    int | None,
    typer.Option("--expect", help="Only if the request is still at this version.", min=1),
]


@app.command("list", epilog=examples("approvals list", "approvals list --json --limit 50"))
def list_pending(*, limit: Limit = 20, cursor: Cursor = None, as_json: Json = False) -> None:
    """List the requests that wait, the oldest first."""
    pending = RequestFilter(status=RequestStatus.PENDING_APPROVAL)

    async def work(container: "Container") -> None:
        page = await container.database().read(
            lambda tx: tx.requests.list(pending, limit=limit, cursor=cursor)
        )
        now = container.clock().now()
        print_page(
            page,
            columns=COLUMNS,
            row=lambda r: (
                r.id,
                r.order_id,
                r.customer_id,
                money(r),
                str(r.required_level),
                age(r.created_at, now),
                str(r.version),
            ),
            as_object=request_object,
            as_json=as_json,
            none="nothing waits for a person",
        )

    run(work)


@app.command(epilog=examples("approvals show req_01…"))
def show(request: Request, *, as_json: Json = False) -> None:
    """Show what an approver needs to see: computed facts first, the customer's words last."""
    settings = ready()

    async def work(container: "Container") -> None:
        brief = await container.approvals().brief(request)
        if as_json:
            print_json(brief_object(brief, settings.shop.language))
        else:
            print_brief(brief, settings.shop.language, settings.zone)

    run(work, settings)


@app.command(
    epilog=examples(
        "approvals approve req_01… --as lan", "approvals approve req_01… --as lan --expect 1"
    )
)
def approve(
    request: Request, *, name: As, expect: Expect = None, note: Note = None, as_json: Json = False
) -> None:
    """Approve a request, then try to pay it once.

    The exit code is 0 once the decision stands, whatever the payout came to: `tick` tries again.
    """
    settings = ready()
    token = _token(name, settings)

    async def work(container: "Container") -> _Outcome:
        approvals = container.approvals()
        by = await approvals.prove(name, token, via="cli")
        decided = await approvals.approve(request, by=by, expect=expect, note=note)
        if decided.status is not RequestStatus.APPROVED:
            return _Outcome(request=decided, name=name, proof=by.proof)
        return await _paid(container, _Outcome(request=decided, name=name, proof=by.proof))

    _tell(run(work, settings), "approve", as_json=as_json)


@app.command(epilog=examples('approvals reject req_01… --as lan --note "worn"'))
def reject(
    request: Request, *, name: As, expect: Expect = None, note: Note = None, as_json: Json = False
) -> None:
    """Reject a request; the amount can be asked for again."""
    settings = ready()
    token = _token(name, settings)

    async def work(container: "Container") -> _Outcome:
        by = await container.approvals().prove(name, token, via="cli")
        decided = await container.approvals().reject(request, by=by, expect=expect, note=note)
        return _Outcome(request=decided, name=name, proof=by.proof)

    _tell(run(work, settings), "reject", as_json=as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """A decision that stands, and what the payout after it came to."""

    request: RefundRequest
    name: str
    proof: Proof
    trouble: SupportAgentError | None = None


async def _paid(container: "Container", outcome: _Outcome) -> _Outcome:
    """The decision is committed: nothing that goes wrong here may look like its failure."""
    try:
        request = await container.payouts().pay(outcome.request.id)
    except SupportAgentError as error:
        return _Outcome(
            request=outcome.request, name=outcome.name, proof=outcome.proof, trouble=error
        )
    return _Outcome(request=request, name=outcome.name, proof=outcome.proof)


def _token(name: str, settings: "Settings") -> str | None:
    """The approver's token: from the environment, else asked for where there is a terminal."""
    if settings.approvals.proof == "asserted":
        return None
    token = os.environ.get(TOKEN_NAME)
    if token or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return token
    try:
        return getpass.getpass(f"token of {name}: ", stream=sys.stderr)
    except EOFError:
        return None


def _tell(outcome: _Outcome, decision: str, *, as_json: bool) -> None:
    request, trouble = outcome.request, outcome.trouble
    if as_json:
        error = {"code": trouble.code, "message": str(trouble)} if trouble else None
        about = {"decision": decision, "by": outcome.name, "proof": outcome.proof}
        print_json(request_object(request) | about | {"payout_error": error})
        return
    proof = f" (proof: {outcome.proof})" if outcome.proof is Proof.ASSERTED else ""
    say(f"{DONE[decision]} by {outcome.name}{proof}: request {request.id} is {request.status}")
    say(f"{money(request)} for order {request.order_id} of customer {request.customer_id}")
    if trouble is not None:
        say(f"approved; the payout will be tried again by tick: {trouble}")
    elif request.status is RequestStatus.PENDING_APPROVAL:
        say(f"{request.approvals_needed} persons must approve: another approver is needed")

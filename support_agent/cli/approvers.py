"""`approvers`: who may approve, up to how much, and the tokens that prove it."""

import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import Json, examples, operator_or_user
from support_agent.cli.output import Column, print_json, say
from support_agent.cli.runtime import at_the_host, run
from support_agent.cli.views import amounts, approver_object
from support_agent.domain.errors import InvalidInput
from support_agent.domain.money import parse_amount
from support_agent.domain.people import Approver
from support_agent.ports.storage import Page

if TYPE_CHECKING:
    from support_agent.container import Container

HIGHEST_LEVEL = 9
TOKEN_BYTES = 32
COLUMNS = (
    Column(title="NAME"),
    Column(title="PERSON"),
    Column(title="LEVEL", right=True),
    Column(title="LIMITS"),
    Column(title="OWN ACCOUNTS"),
    Column(title="TOKEN"),
    Column(title="STATE"),
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

app = typer.Typer(name="approvers", help="Who may approve refunds, and up to how much.")
Name = Annotated[str, typer.Argument(help="The approver's name.", metavar="NAME")]


@app.command("list", epilog=examples("approvers list"))
def list_all(*, as_json: Json = False) -> None:
    """List the approvers, the lowest level first."""

    async def work(container: "Container") -> tuple[Approver, ...]:
        return await container.database().read(lambda tx: tx.people.list())

    print_page(
        Page(data=run(work), next_cursor=None),
        columns=COLUMNS,
        row=_row,
        as_object=approver_object,
        as_json=as_json,
        none="there are no approvers; add one with `approvers add`",
    )


@app.command(
    epilog=examples(
        "approvers add hoa --person P-HOA --level 1 --limit VND=2.000.000 --customer C003"
    )
)
def add(
    name: Name,
    *,
    person: Annotated[str, typer.Option("--person", help="Whose approver this is.", metavar="ID")],
    level: Annotated[
        int, typer.Option("--level", min=1, max=HIGHEST_LEVEL, help="As the policy names levels.")
    ],
    limit: Annotated[
        list[str],
        typer.Option("--limit", help="Highest total of an order; repeat it.", metavar="VND=AMOUNT"),
    ],
    customer: Annotated[
        list[str] | None,
        typer.Option("--customer", help="An account this person buys with; repeat it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add an approver; `approvers token` then makes the token that proves them."""
    approver = Approver(
        name=_checked("name", name),
        person_id=_checked("person", person),
        level=level,
        limits=_limits(limit),
        customer_ids=frozenset(customer or ()),
    )
    by = at_the_host(operator_or_user(None))

    async def work(container: "Container") -> Approver:
        return await container.approvers().add(approver, by=by)

    _tell(run(work), as_json=as_json)


@app.command(epilog=examples("approvers limit lan VND=3.000.000", "approvers limit lan USD=0"))
def limit(
    name: Name,
    limits: Annotated[
        list[str], typer.Argument(help="One or more; 0 means no authority.", metavar="VND=AMOUNT")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Set an approver's limits; currencies that are not named stay as they are."""
    parsed, by = _limits(limits), at_the_host(operator_or_user(None))

    async def work(container: "Container") -> Approver:
        return await container.approvers().set_limits(name, parsed, by=by)

    _tell(run(work), as_json=as_json)


@app.command(epilog=examples("approvers disable lan"))
def disable(name: Name, *, as_json: Json = False) -> None:
    """Switch an approver off: no decision is taken from them any more."""
    _switch(name, disabled=True, as_json=as_json)


@app.command(epilog=examples("approvers enable lan"))
def enable(name: Name, *, as_json: Json = False) -> None:
    """Switch an approver on again."""
    _switch(name, disabled=False, as_json=as_json)


@app.command(epilog=examples("approvers token lan"))
def token(name: Name, *, as_json: Json = False) -> None:
    """Make a new token and print it once; the one before stops working.

    Only its hash is stored, so a lost token is replaced, never shown again.
    """
    made, by = secrets.token_urlsafe(TOKEN_BYTES), at_the_host(operator_or_user(None))

    async def work(container: "Container") -> None:
        await container.approvers().set_token(name, made, by=by)

    run(work)
    if as_json:
        print_json({"id": name, "token": made})
    else:
        say(made)


def _switch(name: str, *, disabled: bool, as_json: bool) -> None:
    by = at_the_host(operator_or_user(None))

    async def work(container: "Container") -> Approver:
        return await container.approvers().set_disabled(name, disabled=disabled, by=by)

    _tell(run(work), as_json=as_json)


def _checked(field: str, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise InvalidInput(
            field, f"{value!r} must be 1 to 64 letters, digits, dots, dashes, @ or _"
        )
    return value


def _limits(texts: Sequence[str]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for text in texts:
        currency, sign, amount = text.partition("=")
        if not sign:
            raise InvalidInput("limit", f"{text!r} must be written like VND=2000000")
        if currency in limits:
            raise InvalidInput("limit", f"names {currency} twice; give each currency once")
        limits[currency] = parse_amount(amount, currency)
    return limits


def _row(approver: Approver) -> tuple[str, ...]:
    return (
        approver.name,
        approver.person_id,
        str(approver.level),
        amounts(list(approver.limits.items())),
        ", ".join(sorted(approver.customer_ids)),
        "yes" if approver.token_hash else "no",
        "disabled" if approver.disabled else "active",
    )


def _tell(approver: Approver, *, as_json: bool) -> None:
    if as_json:
        print_json(approver_object(approver))
        return
    state = "disabled" if approver.disabled else "active"
    limits = amounts(list(approver.limits.items()))
    say(f"{approver.name}: level {approver.level}, limits {limits}, {state}")

"""`destinations`: the bank accounts that cash and transfers are paid back to."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import Customer, Json, examples, operator_or_user
from support_agent.cli.output import Column, print_facts, print_json, rfc3339
from support_agent.cli.proving import token_of
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import Object, local
from support_agent.ports.storage import Page, PayoutDestination

if TYPE_CHECKING:
    from datetime import tzinfo

    from support_agent.container import Container

COLUMNS = (
    Column(title="ID"),
    Column(title="CUSTOMER"),
    Column(title="ACCOUNT"),
    Column(title="HOLDER"),
    Column(title="ADDED"),
    Column(title="BY"),
)

app = typer.Typer(
    name="destinations", help="Bank accounts to pay customers back who did not pay by card."
)


@app.command(
    epilog=examples(
        'destinations add --customer C006 --bank VCB --account 0123456789 --holder "NGUYEN VAN A"'
    )
)
def add(
    *,
    customer: Customer,
    bank: Annotated[str, typer.Option("--bank", help="The bank's name or code.", metavar="BANK")],
    account: Annotated[
        str, typer.Option("--account", help="The account number, digits only.", metavar="NUMBER")
    ],
    holder: Annotated[
        str, typer.Option("--holder", help="Whose account it is, as the bank has it.")
    ],
    as_json: Json = False,
) -> None:
    """Add a customer's account; from now on their refunds by hand go to it.

    For seven days an approver of a higher level has to let refunds to it pass.
    """
    settings, by = ready(), at_the_host(operator_or_user(None))

    async def work(container: "Container") -> PayoutDestination:
        return await container.destinations().add(customer, bank, account, holder, by=by)

    added = run(work, settings)
    _print(added, settings.zone, as_json=as_json)


@app.command("list", epilog=examples("destinations list --customer C006"))
def list_all(*, customer: Customer, as_json: Json = False) -> None:
    """List a customer's accounts; the first is the one in use."""
    settings = ready()

    async def work(container: "Container") -> tuple[PayoutDestination, ...]:
        return await container.database().read(lambda tx: tx.destinations.of_customer(customer))

    print_page(
        Page(data=run(work, settings), next_cursor=None),
        columns=COLUMNS,
        row=lambda found: (
            found.id,
            found.customer_id,
            found.masked,
            found.holder,
            local(found.created_at, settings.zone),
            found.added_by,
        ),
        as_object=_object,
        as_json=as_json,
        none="this customer has no account on file; add one with `destinations add`",
    )


@app.command(epilog=examples("destinations show dst_01…", "destinations show dst_01… --as lan"))
def show(
    destination: Annotated[str, typer.Argument(help="The account's id.", metavar="DESTINATION")],
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="An approver, proved as for decisions: shows the whole number, and is audited.",
            metavar="NAME",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show an account; its number is masked unless an approver asks for it."""
    settings = ready()
    token = token_of(name, settings) if name else None

    async def work(container: "Container") -> PayoutDestination:
        from support_agent.services.destinations import stored_destination  # noqa: PLC0415

        if name is None:
            return await container.database().read(lambda tx: stored_destination(tx, destination))
        by = await container.approvals().prove(name, token, via="cli")
        return await container.destinations().reveal(destination, by=by)

    _print(run(work, settings), settings.zone, whole=name is not None, as_json=as_json)


def _print(found: PayoutDestination, zone: "tzinfo", *, as_json: bool, whole: bool = False) -> None:
    if as_json:
        number: Object = {"account_number": found.account_number} if whole else {}
        print_json(_object(found) | number)
        return
    print_facts(
        [
            ("id", found.id),
            ("customer", found.customer_id),
            ("account", f"{found.bank} {found.account_number}" if whole else found.masked),
            ("holder", found.holder),
            ("added", f"{local(found.created_at, zone)} by {found.added_by}"),
        ]
    )


def _object(found: PayoutDestination) -> Object:
    return {
        "id": found.id,
        "customer_id": found.customer_id,
        "account": found.masked,
        "holder": found.holder,
        "created_at": rfc3339(found.created_at),
        "added_by": found.added_by,
    }

"""`privacy`: telling a customer what is kept of them, and erasing it."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.exits import ExitCode
from support_agent.cli.keystrokes import at_the_desk, read_key
from support_agent.cli.options import Json, Operator, examples, operator_or_user
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import at_the_host, run
from support_agent.cli.views import head_text
from support_agent.domain.errors import InvalidInput

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.privacy import Erased, Export

FORMAT = 1  # of an export; a later one may add, and never changes what is there
CLAIMED = (
    "their writer only claimed to be this customer: the texts may be another person's, and are not "
    "told; erasing takes them, too"
)
NOT_HERE = "customer records and orders of the shop's own system"

app = typer.Typer(name="privacy", help="A customer's data: told to them, and erased for them.")
Whose = Annotated[str, typer.Argument(help="The customer's id.", metavar="CUSTOMER")]


@app.command(epilog=examples("privacy export C001 > C001.json"))
def export(customer: Whose, *, operator: Operator = None, as_json: Json = True) -> None:  # noqa: ARG001 - it always is
    """Print everything that is kept of a customer as one JSON object.

    It holds whole account numbers; that it was made is in the history. docs/privacy.md has its
    shape. What the shop's own system holds is not in it, nor what somebody wrote who only claimed
    to be the customer.
    """
    by = at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> "Export":
        return await container.privacy().export(customer, by=by)

    made = run(work)
    print_json(
        {
            "format": FORMAT,
            "customer_id": made.customer_id,
            "exported_at": made.at,
            "installation_id": made.installation_id,
            "audit_head": head_text(made.head),
            "not_here": NOT_HERE,
            "claimed_conversations": {"ids": list(made.claimed), "note": CLAIMED},
            "data": made.rows,
        }
    )


@app.command(epilog=examples("privacy erase C001 --operator thu", "privacy erase C001 --yes"))
def erase(
    customer: Whose,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to.")] = False,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Erase everything personal of a customer for good; ids, amounts and decisions stay.

    Refused while a request of theirs is not final, a message is being answered, or a person has a
    conversation. Their conversations are closed by it; they may begin new ones. What the shop's own
    system holds, backups, and the files of a PostgreSQL server are erased where they are.
    """
    by = at_the_host(operator_or_user(operator))
    if not yes and not _confirmed(customer, as_json=as_json):
        say("nothing was erased")
        raise typer.Exit(ExitCode.REFUSED)

    async def work(container: "Container") -> "Erased":
        return await container.privacy().erase(customer, by=by)

    done = run(work)
    if as_json:
        about = {"customer_id": done.customer_id, "erased": done.counts}
        print_json(about | {"claimed_conversations": done.claimed, "not_here": NOT_HERE})
        return
    if not done.counts:
        say(f"nothing personal of customer {done.customer_id} was left")
    for name, count in done.counts.items():
        say(f"erased: {count} {name}")
    if done.claimed:
        say(f"of them {done.claimed} conversations whose writer only claimed to be this customer")
    say(f"not here, and so not erased: {NOT_HERE}")


def _confirmed(customer: str, *, as_json: bool) -> bool:
    if as_json or not at_the_desk():
        raise InvalidInput("yes", "is needed where nobody can be asked: give --yes")
    return read_key(f"Erase everything personal of customer {customer!r} for good? [y/N] ") == "y"

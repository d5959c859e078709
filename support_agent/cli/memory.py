"""`memory`: what is remembered of a customer between conversations."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.listing import print_page
from support_agent.cli.options import Json, Operator, examples, operator_or_user
from support_agent.cli.output import Column, print_json, rfc3339, say
from support_agent.cli.runtime import at_the_host, ready, run
from support_agent.cli.views import Object, local
from support_agent.domain.preferences import VALUES, PreferenceKind
from support_agent.ports.storage import Page, Preference

if TYPE_CHECKING:
    from support_agent.container import Container

COLUMNS = (
    Column(title="KIND"),
    Column(title="WHAT"),
    Column(title="SAID"),
    Column(title="CONVERSATION"),
)

app = typer.Typer(name="memory", help="What is remembered of a customer: codes, never words.")
WhoseMemory = Annotated[str, typer.Argument(help="The customer's id.", metavar="CUSTOMER")]


@app.command(epilog=examples("memory show C001"))
def show(customer: WhoseMemory, *, as_json: Json = False) -> None:
    """Show how a customer wants to be served, and where they said so."""
    settings = ready()

    async def work(container: "Container") -> tuple[Preference, ...]:
        return await container.memory().of(customer)

    print_page(
        Page(data=run(work, settings), next_cursor=None),
        columns=COLUMNS,
        row=lambda found: (
            found.kind,
            VALUES[found.kind][found.value],
            local(found.at, settings.zone),
            found.conversation_id or "",
        ),
        as_object=_object,
        as_json=as_json,
        none="nothing is remembered of this customer",
    )


@app.command(epilog=examples("memory forget C001", "memory forget C001 language"))
def forget(
    customer: WhoseMemory,
    kind: Annotated[
        PreferenceKind | None,
        typer.Argument(help="Only this kind; all of it without.", case_sensitive=False),
    ] = None,
    *,
    operator: Operator = None,
    as_json: Json = False,
) -> None:
    """Forget it, also in the conversations it is used in; the history says that it was."""
    by = at_the_host(operator_or_user(operator))

    async def work(container: "Container") -> tuple[PreferenceKind, ...]:
        return await container.memory().forget(customer, kind, by=by)

    forgotten = run(work)
    if as_json:
        print_json({"customer_id": customer, "forgotten": list(forgotten)})
    else:
        say(f"forgotten: {', '.join(forgotten)}" if forgotten else "there was nothing to forget")


def _object(found: Preference) -> Object:
    return {
        "id": found.kind,
        "value": found.value,
        "at": rfc3339(found.at),
        "conversation_id": found.conversation_id,
    }

"""`audit`: proving that nobody changed the history."""

from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.audit_export import export
from support_agent.cli.exits import ExitCode
from support_agent.cli.options import Json, examples
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import run
from support_agent.cli.views import head_text
from support_agent.domain.audit import AuditHead
from support_agent.domain.errors import InvalidInput

if TYPE_CHECKING:
    from support_agent.container import Container
    from support_agent.services.audit import AuditReport

app = typer.Typer(name="audit", help="The signed history of everything that was decided.")
app.command(
    epilog=examples(
        "audit export --out 2026-10.jsonl",
        "audit export --since 4210 --out -",
        "audit export --format csv --out history.csv",
    )
)(export)


@app.callback()
def audit() -> None:
    """The signed history of everything that was decided."""


@app.command(epilog=examples("audit verify", "audit verify --head 42:9f86d0…"))
def verify(
    *,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            help="A head seen earlier, from tick or the log: finds a tail that was cut off.",
            metavar="SEQ:MAC",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify the audit chain and compare it with the present rows; exit code 1 on a problem."""
    anchor = parse_head(head) if head is not None else None

    async def work(container: "Container") -> "AuditReport":
        from support_agent.services.audit import verify as walk  # noqa: PLC0415 - not for --help

        keys = container.keys()
        return await container.database().read(lambda tx: walk(tx, keys, anchor=anchor))

    report = run(work, check_history=False)
    if as_json:
        print_json(
            {
                "ok": report.holds,
                "head": head_text(report.head),
                "events": report.events,
                "requests": report.requests,
                "problems": list(report.problems),
            }
        )
    else:
        say(f"{report.events} events, {report.requests} requests: " + _verdict(report))
        say(f"head {head_text(report.head)}")
        for problem in report.problems:
            say(f"problem: {problem}")
    raise typer.Exit(ExitCode.DONE if report.holds else ExitCode.REFUSED)


def _verdict(report: "AuditReport") -> str:
    return "the chain holds" if report.holds else f"{len(report.problems)} problem(s)"


def parse_head(text: str) -> AuditHead:
    """A head as `head_text` writes it.

    Raises:
        InvalidInput: it is not one.
    """
    seq, colon, mac = text.partition(":")
    if not (colon and mac and seq.isascii() and seq.isdigit() and len(seq) < 19):
        raise InvalidInput("head", "must be written SEQ:MAC, as `audit verify` prints it")
    return AuditHead(seq=int(seq), mac=mac)

"""`db backup`: a copy of the database to keep elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from support_agent.cli.options import Json, examples
from support_agent.cli.output import print_json, say
from support_agent.cli.runtime import ready
from support_agent.cli.views import head_text

app = typer.Typer()


@app.command(epilog=examples("db backup backups/2026-10-13.db"))
def backup(
    file: Annotated[
        Path, typer.Argument(help="Where to; a file that is not there yet.", metavar="FILE")
    ],
    *,
    as_json: Json = False,
) -> None:
    """Copy the database while others work with it, and look the copy through.

    Keep the audit head it prints with the copy, and the newest one apart from both: after a
    restore `audit verify --head` shows by it how much is missing. The signing keys are not in
    the copy. For PostgreSQL it says which command to run.
    """
    from support_agent.adapters.db.backup import back_up  # noqa: PLC0415 - not for --help

    settings = ready()
    made = back_up(
        settings.of_owner.database.url, file, busy_timeout_s=settings.database.busy_seconds
    )
    if as_json:
        about = {"file": str(made.file), "size_bytes": made.size_bytes, "revision": made.revision}
        print_json(about | {"kind": made.kind, "audit_head": head_text(made.head)})
        return
    say(f"{made.file}: {made.size_bytes} bytes, schema {made.revision}, a {made.kind} database")
    say("it is whole, and every reference in it holds")
    say(f"audit head {head_text(made.head)}")
    say("the signing keys are not in it: keep them apart from it")

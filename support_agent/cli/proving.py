"""`--as NAME`: who decides or files, and how they prove it."""

import getpass
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from support_agent.cli.options import LONGEST_NAME, at_most

if TYPE_CHECKING:
    from support_agent.settings import Settings

TOKEN_NAME = "SUPPORT_AGENT_APPROVER_TOKEN"  # noqa: S105 - the variable's name
As = Annotated[
    str,
    typer.Option(
        "--as",
        help=f"The approver; proved by {TOKEN_NAME} or a hidden prompt.",
        metavar="NAME",
        callback=at_most(LONGEST_NAME, "as"),
    ),
]
MaybeAs = Annotated[
    str | None,
    typer.Option(
        "--as",
        help=f"An approver; proved by {TOKEN_NAME} or a hidden prompt.",
        metavar="NAME",
        callback=at_most(LONGEST_NAME, "as"),
    ),
]
Expect = Annotated[
    int | None,
    typer.Option("--expect", help="Only if the request is still at this version.", min=1),
]


def token_of(name: str, settings: "Settings") -> str | None:
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

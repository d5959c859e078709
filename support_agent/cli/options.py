"""Options that several commands share, each described once."""

import getpass
import unicodedata
from collections.abc import Callable
from typing import Annotated

import typer

from support_agent.domain.errors import InvalidInput

LONGEST_NAME = 64
LONGEST_NOTE = 1_000


def at_most(characters: int, field: str) -> Callable[[str | None], str | None]:
    """Checks an option whose text is stored: NFC, not too long, nothing a database cannot hold."""

    def check(text: str | None) -> str | None:
        if text is None:
            return None
        text = unicodedata.normalize("NFC", text)
        if "\0" in text:
            raise InvalidInput(field, "must not contain NUL")
        if len(text) > characters:
            raise InvalidInput(field, f"is longer than {characters} characters; shorten it")
        return text

    return check


Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]
Trace = Annotated[bool, typer.Option("--trace", help="Print each tool call and what it found.")]
Customer = Annotated[
    str, typer.Option("--customer", help="The customer who is speaking, e.g. C001.", metavar="ID")
]
AnyCustomer = Annotated[
    str | None, typer.Option("--customer", help="Only this customer's.", metavar="ID")
]
Conversation = Annotated[
    str | None,
    typer.Option("--conversation", help="Go on with this conversation.", metavar="ID"),
]
Operator = Annotated[
    str | None,
    typer.Option(
        "--operator",
        help="Who types for the customer or the shop; the user of this machine by default.",
        metavar="NAME",
        callback=at_most(LONGEST_NAME, "operator"),
    ),
]
Note = Annotated[
    str | None,
    typer.Option(
        "--note",
        help=f"Why, for those who look later; at most {LONGEST_NOTE} characters.",
        metavar="TEXT",
        callback=at_most(LONGEST_NOTE, "note"),
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=200, help="Rows of one page.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", help="The next_cursor of the page before.", metavar="CURSOR"),
]


def operator_or_user(name: str | None) -> str:
    """Who is at the keyboard."""
    if name:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        return "unknown"


def examples(*lines: str) -> str:
    """An epilog whose lines stay as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  support-agent {line}" for line in lines)

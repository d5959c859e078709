"""One page of a list, as a table or as `{data, has_more, next_cursor}`."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from support_agent.cli.output import Column, print_json, print_table, say
from support_agent.ports.storage import Page

T = TypeVar("T")


def print_page(
    page: Page[T],
    *,
    columns: Sequence[Column],
    row: Callable[[T], Sequence[str]],
    as_object: Callable[[T], dict[str, object]],
    as_json: bool,
    none: str = "nothing to show",
) -> None:
    """Print the page; `none` is what an empty one says in words."""
    if as_json:
        data = [as_object(item) for item in page.data]
        print_json({"data": data, "has_more": page.has_more, "next_cursor": page.next_cursor})
    elif not page.data:
        say(none)
    else:
        print_table(columns, [row(item) for item in page.data])
        if page.next_cursor is not None:
            say(f"more: --cursor {page.next_cursor}")

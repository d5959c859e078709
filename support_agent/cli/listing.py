"""One page of a list, as a table or as `{data, has_more, next_cursor}`."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from support_agent.cli.output import Column, print_json, print_table, say
from support_agent.domain.errors import InvalidInput
from support_agent.ports.storage import Page

T = TypeVar("T")


def page_of(rows: Sequence[T], limit: int, key: Callable[[T], str]) -> Page[T]:
    """A page out of up to `limit + 1` rows; the last one shown is the cursor."""
    more = len(rows) > limit
    return Page(data=tuple(rows[:limit]), next_cursor=key(rows[limit - 1]) if more else None)


def check_cursor(cursor: str | None, row: object | None) -> None:
    """Refuse an id-cursor that names no row."""
    if cursor is not None and row is None:
        raise InvalidInput("cursor", "was not handed out by this list; start again without one")


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

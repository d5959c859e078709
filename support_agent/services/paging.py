"""Pages of lists whose cursor is the id of the last row shown."""

from collections.abc import Callable, Sequence
from typing import TypeVar

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

"""JSON of others, in which no name stands twice and every number is one."""

from typing import Any, NoReturn


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook`: of a name that stands twice each reader takes another value.

    Raises:
        ValueError: one does.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def no_constant(word: str) -> NoReturn:
    """For `parse_constant`: NaN and Infinity are no JSON.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{word} is no JSON")

"""What holds a connection is remembered, so that it is closed."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def closed_later(
    to_close: list[Any], build: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Build something that holds a connection and remember to close it."""
    built = build(*args, **kwargs)
    to_close.append(built)
    return built

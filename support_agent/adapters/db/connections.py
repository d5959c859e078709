"""How an adapter runs statements of its own, beside the transactions of the use cases."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class Connections(Protocol):
    """Runs plain synchronous functions, each in a transaction of its own on a worker thread.

    `fn` returns: committed. `fn` raises: nothing of it is.

    Raises:
        DatabaseUnavailable: no connection, or locked for longer than the time-out.
    """

    def run_read(self, fn: Callable[[Connection], T], *, brief: bool = False) -> Awaitable[T]:
        """Read only; a write inside it fails. `brief` as of `Database.read`."""
        ...

    def run_write(self, fn: Callable[[Connection], T]) -> Awaitable[T]: ...

"""What a transaction has read already, given again while it has written nothing since."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import sqlalchemy as sa

from support_agent.adapters.db.dialect import is_postgres

T = TypeVar("T")


class Seen:
    """Remembers on SQLite only: there a transaction sees one moment and what it wrote itself.

    On PostgreSQL others commit between two statements, and seeing that is a part of the checks.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self._known: dict[Hashable, Any] = {}
        self._at = 0  # how many rows the connection had changed in its life
        self._driver: Any = None
        if not is_postgres(connection):
            self._driver = connection.connection.driver_connection

    def once(self, key: Hashable, read: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 - as `read` takes them
        """What was read under this key, or read it now."""
        if self._driver is None:
            return read(*arguments)
        if (at := self._driver.total_changes) != self._at:
            self._known.clear()
            self._at = at
        if key not in self._known:
            self._known[key] = read(*arguments)
        found: T = self._known[key]
        return found

    def beside(self, write: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401 - as `write` takes them
        """Write what has no part in anything that is remembered."""
        if self._driver is None or self._driver.total_changes != self._at:
            return write(*arguments)
        written = write(*arguments)
        self._at = self._driver.total_changes
        return written

    def forget(self) -> None:
        """After going back to a savepoint, which counts as no change."""
        self._known.clear()

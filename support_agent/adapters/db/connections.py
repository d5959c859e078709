"""How an adapter runs statements of its own: beside the use cases' transactions, or inside one."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from support_agent.adapters.db.prepared import told
from support_agent.adapters.db.transaction import SqlTransaction
from support_agent.ports.storage import Transaction

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


def on_driver(tx: Transaction, work: Callable[[Any], T]) -> T:
    """Hand a library the driver's own connection; what it does there is part of the transaction.

    Raises:
        TypeError: the transaction is not of this database adapter.
        DBAPIError: the driver failed; whoever opened the transaction knows what that means.
    """
    if not isinstance(tx, SqlTransaction):
        raise TypeError(f"a transaction of the SQL database is needed, not {type(tx).__name__!r}")
    connection = tx.connection
    try:
        return work(connection.connection.driver_connection)
    except connection.dialect.loaded_dbapi.Error as error:
        raise told(connection, "", None, error) from error

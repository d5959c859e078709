"""Connections that a thread keeps: in SQLite getting one costs more than a small transaction."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.faults import is_locked
from support_agent.adapters.db.prepared import commit, driven

Begin = Callable[[Engine], AbstractContextManager[Connection]]  # commits; rolls back on an error


class NotBegun(Exception):
    """Somebody else is writing; nothing was done."""


class KeptConnections:
    """One connection a thread and engine, as long as nothing is wrong with it.

    The driver is told to begin by our own words. SQLAlchemy begins something of its own only when a
    statement goes through it, and without a word to the driver; ending that ends ours.
    """

    def __init__(self, words: Mapping[Engine, str], *, impatient: Engine) -> None:
        self._words = words
        self._impatient = impatient  # its lock is not worth waiting for
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: set[Connection] = set()

    @contextmanager
    def begin(self, engine: Engine) -> Iterator[Connection]:
        connection = self._of(engine)
        try:
            self._start(engine, connection)
            yield connection
            if connection.in_transaction():
                connection.commit()
            else:
                commit(connection)
        except BaseException as error:
            self._undo(engine, connection, broken=isinstance(error, DBAPIError))
            raise

    def close(self) -> None:
        """Give all back; no thread may use them any more."""
        for connection in self._all:
            connection.close()
        self._all.clear()

    def _start(self, engine: Engine, connection: Connection) -> None:
        try:
            driven(connection, self._words[engine])
        except DBAPIError as error:
            if engine is self._impatient and is_locked(error):
                raise NotBegun from error
            raise

    def _of(self, engine: Engine) -> Connection:
        mine = self._mine()
        if engine not in mine:
            mine[engine] = engine.connect()
            with self._lock:
                self._all.add(mine[engine])
        return mine[engine]

    def _mine(self) -> dict[Engine, Connection]:
        try:
            mine: dict[Engine, Connection] = self._local.mine
        except AttributeError:
            mine = self._local.mine = {}
        return mine

    def _undo(self, engine: Engine, connection: Connection, *, broken: bool) -> None:
        if broken:  # closing rolls back
            del self._mine()[engine]
            with self._lock:
                self._all.discard(connection)
            connection.close()
        elif connection.in_transaction():
            connection.rollback()
        else:
            connection.connection.rollback()

"""`Database` on SQLAlchemy: plain functions in transactions, on threads of their own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.db.engines import open_engines
from support_agent.adapters.db.faults import parse, understood
from support_agent.adapters.db.schema import broken_references, check_revision
from support_agent.adapters.db.transaction import SqlTransaction
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction

T = TypeVar("T")

_thread = threading.local()  # .inside: this thread has a transaction open, whichever database's


class SqlDatabase:
    """SQLite has one writer thread and `readers` reading ones; PostgreSQL `readers` of either.

    Nothing is opened before the first transaction; a missing SQLite file is not made.
    """

    def __init__(
        self,
        url: str,
        keys: KeyRing,
        *,
        readers: int = 4,
        busy_timeout_s: float = 10,
        now: Callable[[Connection], datetime] = database_now,
    ) -> None:
        self._url = parse(url)
        self._now = now
        self._keys = keys
        self._engines = open_engines(self._url, readers=readers, busy_timeout_s=busy_timeout_s)
        self._writing = ThreadPoolExecutor(self._engines.writer_threads, "database-writer")
        self._reading = ThreadPoolExecutor(self._engines.reader_threads, "database-reader")

    def transact(self, fn: Callable[[Transaction], T], *, durable: bool = True) -> Awaitable[T]:
        _refuse_nesting()
        engine = self._engines.durable if durable else self._engines.relaxed
        return _finished(self._writing, lambda: self._write(engine, fn))

    def read(self, fn: Callable[[Transaction], T]) -> Awaitable[T]:
        _refuse_nesting()
        return _finished(self._reading, lambda: self._read(fn))

    def run_read(self, fn: Callable[[Connection], T]) -> Awaitable[T]:
        """An adapter's own reading; see `Connections`."""
        _refuse_nesting()
        return _finished(self._reading, lambda: self._run(self._engines.reading, fn, reading=True))

    def run_write(self, fn: Callable[[Connection], T]) -> Awaitable[T]:
        """An adapter's own durable writing; see `Connections`."""
        _refuse_nesting()
        return _finished(self._writing, lambda: self._run(self._engines.durable, fn, reading=False))

    def check_schema(self) -> Awaitable[None]:
        """Pass when the database is there and has the schema of this program.

        Raises:
            ConfigurationError: missing, empty, older or newer; the message says what to do.
            DatabaseUnavailable: the server did not answer.
        """
        _refuse_nesting()
        return _finished(
            self._reading, lambda: self._run(self._engines.reading, check_revision, reading=True)
        )

    def broken_references(self) -> Awaitable[tuple[str, ...]]:
        """Tables with rows that point nowhere; empty is good."""
        return self.run_read(broken_references)

    async def aclose(self) -> None:
        await _waited(asyncio.get_running_loop().run_in_executor(None, self._close))

    def _close(self) -> None:
        self._writing.shutdown()
        self._reading.shutdown()
        self._engines.dispose()

    def _write(self, engine: Engine, fn: Callable[[Transaction], T]) -> T:
        def work(connection: Connection) -> T:
            tx = SqlTransaction(connection, self._keys, writable=True, now=self._now)
            result = fn(tx)
            tx.seal()
            return result

        return self._run(engine, work, reading=False)

    def _read(self, fn: Callable[[Transaction], T]) -> T:
        def work(connection: Connection) -> T:
            return fn(SqlTransaction(connection, self._keys, writable=False, now=self._now))

        return self._run(self._engines.reading, work, reading=True)

    def _run(self, engine: Engine, work: Callable[[Connection], T], *, reading: bool) -> T:
        _thread.inside = True
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            meaning = understood(error, self._url, reading=reading)
            if meaning is error:
                raise
            raise meaning from error
        finally:
            _thread.inside = False


def _refuse_nesting() -> None:
    if getattr(_thread, "inside", False):
        raise RuntimeError("a transaction was asked for inside a transaction: they do not nest")


async def _finished(executor: Executor, work: Callable[[], T]) -> T:
    """Hand over with the caller's context (log keys) and wait to the end, whatever happens."""
    loop = asyncio.get_running_loop()
    return await _waited(loop.run_in_executor(executor, copy_context().run, work))


async def _waited(future: asyncio.Future[T]) -> T:
    """The result; a cancellation is held back until there is one, then raised instead of it."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()  # seen, so that the loop does not report it as lost
        raise cancelled
    return future.result()

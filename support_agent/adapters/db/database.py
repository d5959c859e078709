"""`Database` on SQLAlchemy: plain functions in transactions, mostly on threads of their own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.db.engines import Here, open_engines
from support_agent.adapters.db.faults import parse, understood
from support_agent.adapters.db.kept import NotBegun
from support_agent.adapters.db.schema import broken_references, check_revision
from support_agent.adapters.db.scrubbing import scrub
from support_agent.adapters.db.transaction import SqlTransaction
from support_agent.adapters.db.workers import Workers, held_back
from support_agent.domain.signing import KeyRing
from support_agent.ports.storage import Transaction

T = TypeVar("T")

_thread = threading.local()  # .inside: this thread has a transaction open, whichever database's


class SqlDatabase:
    """SQLite has one writer thread and `readers` reading ones; PostgreSQL `readers` of either.

    On SQLite a step row and a brief look run on the caller's own thread, where no lock is waited
    for and no disk.

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
        self._busy_timeout_s = busy_timeout_s
        self._now = now
        self._keys = keys
        self._engines = open_engines(self._url, readers=readers, busy_timeout_s=busy_timeout_s)
        self._begin = self._engines.begin
        self._here_thread: int | None = None
        self._closed = False
        self._writing = Workers(self._engines.writer_threads, "database-writer")
        self._reading = Workers(self._engines.reader_threads, "database-reader")

    def transact(self, fn: Callable[[Transaction], T], *, durable: bool = True) -> Awaitable[T]:
        _refuse_nesting()
        if not durable:
            return self._relaxed(fn)
        return self._writing.run(lambda: self._write(self._engines.durable, fn))

    def read(self, fn: Callable[[Transaction], T], *, brief: bool = False) -> Awaitable[T]:
        def work(connection: Connection) -> T:
            return fn(SqlTransaction(connection, self._keys, writable=False, now=self._now))

        return self.run_read(work, brief=brief)

    def run_read(self, fn: Callable[[Connection], T], *, brief: bool = False) -> Awaitable[T]:
        """An adapter's own reading; see `Connections`."""
        _refuse_nesting()
        return self._look(fn, brief=brief)

    def run_write(self, fn: Callable[[Connection], T]) -> Awaitable[T]:
        """An adapter's own durable writing; see `Connections`."""
        _refuse_nesting()
        return self._writing.run(lambda: self._run(self._engines.durable, fn, reading=False))

    def check_schema(self) -> Awaitable[None]:
        """Pass when the database is there and has the schema of this program.

        Raises:
            ConfigurationError: missing, empty, older or newer; the message says what to do.
            DatabaseUnavailable: the server did not answer.
        """
        _refuse_nesting()
        return self._reading.run(
            lambda: self._run(self._engines.reading, check_revision, reading=True)
        )

    async def scrub(self) -> None:
        """SQLite leaves what was there in pages it reuses later, and in its log."""
        _refuse_nesting()
        if self._url.get_backend_name() == "sqlite":
            await self._writing.run(lambda: scrub(self._url, busy_timeout_s=self._busy_timeout_s))

    def broken_references(self) -> Awaitable[tuple[str, ...]]:
        """Tables with rows that point nowhere; empty is good."""
        return self.run_read(broken_references)

    async def aclose(self) -> None:
        self._closed = True
        await held_back(asyncio.get_running_loop().run_in_executor(None, self._close))

    def _close(self) -> None:
        self._writing.close()
        self._reading.close()
        self._engines.dispose()

    async def _relaxed(self, fn: Callable[[Transaction], T]) -> T:
        """On this thread if nobody else writes: it takes a tenth of what handing it over does."""
        here = self._here()
        if here is not None and self._writing.is_idle:
            with suppress(NotBegun):
                return self._write(here.writing, fn)
        return await self._writing.run(lambda: self._write(self._engines.relaxed, fn))

    async def _look(self, fn: Callable[[Connection], T], *, brief: bool) -> T:
        here = self._here() if brief else None
        if here is not None:
            return self._run(here.reading, fn, reading=True)
        return await self._reading.run(lambda: self._run(self._engines.reading, fn, reading=True))

    def _here(self) -> Here | None:
        """Connections of this thread; only the first one that asks has some."""
        if self._closed or self._engines.here is None:
            return None
        if self._here_thread is None:
            self._here_thread = threading.get_ident()
        return self._engines.here if self._here_thread == threading.get_ident() else None

    def _write(self, engine: Engine, fn: Callable[[Transaction], T]) -> T:
        def work(connection: Connection) -> T:
            tx = SqlTransaction(connection, self._keys, writable=True, now=self._now)
            result = fn(tx)
            tx.seal()
            return result

        return self._run(engine, work, reading=False)

    def _run(self, engine: Engine, work: Callable[[Connection], T], *, reading: bool) -> T:
        _thread.inside = True
        try:
            with self._begin(engine) as connection:
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

"""Connections to the shop's own database: they can only read, and nothing waits for good."""

import asyncio
import os
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from support_agent.adapters.db.faults import parse
from support_agent.adapters.db.prepared import driven
from support_agent.adapters.db.workers import Workers, held_back
from support_agent.domain.errors import ConfigurationError

T = TypeVar("T")
SETTING = "SUPPORT_AGENT_ORDERS__URL"
CONNECTIONS = 4

_thread = threading.local()  # .piece: what this thread is at


class Late(Exception):
    """The whole of a piece of work took longer than it may."""


class ForeignDatabase:
    """Runs plain functions in transactions that read one state, each on a thread of its own.

    Nothing is connected before the first one.
    """

    def __init__(self, url: str, *, timeout_s: float, size: int = CONNECTIONS) -> None:
        self.url = _parsed(url)
        self._timeout_s = timeout_s
        self._workers = Workers(size, "shop-orders")
        self._engine = _engine(self.url, timeout_s=timeout_s, size=size)

    @property
    def is_sqlite(self) -> bool:
        return self.url.get_backend_name() == "sqlite"

    async def run(self, fn: Callable[[sa.Connection], T]) -> T:
        """What `fn` returns.

        Raises:
            Late: waiting, connecting and reading together took longer than the time-out.
            DBAPIError: as the driver told.
        """
        piece = _Piece()
        timer = asyncio.get_running_loop().call_later(self._timeout_s, piece.stop)
        try:
            return await self._workers.run(lambda: self._work(fn, piece))
        finally:
            timer.cancel()

    async def aclose(self) -> None:
        await held_back(asyncio.get_running_loop().run_in_executor(None, self._close))

    def _close(self) -> None:
        self._workers.close()
        self._engine.dispose()

    def _work(self, fn: Callable[[sa.Connection], T], piece: "_Piece") -> T:
        _thread.piece = piece
        try:
            return self._answered(fn, piece)
        except (DBAPIError, PoolTimeout) as error:
            if piece.late or isinstance(error, PoolTimeout):
                raise Late from error
            raise
        finally:
            _thread.piece = None

    def _answered(self, fn: Callable[[sa.Connection], T], piece: "_Piece") -> T:
        """Once more when the connection had been closed while nobody used it: it only reads.

        A ping before each use would not be broken off with the piece.
        """
        try:
            return self._once(fn, piece)
        except DBAPIError as error:
            if piece.late or not error.connection_invalidated:
                raise
        return self._once(fn, piece)

    def _once(self, fn: Callable[[sa.Connection], T], piece: "_Piece") -> T:
        piece.check()  # one that nobody waits for any more connects to nothing
        with self._engine.connect() as connection:
            try:
                piece.begin(connection.connection.driver_connection)
                with connection.begin():  # its end waits for the server, too
                    return fn(connection)
            finally:
                piece.end()
                if piece.late:  # its socket is shut, or its statement was broken off
                    connection.invalidate()


class _Piece:
    """One piece of work, which its deadline breaks off from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._driver: Any = None
        self.late = False

    def check(self) -> None:
        if self.late:
            raise Late

    def begin(self, driver: object) -> None:
        with self._lock:
            self.check()
            self._driver = driver

    def end(self) -> None:
        with self._lock:
            self._driver = None

    def stop(self) -> None:
        with self._lock:
            self.late = True
            if self._driver is not None:
                _break_off(self._driver)


def _break_off(driver: Any) -> None:  # noqa: ANN401 - either driver's
    """Wake a thread that waits in the driver, also for a server that stands still."""
    if isinstance(driver, sqlite3.Connection):
        driver.interrupt()
        return
    with socket.socket(fileno=os.dup(driver.fileno())) as double:
        double.shutdown(socket.SHUT_RDWR)


def _parsed(url: str) -> URL:
    try:
        return parse(url)
    except ConfigurationError as error:
        raise ConfigurationError(
            "is not an address this program knows; write sqlite:///path/to/shop.db for a file, or "
            "postgresql://reader:password@host/database",
            setting=SETTING,
        ) from error


def _engine(url: URL, *, timeout_s: float, size: int) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, timeout_s=timeout_s, size=size)
    return _postgres(url, timeout_s=timeout_s, size=size)


def _postgres(url: URL, *, timeout_s: float, size: int) -> sa.Engine:
    try:
        engine = sa.create_engine(
            url,
            isolation_level="REPEATABLE READ",
            pool_size=size,
            max_overflow=0,
            pool_timeout=timeout_s,
            hide_parameters=True,  # an error's text goes into logs
            connect_args={
                "connect_timeout": max(2, round(timeout_s)),
                "client_encoding": "utf8",  # so that an id it cannot hold is the server's to refuse
                "application_name": "support-agent orders",
            },
        )
    except ImportError as error:
        raise ConfigurationError(
            'PostgreSQL needs its driver; install "support-agent[postgres]"', setting=SETTING
        ) from error
    milliseconds = max(1, round(timeout_s * 1000))
    words = (
        "SET default_transaction_read_only TO on; SET TimeZone TO 'UTC'; "
        f"SET statement_timeout TO {milliseconds}; SET lock_timeout TO {milliseconds}; "
        f"SET idle_in_transaction_session_timeout TO {milliseconds}"
    )

    @sa.event.listens_for(engine, "connect")
    def _settings(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's own
        piece: _Piece | None = getattr(_thread, "piece", None)
        if piece is not None:
            piece.begin(connection)
        _read_odd_dates_as_text(connection)
        with connection.cursor() as cursor:
            cursor.execute(words)
        connection.commit()

    return engine.execution_options(postgresql_readonly=True)


def _read_odd_dates_as_text(connection: Any) -> None:  # noqa: ANN401 - the driver's own
    """`infinity` and years that Python has not: the fault of one order, not of the whole answer."""
    from psycopg import DataError
    from psycopg.types import datetime as dates

    def forgiving(loader: Any) -> Any:  # noqa: ANN401 - a class of the driver's
        class Forgiving(loader):  # type: ignore[misc]
            def load(self, data: Any) -> Any:  # noqa: ANN401
                try:
                    return super().load(data)
                except DataError:
                    return bytes(data).decode("ascii", "replace")

        return Forgiving

    for name, loader in (
        ("date", dates.DateLoader),
        ("timestamp", dates.TimestampLoader),
        ("timestamptz", dates.TimestamptzLoader),
    ):
        connection.adapters.register_loader(name, forgiving(loader))


def _sqlite(url: URL, *, timeout_s: float, size: int) -> sa.Engine:
    address = f"file:{quote(str(Path(url.database or '').absolute()))}?mode=ro"

    def connect() -> DBAPIConnection:
        connection = sqlite3.connect(
            address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False
        )
        for pragma in ("query_only=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        return cast("DBAPIConnection", connection)

    pool = QueuePool(connect, pool_size=size, max_overflow=0, timeout=timeout_s)
    engine = sa.create_engine("sqlite://", pool=pool, hide_parameters=True)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        driven(connection, "BEGIN")

    @sa.event.listens_for(engine, "before_cursor_execute")
    def _in_time(*_: object) -> None:
        """An interrupt between two statements is lost: the second one would have no end."""
        piece: _Piece | None = getattr(_thread, "piece", None)
        if piece is not None:
            piece.check()

    return engine

"""Connections: how each of the two databases is opened for writing and for reading."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import NullPool, Pool, QueuePool

from support_agent.adapters.db.faults import SETTING
from support_agent.adapters.db.kept import Begin, KeptConnections
from support_agent.adapters.db.prepared import driven
from support_agent.domain.errors import ConfigurationError

_STATEMENTS = 512  # kept ready by each connection; a refund's whole life has some 150
_SHORTEST_STAND_MS = 1_000  # between two statements; a busy machine may take a part of that
OLDEST_SQLITE = (3, 35)  # the first with RETURNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Connections for what is so short that handing it to a thread would cost more."""

    writing: Engine  # waits for no other writer, and leaves checkpoints to the others
    reading: Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """One engine per kind of transaction, as many connections as threads."""

    durable: Engine
    relaxed: Engine  # a power cut may lose the last commits, never tear one
    reading: Engine
    writer_threads: int
    reader_threads: int
    kept: KeptConnections | None  # where a thread keeps its own; None: one from the pool each time
    here: "Here | None"  # None: nothing runs on the caller's thread

    @property
    def begin(self) -> Begin:
        return Engine.begin if self.kept is None else self.kept.begin

    def dispose(self) -> None:
        if self.kept is not None:
            self.kept.close()
        here = (self.here.writing, self.here.reading) if self.here else ()
        for engine in (self.durable, self.relaxed, self.reading, *here):
            engine.dispose()


def open_engines(url: URL, *, readers: int, busy_timeout_s: float) -> Engines:
    """Connects nothing yet."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, readers=readers, busy_timeout_s=busy_timeout_s)
    return _postgres(url, readers=readers, busy_timeout_s=busy_timeout_s)


def _sqlite(url: URL, *, readers: int, busy_timeout_s: float) -> Engines:
    """One writer thread with two connections, because `synchronous` is set outside transactions.

    The caller's own thread has two more.
    """
    durable, relaxed, reading = (
        sqlite_engine(url, pragmas=(pragma,), begin=None, busy_timeout_s=busy_timeout_s, size=size)
        for pragma, size in (
            ("synchronous=FULL", 1),
            ("synchronous=NORMAL", 1),
            ("query_only=ON", readers),
        )
    )
    here = Here(
        writing=sqlite_engine(
            url,
            pragmas=("synchronous=NORMAL", "wal_autocheckpoint=0"),
            begin=None,
            busy_timeout_s=0,
        ),
        reading=sqlite_engine(
            url, pragmas=("query_only=ON",), begin=None, busy_timeout_s=busy_timeout_s
        ),
    )
    writing = dict.fromkeys((durable, relaxed, here.writing), "BEGIN IMMEDIATE")
    return Engines(
        durable=durable,
        relaxed=relaxed,
        reading=reading,
        writer_threads=1,
        reader_threads=readers,
        kept=KeptConnections(
            {**writing, reading: "BEGIN", here.reading: "BEGIN"}, impatient=here.writing
        ),
        here=here,
    )


def sqlite_engine(
    url: URL,
    *,
    begin: str | None,
    busy_timeout_s: float,
    pragmas: tuple[str, ...] = (),
    size: int = 0,
    create: bool = False,
) -> Engine:
    """Connections to one file; a missing file is made only when `create` says so.

    Without `begin` whoever uses them begins transactions by words of their own.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise ConfigurationError(
            f"this Python brings SQLite {sqlite3.sqlite_version}; 3.35 or newer is needed",
            setting=SETTING,
        )
    path = quote(str(Path(url.database or "").absolute()))
    address = f"file:{path}?mode={'rwc' if create else 'rw'}"

    def connect() -> DBAPIConnection:
        # Autocommit, so that only our BEGIN below opens a transaction.
        connection = sqlite3.connect(
            address,
            uri=True,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        for pragma in ("foreign_keys=ON", "recursive_triggers=ON", *pragmas):
            connection.execute(f"PRAGMA {pragma}")
        return cast("DBAPIConnection", connection)

    pool: Pool = QueuePool(connect, pool_size=size, max_overflow=0) if size else NullPool(connect)
    # An error's text goes into logs; what the statement wrote may be a customer's words.
    engine = create_engine("sqlite://", pool=pool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if begin is not None:
            driven(connection, begin)

    return engine


def _postgres(url: URL, *, readers: int, busy_timeout_s: float) -> Engines:
    """A pool a kind: what makes the kind is said once a connection and not in each transaction."""
    # A process that stands still in the middle of a transaction has locks that all others wait
    # for, the audit head's for one: it loses them before anybody has waited for too long.
    patience_ms = max(_SHORTEST_STAND_MS, round(busy_timeout_s * 1000 / 2))
    letting_go = {"idle_in_transaction_session_timeout": str(patience_ms)}
    durable = postgres_engine(url, busy_timeout_s=busy_timeout_s, size=readers, settings=letting_go)
    relaxed = postgres_engine(
        url,
        busy_timeout_s=busy_timeout_s,
        size=readers,
        settings={**letting_go, "synchronous_commit": "off"},
    )
    reading = postgres_engine(url, busy_timeout_s=busy_timeout_s, size=readers)
    return Engines(
        durable=durable,
        relaxed=relaxed,
        reading=reading.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ),
        writer_threads=readers,
        reader_threads=readers,
        kept=None,
        here=None,
    )


def postgres_engine(
    url: URL, *, busy_timeout_s: float, size: int, settings: Mapping[str, str] | None = None
) -> Engine:
    """Connections to a server; a lock that is waited for longer than the time-out is an error.

    `settings` are the server's, of each connection.
    """
    try:
        engine = create_engine(
            url,
            isolation_level="READ COMMITTED",
            pool_size=size,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,  # as above
            connect_args={"connect_timeout": max(2, round(busy_timeout_s))},
        )
    except ImportError as error:
        raise ConfigurationError(
            'PostgreSQL needs its driver; install "support-agent[postgres]"', setting=SETTING
        ) from error
    wait_ms = max(1, round(busy_timeout_s * 1000))
    chosen = {"lock_timeout": str(wait_ms), **(settings or {})}
    words = "; ".join(f"SET {name} TO {value}" for name, value in chosen.items())

    @event.listens_for(engine, "connect")
    def _settings(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        cursor.execute(words)
        cursor.close()
        connection.commit()

    return engine

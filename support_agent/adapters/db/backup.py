"""`db backup`: a consistent copy of a SQLite file while others write; for a server, the command."""

import contextlib
import errno
import os
import secrets
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.faults import SETTING, parse, understood
from support_agent.adapters.db.schema import KNOWN_REVISIONS, check_revision, current_revision
from support_agent.domain.audit import AuditHead
from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable, InvalidInput

FILE = "file"
# Of a stick or a network share, where a file has one name.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp:
    """A copy that was looked through; `head` is the newest event of the history in it."""

    file: Path
    size_bytes: int
    revision: str
    kind: str  # demo or live
    head: AuditHead


def back_up(url: str, file: Path, *, busy_timeout_s: float) -> BackedUp:
    """Copy the database into a new file that only this user may read.

    The copy is one moment of the database; writers wait for nothing. The file appears under its
    name when it is whole, checked and on the disk. A schema older than ours is copied as it is:
    that copy is what an upgrade may have to go back to.

    Raises:
        InvalidInput: there is such a file already, or it cannot be written.
        ConfigurationError: a server, which has a tool of its own; no database, not ours, damaged.
        DatabaseUnavailable: the database did not answer.
    """
    address = parse(url)
    if address.get_backend_name() != "sqlite":
        raise ConfigurationError(
            f"a PostgreSQL server is backed up by its own tool; run: {dump_command(address, file)}",
            setting=SETTING,
        )
    if os.path.lexists(file):
        raise _taken(file)
    with _beside(file) as unfinished:
        _copy(address, unfinished, busy_timeout_s=busy_timeout_s)
        found = _looked_through(unfinished, file)
        _publish(unfinished, file)
    return found


def dump_command(address: URL, file: Path) -> str:
    """What to run for a server. The password is left out: pg_dump asks, or reads PGPASSWORD."""
    plain = URL.create(
        "postgresql",
        username=address.username,
        host=address.host,
        port=address.port,
        database=address.database,
    )
    target = plain.render_as_string()
    return shlex.join(["pg_dump", "--format=custom", f"--file={file}", f"--dbname={target}"])


def _taken(file: Path) -> InvalidInput:
    return InvalidInput(FILE, f"{str(file)!r} is there already and is not overwritten")


@contextlib.contextmanager
def _beside(file: Path) -> Iterator[Path]:
    """An empty file in the same folder, gone at the end with what SQLite kept beside it."""
    unfinished = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        problem = f"{str(file)!r} cannot be made ({error.strerror}); name a folder you may write to"
        raise InvalidInput(FILE, problem) from error
    try:
        yield unfinished
    finally:
        for left in (unfinished, *(Path(f"{unfinished}{end}") for end in ("-wal", "-shm"))):
            with contextlib.suppress(OSError):
                left.unlink()


def _copy(address: URL, unfinished: Path, *, busy_timeout_s: float) -> None:
    engine = sqlite_engine(address, begin="BEGIN", busy_timeout_s=busy_timeout_s)
    try:
        with engine.connect() as connection, connection.begin():
            if current_revision(connection) not in KNOWN_REVISIONS:
                check_revision(connection)  # says what is wrong with it
            source = connection.connection.driver_connection
            if not isinstance(source, sqlite3.Connection):
                raise TypeError(f"no connection of SQLite's: {source!r}")
            _pages(source, unfinished)
    except DBAPIError as error:
        meaning = understood(error, address, reading=True)
        if meaning is error:
            raise
        raise meaning from error
    finally:
        engine.dispose()


def _pages(source: sqlite3.Connection, unfinished: Path) -> None:
    """All pages in one go, as the transaction sees them: in steps a busy shop would never end."""
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as target:
        try:
            source.backup(target)
        except sqlite3.Error as error:
            raise DatabaseUnavailable(
                f"the copy broke off ({error}); look for room on the disk and try again"
            ) from error


def _looked_through(unfinished: Path, file: Path) -> BackedUp:
    """What is in the copy, from the copy itself.

    Raises:
        ConfigurationError: it is damaged, and so is the database.
    """
    address = f"file:{quote(str(unfinished.absolute()))}?mode=ro&immutable=1"
    engine = sa.create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True))
    try:
        with engine.connect() as copy:
            _check_whole(copy)
            seq, mac = copy.exec_driver_sql("SELECT seq, mac FROM audit_head").one()
            return BackedUp(
                file=file,
                size_bytes=unfinished.stat().st_size,
                revision=current_revision(copy) or "",
                kind=copy.exec_driver_sql("SELECT kind FROM installation").scalar_one(),
                head=AuditHead(seq=seq, mac=mac),
            )
    except DBAPIError as error:
        raise _damaged(str(error.orig)) from error
    finally:
        engine.dispose()


def _check_whole(copy: sa.Connection) -> None:
    problems = list(copy.exec_driver_sql("PRAGMA integrity_check(3)").scalars())
    if problems != ["ok"]:
        raise _damaged("; ".join(problems))
    broken = {str(row[0]) for row in copy.exec_driver_sql("PRAGMA foreign_key_check").all()}
    if broken:
        raise _damaged(f"rows of {sorted(broken)} point nowhere")


def _damaged(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the database is damaged ({problem}), no copy was kept; restore an older one",
        setting=SETTING,
    )


def _publish(unfinished: Path, file: Path) -> None:
    """Give it its name, which no other process may have taken meanwhile, and let both last."""
    try:
        _flush(unfinished)
        _name(unfinished, file)
        _flush(file.parent)
    except FileExistsError as error:
        raise _taken(file) from error
    except OSError as error:
        raise InvalidInput(FILE, f"{str(file)!r} cannot be made ({error.strerror})") from error


def _name(unfinished: Path, file: Path) -> None:
    try:
        os.link(unfinished, file)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        unfinished.replace(file)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""What a driver's error means to the one who called: unavailable, misconfigured, or a bug."""

import sqlite3
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from support_agent.domain.errors import ConfigurationError, DatabaseUnavailable

SETTING = "SUPPORT_AGENT_DATABASE__URL"
UPGRADE = "run `support-agent db upgrade`"

_TRY_AGAIN = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
)
_BAD_FILES = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a backup",
}
# Classes of SQLSTATE (PostgreSQL manual, appendix A): connection, roll-back, resources, operator;
# 25P03 is what a process finds that stood still in the middle of a transaction.
_TRY_AGAIN_STATES = ("08", "25P03", "40", "53", "55P03", "57", "58")
_READ_ONLY = "25006"
_NO_RIGHT = "42501"
_RIGHTS_BY = f"{UPGRADE} with SUPPORT_AGENT_DATABASE__MIGRATE_URL, the role that owns the tables"
_MISCONFIGURED_STATES = ("28", "3D", _NO_RIGHT)
_MISCONFIGURED_WORDS = ("does not exist", "authentication failed", "no password supplied")


def parse(url: str) -> URL:
    """The database's address.

    Raises:
        ConfigurationError: not an address of a SQLite file or a PostgreSQL database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise wrong_address() from error
    if parsed.get_backend_name() == "sqlite" and _names_a_file(parsed):
        return parsed
    if parsed.get_backend_name() in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise wrong_address()


def _names_a_file(url: URL) -> bool:
    """A database in memory would be another one for each connection."""
    return url.database not in {None, "", ":memory:"} and not url.host and not url.query


def wrong_address() -> ConfigurationError:
    """Without the address itself: it may hold a password."""
    return ConfigurationError(
        "is not an address this program knows; write sqlite:///var/support_agent.db for a file, "
        "or postgresql://user:password@host/database",
        setting=SETTING,
    )


def is_locked(error: DBAPIError) -> bool:
    """Whether another connection of the SQLite file is writing."""
    return _primary_code(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_disk_fault(error: DBAPIError) -> bool:
    """Whether the disk under the SQLite file is full, or broken."""
    return _primary_code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def _primary_code(error: DBAPIError) -> int:
    code: int = getattr(error.orig, "sqlite_errorcode", 0)
    return code & 0xFF


def understood(error: DBAPIError, url: URL, *, reading: bool, making: bool = False) -> Exception:
    """Our error for what the driver raised; the driver's own when it is a mistake in our SQL.

    `reading`: the transaction was not to write. `making`: a missing file was to be made.
    """
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        return _of_sqlite(cause, url, reading=reading, making=making) or error
    return _of_postgres(error, url, reading=reading) or error


def _of_sqlite(cause: sqlite3.Error, url: URL, *, reading: bool, making: bool) -> Exception | None:
    extended = getattr(cause, "sqlite_errorcode", 0)
    code = extended & 0xFF
    path = str(url.database)
    if code in _TRY_AGAIN:
        return DatabaseUnavailable(f"the database {path!r} did not answer ({cause}); try again")
    if code == sqlite3.SQLITE_CANTOPEN:
        return _cannot_open(path, making=making)
    if code in _BAD_FILES:
        return ConfigurationError(f"{path!r} {_BAD_FILES[code]}", setting=SETTING)
    # The plain code while reading is our own writing under `query_only`: a bug. The extended ones
    # come from the file system, for reading needs to write files beside the database.
    our_bug = reading and extended == sqlite3.SQLITE_READONLY
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM} and not our_bug:
        return _cannot_write(path)
    if "no such table" in str(cause):
        return not_upgraded(url)
    return None


def _cannot_write(path: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path!r} cannot be written by this user; make the file and its folder writable (files "
        "are kept beside it, even for reading), or name another file",
        setting=SETTING,
    )


def _cannot_open(path: str, *, making: bool) -> ConfigurationError:
    if making and not Path(path).exists():
        return ConfigurationError(
            f"{path!r} cannot be made: its folder cannot be written by this user; change the "
            "rights on the folder, or name another path",
            setting=SETTING,
        )
    if Path(path).is_file():
        return ConfigurationError(
            f"{path!r} cannot be opened; check the rights on it and on its folder", setting=SETTING
        )
    if Path(path).exists():
        return ConfigurationError(f"{path!r} is not a file; name one", setting=SETTING)
    return ConfigurationError(f"there is no database at {path!r}; {UPGRADE}", setting=SETTING)


def _of_postgres(error: DBAPIError, url: URL, *, reading: bool) -> Exception | None:
    state: str | None = getattr(error.orig, "sqlstate", None)
    words = str(error.orig).strip()
    if state == "42P01":  # undefined_table
        return not_upgraded(url)
    if state == _NO_RIGHT:
        words += f"; {_RIGHTS_BY}"
    not_ours = state == _READ_ONLY and not reading  # a stand-by server, or a user who only reads
    if not_ours or (state and state.startswith(_MISCONFIGURED_STATES)):
        return ConfigurationError(f"the server refuses: {words}", setting=SETTING)
    if state and state.startswith(_TRY_AGAIN_STATES):
        return DatabaseUnavailable(f"the database did not answer ({words}); try again")
    if state is None and type(error.orig).__name__ == "OperationalError":  # while connecting
        if any(known in words for known in _MISCONFIGURED_WORDS):
            return ConfigurationError(f"the server refuses: {words}", setting=SETTING)
        return DatabaseUnavailable(f"cannot reach the database of {SETTING}: {words}")
    return None


def not_upgraded(url: URL) -> ConfigurationError:
    """The database is there, its tables are not."""
    name = url.database or ""
    return ConfigurationError(
        f"the database {name!r} has no tables yet; {UPGRADE}", setting=SETTING
    )

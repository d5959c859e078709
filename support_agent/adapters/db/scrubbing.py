"""Taking what was erased out of a SQLite database's files."""

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.db.engines import sqlite_engine
from support_agent.adapters.db.faults import is_disk_fault, is_locked
from support_agent.domain.errors import StillInFile


def scrub(url: URL, *, busy_timeout_s: float) -> None:
    """Make the file anew without its free pages, and the log empty.

    A process that reads an older state keeps the log until it is done: it must not be waited for
    in silence, so that is an error. `-shm` holds numbers of pages and nothing of what is in them.

    Raises:
        StillInFile: somebody else reads or writes, or there is no room for the new file.
    """
    engine = sqlite_engine(url, begin=None, busy_timeout_s=busy_timeout_s)
    try:
        with engine.connect() as connection:
            _make_anew(connection)
    except DBAPIError as error:
        if is_locked(error):
            raise StillInFile from error
        if is_disk_fault(error):
            raise StillInFile(in_use=False) from error
        raise
    finally:
        engine.dispose()


def _make_anew(connection: Connection) -> None:
    connection.exec_driver_sql("VACUUM")
    busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    if busy:
        raise StillInFile

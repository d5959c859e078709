"""What a fault of the shop's database means: away for now, or set up wrongly."""

import sqlite3
from pathlib import Path

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from support_agent.adapters.orders.mapped.connecting import SETTING
from support_agent.domain.errors import ConfigurationError, OrdersUnavailable

MAP = "SUPPORT_AGENT_ORDERS__MAP"

# SQLSTATE (PostgreSQL manual, appendix A): who we are, which database, what is in it.
_SET_UP = ("28", "3D", "3F", "42")
_SET_UP_WORDS = ("does not exist", "authentication failed", "no password supplied")
_BAD_FILES = {
    sqlite3.SQLITE_NOTADB: "is not a SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "is damaged",
}


def is_set_up_wrongly(error: DBAPIError) -> bool:
    """Whether it stays so until somebody changes a setting, a right or a table."""
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        words = str(cause)
        gone = "no such table" in words or "no such column" in words
        return code in {sqlite3.SQLITE_CANTOPEN, *_BAD_FILES} or gone
    state: str | None = getattr(cause, "sqlstate", None)
    if state is not None:
        return state.startswith(_SET_UP)
    return any(words in str(cause) for words in _SET_UP_WORDS)


def set_up_wrongly(error: DBAPIError, url: URL) -> ConfigurationError:
    """In words for who set it up; the address may hold a password and is left out."""
    cause = error.orig
    if not isinstance(cause, sqlite3.Error):
        words = " ".join(str(cause).split())
        return ConfigurationError(f"the server refuses: {words}", setting=SETTING)
    path = str(url.database)
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _BAD_FILES:
        return ConfigurationError(f"{path!r} {_BAD_FILES[code]}", setting=SETTING)
    if code == sqlite3.SQLITE_CANTOPEN:
        there = Path(path).is_file()
        why = "cannot be opened; check the rights on it and its folder" if there else "is no file"
        return ConfigurationError(f"{path!r} {why}", setting=SETTING)
    return ConfigurationError(f"{path!r}: {cause}", setting=SETTING)


def is_about_the_value(error: DBAPIError) -> bool:
    """Whether what was looked for is nothing its column could hold, so that no row has it."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    return state is not None and state.startswith("22")


def not_computed(error: DBAPIError) -> ConfigurationError:
    """In words for who wrote the map: a row cannot be read by it."""
    words = " ".join(str(error.orig).split())
    return ConfigurationError(
        f"the database cannot work out what the map asks for: {words}; look at the views, and "
        "whether each order_id holds what orders.columns.id does",
        setting=MAP,
    )


def unavailable(why: str) -> OrdersUnavailable:
    """As the port has it. What a driver says names hosts and files, so it goes to the log only."""
    return OrdersUnavailable(f"the shop's orders cannot be read: {why}")

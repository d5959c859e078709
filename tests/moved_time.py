"""A database whose clock a test moves, together with the machine's or apart from it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.dialect import database_now
from support_agent.adapters.keys import load_keys
from tests.heart import open_shop_with
from tests.kit import Shop, settings_for


class MovedTime:
    """How far the database's clock, and the machine's, are ahead of the real ones."""

    def __init__(self) -> None:
        self.database = timedelta()
        self.machine = timedelta()

    def advance(self, by: timedelta) -> None:
        self.database += by
        self.machine += by

    def of_database(self, connection: Connection) -> datetime:
        return database_now(connection) + self.database

    def of_machine(self) -> datetime:
        return datetime.now(UTC) + self.machine


@asynccontextmanager
async def open_shop_in(
    time: MovedTime, url: str, *, overrides: dict[str, Any] | None = None, **sections: Any
) -> AsyncIterator[Shop]:
    """The sample shop in that time."""
    configured = settings_for(url).security.keys
    keys = load_keys(configured=configured, database_url=url)
    database = SqlDatabase(url, keys, now=time.of_database)
    parts = {"database": database, "wall_clock": time.of_machine, **(overrides or {})}
    try:
        async with open_shop_with(url, overrides=parts, **sections) as shop:
            yield shop
    finally:
        await database.aclose()

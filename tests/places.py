"""Places for databases of either kind, made once and copied as often as a module needs them."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from support_agent.adapters.db.migrations import upgrade
from support_agent.testing.postgres import drop_database, fresh_database
from tests.kit import seed


class Places:
    """`server` is a PostgreSQL server's address; None: SQLite files in `folder`."""

    def __init__(self, folder: Path, server: str | None) -> None:
        self.folder = folder
        self._server = server
        self._made: list[str] = []
        self._numbers = count()

    def empty(self) -> str:
        """The address of a database without tables."""
        return self._new(None)

    def copy(self, template: str) -> str:
        """A private copy of a database that nobody has open."""
        return self._new(template)

    def shop(self) -> str:
        """The sample shop."""
        url = self.empty()
        upgrade(url, live=False)
        asyncio.run(seed(url))
        return url

    def drop(self, *urls: str) -> None:
        for url in urls:
            self._made.remove(url)
            if self._server is not None:
                drop_database(url)

    def close(self) -> None:
        self.drop(*self._made)

    def _new(self, template: str | None) -> str:
        if self._server is not None:
            url = fresh_database(self._server, template=template)
        else:
            path = self.folder / f"{next(self._numbers)}.db"
            url = f"sqlite:///{path}"
            if template is not None:
                shutil.copy(template.removeprefix("sqlite:///"), path)
        self._made.append(url)
        return url


@contextmanager
def places_in(folder: Path, server: str | None) -> Iterator[Places]:
    places = Places(folder, server)
    try:
        yield places
    finally:
        places.close()

"""Databases for the tests: each gets its own, copied from one that was migrated once."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support_agent.adapters.db.database import SqlDatabase
from support_agent.adapters.db.migrations import upgrade
from support_agent.adapters.queue.procrastinate_schema import upgrade_queue
from support_agent.domain.signing import KeyRing
from support_agent.testing.postgres import (
    PostgresMissing,
    drop_database,
    fresh_database,
    postgres_server,
)
from tests.kit import Shop, open_shop, seed
from tests.places import Places, places_in


@pytest.fixture
def keys() -> KeyRing:
    return KeyRing(keys=(("k1", b"a secret of thirty-two characters"),))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a running server."""
    try:
        with postgres_server() as url:
            yield url
    except PostgresMissing as missing:
        pytest.skip(f"no PostgreSQL: {missing}")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "shop.db"
    upgrade(f"sqlite:///{path}", live=False)
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres: str) -> str:
    url = fresh_database(postgres)
    upgrade(url, live=False)
    return url


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated demo database in a file."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'shop.db')}"


@pytest.fixture
def postgres_url(postgres: str, postgres_template: str) -> Iterator[str]:
    """A migrated demo database on the server."""
    url = fresh_database(postgres, template=postgres_template)
    yield url
    drop_database(url)


@pytest.fixture(scope="session")
def queue_template(postgres: str) -> str:
    """The seeded sample shop on the server, with the tables of the queue."""
    url = fresh_database(postgres)
    upgrade(url, live=False)
    upgrade_queue(url)
    asyncio.run(seed(url))
    return url


@pytest.fixture
def queue_url(postgres: str, queue_template: str) -> Iterator[str]:
    url = fresh_database(postgres, template=queue_template)
    yield url
    drop_database(url)


@pytest.fixture
def empty_postgres_url(postgres: str) -> Iterator[str]:
    """A database without tables on the server."""
    url = fresh_database(postgres)
    yield url
    drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated demo database, of either kind in turn."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a database may be made: a file that is not there, or an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fresh.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
async def database(database_url: str, keys: KeyRing) -> AsyncIterator[SqlDatabase]:
    opened = SqlDatabase(database_url, keys)
    yield opened
    await opened.aclose()


@pytest.fixture(scope="session")
def postgres_shop_template(postgres: str, postgres_template: str) -> str:
    """The seeded sample shop on the server."""
    url = fresh_database(postgres, template=postgres_template)
    asyncio.run(seed(url))
    return url


@pytest.fixture
def postgres_shop_url(postgres: str, postgres_shop_template: str) -> Iterator[str]:
    url = fresh_database(postgres, template=postgres_shop_template)
    yield url
    drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def each_shop_url(request: pytest.FixtureRequest) -> str:
    """The seeded sample shop, of either kind in turn."""
    name = "shop_url" if request.param == "sqlite" else "postgres_shop_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture
async def shop_on_each(each_shop_url: str) -> AsyncIterator[Shop]:
    """The seeded sample shop, open, on either database in turn."""
    async with open_shop(each_shop_url) as opened:
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Places]:
    """Where whole databases are made and copied, of either kind in turn."""
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    with places_in(tmp_path_factory.mktemp("places"), server) as opened:
        yield opened

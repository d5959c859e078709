"""Fixtures for every test: the seeded sample shop, made once a session and copied per test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from support_agent.testing.stripe_mock import StripeMockMissing, stripe_mock
from tests.kit import Shop, copy_database, make_database, open_shop, seed

# In CI the same examples every time, so that a red build is red again; elsewhere new ones.
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting or key of the developer's own shell reaches a test."""
    for name in list(os.environ):
        ours = name.startswith("SUPPORT_AGENT_") and not name.startswith("SUPPORT_AGENT_TEST_")
        if ours or name.startswith(("OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def plain_logging() -> Iterator[None]:
    """A command sets logging up for the stderr of its test, which is closed when that is over.

    Before it as well: what a module's fixtures open and close is set up between its tests.
    """
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A seeded database file, closed, to be copied and never opened."""
    path = tmp_path_factory.mktemp("template") / "shop.db"
    url = make_database(path)
    asyncio.run(seed(url))
    return path


@pytest.fixture
def shop_url(template: Path, tmp_path: Path) -> str:
    """A private copy of the seeded sample shop."""
    return copy_database(template, tmp_path / "shop.db")


@pytest.fixture
async def shop(shop_url: str) -> AsyncIterator[Shop]:
    """The sample shop on 2026-10-13, nine in the morning in Vietnam, with a scripted model."""
    async with open_shop(shop_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def stripe_mock_port() -> Iterator[int]:
    """stripe-stateful-mock, started once; without node its tests are skipped, but not in CI."""
    try:
        with stripe_mock(Path(__file__).parents[1]) as port:
            yield port
    except StripeMockMissing as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))

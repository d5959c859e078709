"""The API does what its description says, tried by schemathesis over real sockets.

Configured by schemathesis.toml, where each thing that is left out has its reason.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support_agent.domain.access import Scope
from tests.api_kit import opened_api
from tests.kit import copy_database
from tests.matrix_kit import OWN, World, made_world
from tests.serving_kit import Served, served, serving_environment

ROOT = Path(__file__).parents[2]
CONFIG = Path(__file__).with_name("schemathesis.toml")
LONGEST_S = 280.0  # a third of it on a machine with nothing else to do
RUN = ("-c", "from schemathesis.cli import schemathesis; schemathesis()")
PLENTY = "1000000"


@pytest.fixture(scope="module")
def tried(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Mapping[str, str]]]:
    """A process that serves a shop where something has happened, and what is in it."""
    folder = tmp_path_factory.mktemp("schemathesis")
    url = copy_database(template, folder / "shop.db")
    told = asyncio.run(_told(url))
    env = serving_environment(
        url,
        API__RATE_PER_MINUTE=PLENTY,
        API__CUSTOMER_RATE_PER_MINUTE=PLENTY,
        WEBHOOKS__PRIVATE_TARGETS="127.0.0.1",
    )
    with served(folder, env) as server:
        yield server, told


async def _told(url: str) -> Mapping[str, str]:
    """What the configuration and the hooks take from the environment."""
    async with opened_api(url, webhooks={"private_targets": "127.0.0.1"}) as api:
        world: World = await made_world(api)
        every = frozenset(Scope) - {Scope.CUSTOMERS_ACT}  # who decides does not speak for customers
        desk = await api.staff(*every, name="desk", approver="lan")
    customer = world.keys[Scope.CUSTOMERS_ACT]
    return {
        "IDS": json.dumps({kind: whose[OWN] for kind, whose in world.ids.items()}),
        "DESK": desk["Authorization"],
        "CUSTOMER": customer["Authorization"],
        "TOKEN": customer["Support-Agent-Customer-Token"],
    }


def test_nothing_it_does_is_against_its_description(tried, tmp_path):
    server, told = tried
    done = subprocess.run(  # noqa: S603 - our own command
        (
            sys.executable,
            *RUN,
            "--config-file",
            str(CONFIG),
            "run",
            f"{server.address}/openapi.json",
        ),
        env={**os.environ, **told, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    code, log = server.stop()

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert (code, "Traceback" in log) == (0, False), log

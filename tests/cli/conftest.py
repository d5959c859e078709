"""The command line as its users meet it: arguments in; exit code, stdout and stderr out."""

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner, Result

from support_agent.cli.app import app
from tests.cli.terminal import AT_A_TERMINAL, PATIENCE_S, Seat
from tests.kit import KEYS, open_shop


@dataclass
class Cli:
    """Runs commands in this process; `url` is the database they work on."""

    url: str

    def __call__(self, *words: str, code: int = 0, stdin: str | None = None) -> Result:
        """Run it; anything but the expected exit code fails with what was printed."""
        result = CliRunner().invoke(app, list(words), input=stdin, catch_exceptions=False)
        assert result.exit_code == code, (result.exit_code, result.stdout, result.stderr)
        return result

    def json(self, *words: str, code: int = 0, stdin: str | None = None) -> Any:
        """The one object on stdout."""
        return json.loads(one_line(self(*words, "--json", code=code, stdin=stdin).stdout))

    def error(self, *words: str, code: int) -> Any:
        """The error object on stderr; nothing may be on stdout."""
        result = self(*words, "--json", code=code)
        assert result.stdout == ""
        return json.loads(result.stderr.splitlines()[-1])["error"]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What the database holds, past our own code."""
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
            return connection.execute(sql).fetchall()

    def tamper(self, sql: str) -> None:
        """Somebody with a hand in the database."""
        path = self.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, connection:
            assert connection.execute(sql).rowcount > 0

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Every row of every table is afterwards as it was."""
        before = self._everything()
        yield
        assert self._everything() == before

    def _everything(self) -> list[str]:
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
            return [*connection.iterdump()]

    def filed(self, order_id: str, customer: str = "C001", **arguments: Any) -> str:
        """The id of a request that a customer quoted, answered with a yes and filed."""

        async def file() -> str:
            async with open_shop(self.url) as shop:
                return (await shop.filed(order_id, customer=customer, **arguments)).id

        return asyncio.run(file())


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Sets settings of this process: `environment(CLOCK__NOW="2026-10-13")`."""
    monkeypatch.chdir(tmp_path)  # no .env of the checkout

    def change(**settings: str) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(f"SUPPORT_AGENT_{name}", value)

    yield change
    structlog.reset_defaults()  # a command set logging up for a stderr that is closed now


@pytest.fixture
def cli(shop_url: str, environment: Callable[..., None]) -> Cli:
    """The command line over a private copy of the sample shop, on 2026-10-13, offline model."""
    environment(
        DATABASE__URL=shop_url,
        SECURITY__KEYS=KEYS,
        CLOCK__NOW="2026-10-13",
        APPROVALS__PROOF="asserted",
    )
    return Cli(shop_url)


@pytest.fixture
def scripted(environment, tmp_path: Path):
    """Plays these lines instead of the offline model."""

    def play(*lines: object) -> None:
        script = tmp_path / "script.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        environment(MODEL__KIND="scripted", MODEL__SCRIPT=str(script))

    return play


@pytest.fixture
def sit_down(tmp_path: Path) -> Iterator[Callable[..., Seat]]:
    """Starts a command under a terminal of its own."""
    started: list[tuple[int, subprocess.Popen[bytes]]] = []

    def start(*words: str, env: Mapping[str, str]) -> Seat:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(  # noqa: S603 - our own command
            (*AT_A_TERMINAL, *words),
            env=dict(env),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=tmp_path,
            start_new_session=True,
        )
        os.close(theirs)
        started.append((ours, process))
        return Seat(ours, process)

    yield start
    for terminal, process in started:
        process.kill()
        process.wait(PATIENCE_S)
        os.close(terminal)

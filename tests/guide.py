"""Does what docs/integrate.md says, line by line, in a folder of its own.

Commands of `support-agent` run in this process, which saves seconds each; the server is one of its
own, and `curl` is a real request to it. What a person would copy is written `con_…` in the page,
and is looked for in what the line before printed.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
from typer.testing import CliRunner

from support_agent.cli.app import app

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "integrate.md"
PORT = "8000"  # of the page
PATIENCE_S = 30.0
SERVER = ("-m", "uvicorn", "existing_backend.with_agent:app", "--log-level", "warning", "--fd")
DYING = ("-m", "tests.dying_shop")


def steps() -> dict[str, list[str]]:
    """The commands of each step, by its number."""
    found: dict[str, list[str]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        blocks = re.findall(r"^```sh\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        found[part.partition(".")[0]] = [line for block in blocks for line in block.splitlines()]
    return {number: lines for number, lines in found.items() if lines}


@dataclass
class Walker:
    """Somebody who follows the page. `printed` is what the last line printed."""

    folder: Path
    listening: socket.socket
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    server: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.listening.getsockname()[1]

    def follow(self, lines: list[str]) -> None:
        for line in lines:
            self.do(line)

    def do(self, line: str) -> str:
        """One line of the page."""
        line = line.replace(f":{PORT}", f":{self.port}")
        word = line.split()[0]
        if word == "export":
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = self._value(value)
        elif word == "support-agent":
            self.printed = self._ours(self._words(line)[1:])
        elif word == "uvicorn":
            self.start(*SERVER)
        elif word == "curl":
            self.printed = self._asked(self._words(line)[1:])
        else:
            self.printed = self._shell(line)
        return self.printed

    def start(self, *program: str) -> None:
        """The shop, on the socket that stays open whatever becomes of it."""
        fd = self.listening.fileno()
        self.server = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *program, str(fd)],
            cwd=self.folder,
            env=self._all(),
            pass_fds=(fd,),
        )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the server; its exit code."""
        assert self.server is not None
        self.server.send_signal(how)
        return self.server.wait(PATIENCE_S)

    def curl(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A request to the server, which may have to start first."""
        with httpx2.Client(timeout=PATIENCE_S, trust_env=False) as client:
            return client.request(method, f"http://127.0.0.1:{self.port}{path}", **options)

    def _asked(self, words: list[str]) -> str:
        """Of curl's options those that the page uses; a refusal is no success."""
        headers, body, url = {}, None, ""
        given = iter(words)
        for word in given:
            match word:
                case "-b":
                    headers["cookie"] = next(given)
                case "-H":
                    name, _, value = next(given).partition(":")
                    headers[name] = value.strip()
                case "--json":
                    body, headers["content-type"] = next(given), "application/json"
                case _:
                    assert word.startswith("http://"), word
                    url = word
        path = url.removeprefix(f"http://127.0.0.1:{self.port}")
        answer = self.curl("POST" if body else "GET", path, content=body, headers=headers)
        assert answer.is_success, (answer.status_code, answer.text)
        return answer.text

    def _ours(self, words: list[str]) -> str:
        with self._here():
            result = CliRunner().invoke(app, words, catch_exceptions=False)
            structlog.reset_defaults()
        assert result.exit_code == 0, (words, result.stdout, result.stderr)
        return result.stdout

    def _shell(self, line: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own page
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=self._all(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def _value(self, text: str) -> str:
        known = re.fullmatch(r"\$(\w+)", text)
        inner = re.fullmatch(r"(.*?)\$\((.*)\)", text)
        copied = re.fullmatch(r"(\w+_)…", text)
        if known:
            return self.environment[known[1]]
        if copied:
            found = re.search(rf"{copied[1]}[0-9a-z]+", self.printed)
            assert found, self.printed
            return found[0]
        if inner:
            before, command = inner.groups()
            words = shlex.split(command)
            ours = words[0] == "support-agent"
            told = self._ours(words[1:]) if ours else self._shell(command)
            return before + told.strip()
        return text

    def _words(self, line: str) -> list[str]:
        def known(match: re.Match[str]) -> str:
            return self.environment[match[1]]

        return shlex.split(re.sub(r"\$(\w+)", known, line))

    def _all(self) -> dict[str, str]:
        """Nothing of this machine's but where programs are."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = {"PATH": path, "HOME": str(self.folder), "PYTHONUTF8": "1"}
        found = f"{ROOT}:{self.folder / self.environment.get('PYTHONPATH', '')}"
        return home | self.environment | {"PYTHONPATH": found}

    @contextmanager
    def _here(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield


@contextmanager
def walking(folder: Path) -> Iterator[Walker]:
    """A walker in a folder that looks like a checkout."""
    for name in ("examples", "data"):
        (folder / name).symlink_to(ROOT / name)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        walker = Walker(folder=folder, listening=listening)
        try:
            yield walker
        finally:
            if walker.server is not None and walker.server.poll() is None:
                walker.stop(signal.SIGKILL)

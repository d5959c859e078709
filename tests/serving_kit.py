"""`support-agent serve` as a process of its own, asked over real sockets."""

import contextlib
import json
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from support_agent.domain.access import Scope
from tests.api_kit import HOST, SECRET, SECRET_ID, customer_token
from tests.cli.terminal import COMMAND, PATIENCE_S, environment_of
from tests.kit import open_shop


def serving_environment(url: str, **settings: str) -> Mapping[str, str]:
    """Of a serving process on this database."""
    ours = {
        "API__CUSTOMER_TOKEN_SECRETS": f"{SECRET_ID}:{SECRET}",
        "API__CUSTOMER_RATE_PER_MINUTE": "100000",  # tests look again and again
        "APPROVALS__PROOF": "asserted",
        "QUEUE__POLL_SECONDS": "0.1",
        "QUEUE__SHUTDOWN_SECONDS": "5",
    }
    return environment_of(url, **(ours | settings))


def scripted(path: Path, *lines: object) -> Mapping[str, str]:
    """Settings of a model that plays these lines."""
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return {"MODEL__KIND": "scripted", "MODEL__SCRIPT": str(path)}


async def key_for(url: str, *scopes: Scope, name: str = "web", **rest: Any) -> dict[str, str]:
    """Headers with a new key, made by another process than the one that serves."""
    async with open_shop(url) as shop:
        _, text = await shop.container.api_keys().create(
            name=name, scopes=frozenset(scopes), by=HOST, **rest
        )
    return {"Authorization": f"Bearer {text}"}


async def customer_for(url: str, customer_id: str = "C001", **rest: Any) -> dict[str, str]:
    """Headers of the shop's backend, speaking for a customer."""
    key = await key_for(url, Scope.CUSTOMERS_ACT, **rest)
    return {**key, "Support-Agent-Customer-Token": customer_token(customer_id)}


@dataclass
class Served:
    """A process that serves."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.address, timeout=PATIENCE_S)

    def said(self, data: bytes) -> bytes:
        """All that it answers to these bytes until it closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE_S) as connection:
            if data:
                connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Its exit code and log."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, err


@contextmanager
def served(folder: Path, env: Mapping[str, str], *words: str) -> Iterator[Served]:
    """Started once it listens; killed at the end, if it is still there."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        (*COMMAND, "serve", "--port", "0", *words),
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving on http://127.0.0.1:"), (line, process.communicate())
        yield Served(process, line.removeprefix("serving on ").strip())
    finally:
        process.kill()
        with contextlib.suppress(ValueError):  # it was read to its end
            process.communicate()

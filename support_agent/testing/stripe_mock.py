"""Starts the npm package `stripe-stateful-mock` on the loopback address, for tests."""

import contextlib
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "stripe-stateful-mock"
PATIENCE_S = 60.0
# The package's own program listens on every address of the machine; this one on the loopback
# alone. It ends with the process that started it, whose end closes its standard input.
_PROGRAM = f"""
const app = require({PACKAGE!r}).createExpressApp();
const server = app.listen(0, "127.0.0.1", () => console.log("port " + server.address().port));
process.stdin.on("end", () => process.exit()).resume();
"""


class StripeMockMissing(Exception):
    """Node or the package is not there; the message says what would help."""


@contextlib.contextmanager
def stripe_mock(folder: Path) -> Iterator[int]:
    """The port of a server that is gone on leaving; `folder` holds node_modules.

    Raises:
        StripeMockMissing: node or the package is not installed.
    """
    node = shutil.which("node")
    if node is None:
        raise StripeMockMissing("node is not installed")
    if not (folder / "node_modules" / PACKAGE).is_dir():
        raise StripeMockMissing(f"{PACKAGE} is not installed; run: npm ci")
    server = subprocess.Popen(  # noqa: S603 - our own words only
        [node, "-e", _PROGRAM],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LOG_LEVEL": "silent"},
    )
    try:
        yield _port(server)
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_S)
        for pipe in (server.stdin, server.stdout):
            if pipe is not None:
                pipe.close()


def _port(server: subprocess.Popen[bytes]) -> int:
    if server.stdout is None:
        raise RuntimeError("the server has no output")
    ready, _, _ = select.select([server.stdout], [], [], PATIENCE_S)
    words = server.stdout.readline().split() if ready else []
    if len(words) != 2:
        raise RuntimeError(f"{PACKAGE} did not start")
    return int(words[1])

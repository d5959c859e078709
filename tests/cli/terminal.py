"""A command as a process of its own, under a terminal where somebody sits."""

import codecs
import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping

from tests.kit import KEYS

COMMAND = (sys.executable, "-c", "from support_agent.cli import main; main()")
# The first terminal a session opens becomes its own, and Ctrl-C a signal.
TAKE_TERMINAL = (
    "import os, signal; os.close(os.open(os.ttyname(0), os.O_RDWR)); "
    # Whoever starts the tests in the background (nohup, some CI agents) lets them ignore Ctrl-C.
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
)
AT_A_TERMINAL = (sys.executable, "-c", f"{TAKE_TERMINAL}{COMMAND[2]}")
PATIENCE_S = 60.0
CTRL_C = b"\x03"


def environment_of(url: str, **settings: str) -> Mapping[str, str]:
    ours = {"DATABASE__URL": url, "SECURITY__KEYS": KEYS, "CLOCK__NOW": "2026-10-13"} | settings
    clean = {k: v for k, v in os.environ.items() if not k.startswith("SUPPORT_AGENT_")}
    return clean | {f"SUPPORT_AGENT_{name}": value for name, value in ours.items()}


class Seat:
    """Somebody at a terminal: types, and reads until something appears."""

    def __init__(self, terminal: int, process: subprocess.Popen[bytes]) -> None:
        self._terminal = terminal
        self._process = process
        self.seen = ""
        self._waited_to = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def type(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def wait_for(self, text: str) -> None:
        """Read on until `text` appears behind what was waited for before."""
        give_up = time.monotonic() + PATIENCE_S
        while (found := self.seen.find(text, self._waited_to)) < 0:
            assert time.monotonic() < give_up, self.seen
            self._read()
        self._waited_to = found + len(text)

    def interrupt(self) -> None:
        """Press Ctrl-C as a person does: again when nothing happened.

        A signal between the prompt and the read that waits behind it is only seen at the next one.
        """
        for _ in range(int(PATIENCE_S)):
            self.type(CTRL_C)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
                return

    def exit_code(self) -> int:
        code = self._process.wait(PATIENCE_S)
        try:
            while True:
                self._read()
        except OSError:  # the other end is closed and everything is read
            return code

    def _read(self) -> None:
        if select.select([self._terminal], [], [], 1.0)[0]:
            chunk = os.read(self._terminal, 65_536)
            self.seen += self._decoder.decode(chunk)

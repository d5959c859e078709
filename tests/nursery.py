"""Processes that start in a blink: forked from one that has imported everything already.

`python -m tests.nursery` reads one JSON line for each process to start and answers with its pid; it
says as well when one has ended, and how.
"""

import json
import os
import queue
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from support_agent.cli import main as command
from tests.cli.terminal import PATIENCE_S

IMPORTED = ("agent.worker", "api.serving", "cli.app", "container")  # of ours, before any fork
BROKEN = 70


class Nursery:
    """Starts processes, and knows how those ended that did."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._born: queue.Queue[int] = queue.Queue()
        self.codes: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "code" in told:
                self.codes[told["pid"]] = told["code"]
            else:
                self._born.put(told["pid"])

    def start(self, **job: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._born.get(timeout=PATIENCE_S)


@dataclass
class Mortal:
    """A program that is killed and started again; all of its lives write to one log.

    `program` is a module to run; None: `support-agent`.
    """

    nursery: Nursery
    log: Path
    words: Sequence[str]
    env: Mapping[str, str]
    program: str | None = None
    pid: int | None = None
    lives: int = 0

    def start(self) -> None:
        self.lives += 1
        self.pid = self.nursery.start(
            program=self.program, words=self.words, env=dict(self.env), log=str(self.log)
        )

    def stop(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Its exit code."""
        assert self.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self.pid, how)
        give_up = time.monotonic() + PATIENCE_S
        while self.pid not in self.nursery.codes:
            assert time.monotonic() < give_up, f"{self.words} does not end"
            time.sleep(0.01)
        return self.nursery.codes[self.pid]


@contextmanager
def nursery(path: Sequence[str], *, descriptors: Sequence[int] = ()) -> Iterator[Nursery]:
    """A nursery whose processes import from `path` and have these files open; killed with them."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(path), "PYTHONUTF8": "1"}
    process = subprocess.Popen(
        (sys.executable, "-m", "tests.nursery"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
        pass_fds=descriptors,
        start_new_session=True,
    )
    try:
        yield Nursery(process)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _born(job: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    log = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for ours, theirs in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
        os.dup2(ours, theirs)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(Path(job["log"]).parent)
    sys.argv = ["support-agent", *job["words"]]
    os._exit(_lived(job["program"]))


def _lived(program: str | None) -> int:
    try:
        if program is None:
            command()
        else:
            runpy.run_module(program, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - it is in the log
        traceback.print_exc()
        return BROKEN
    return 0


def main() -> None:
    for name in IMPORTED:
        import_module(f"support_agent.{name}")
    rest, answers = b"", os.fdopen(os.dup(1), "w")

    def tell(**fact: int) -> None:
        print(json.dumps(fact), file=answers, flush=True)

    while True:
        if select.select([0], [], [], 0.02)[0]:
            part = os.read(0, 65_536)
            if not part:  # the test run is gone, and nobody else ends what it had started
                os.killpg(0, signal.SIGKILL)
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                tell(pid=_born(json.loads(line)))
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                tell(pid=ended[0], code=os.waitstatus_to_exitcode(ended[1]))


if __name__ == "__main__":
    main()

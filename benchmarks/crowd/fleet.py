"""The processes around a crowd: database, model server, workers, and what CPU each of them took."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.crowd.talk import Story, customers, orders
from support_agent import load_settings, open_container
from support_agent.settings import Settings

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).parent / "support-agent"
PREFIX = "SUPPORT_AGENT_"
PATIENCE_S = 30.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
Environment = Mapping[str, str]


def environment(url: str, model_port: int, **settings: object) -> Environment:
    """What every process of the fleet is configured by; `QUEUE__KIND="inline"` and the like."""
    ours = {
        "DATABASE__URL": url,
        "SECURITY__KEYS": f"crowd:{secrets.token_hex(32)}",
        "APPROVALS__PROOF": "asserted",
        "MODEL__KIND": "openai",
        "MODEL__NAME": "crowd",
        "PAYOUTS__RUN": "worker",
        **settings,
    }
    kept = {name: value for name, value in os.environ.items() if not _is_ours(name)}
    named = {f"{PREFIX}{name}": str(value) for name, value in ours.items()}
    return {**kept, **named, "OPENAI_BASE_URL": f"http://127.0.0.1:{model_port}/v1"}


def _is_ours(name: str) -> bool:
    return name.startswith((PREFIX, "OPENAI_", "ANTHROPIC_"))


def command(env: Environment, *words: str) -> str:
    """What one of our commands printed.

    Raises:
        RuntimeError: it failed; with what it wrote.
    """
    done = subprocess.run(  # noqa: S603 - our own command
        [COMMAND, *words], env=env, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def configured(env: Environment) -> Iterator[Settings]:
    """The settings that a process of this environment has, for this process."""
    before = {**os.environ}
    os.environ.clear()
    os.environ.update(env)
    try:
        yield load_settings()
    finally:
        os.environ.clear()
        os.environ.update(before)


def prepare(env: Environment, crowd: Sequence[Story]) -> None:
    """A migrated demo shop with the crowd's own customers and orders beside the sample's."""
    command(env, "db", "upgrade")
    command(env, "db", "seed")

    async def fill(settings: Settings) -> None:
        async with open_container(settings) as container:
            shop: Any = container.orders()  # of kind sql, which is a ShopWriter too
            await shop.put_customers(customers(crowd))
            await shop.put_orders(orders(crowd))

    with configured(env) as settings:
        asyncio.run(fill(settings))


@dataclass(slots=True)
class Process:
    """A process of ours; its CPU seconds stay known when it is gone."""

    popen: subprocess.Popen[str]
    cpu: float = 0.0

    @classmethod
    def start(
        cls, words: Sequence[str | Path], env: Environment | None = None, log: IO[str] | None = None
    ) -> "Process":
        pipe = subprocess.PIPE
        return cls(
            subprocess.Popen(  # noqa: S603 - our own words
                words, env=env, cwd=ROOT, stdin=pipe, stdout=log or pipe, stderr=log, text=True
            )
        )

    @property
    def is_running(self) -> bool:
        return self.popen.poll() is None

    def measure(self) -> float:
        if self.is_running:
            self.cpu = cpu_of(self.popen.pid)
        return self.cpu

    def send(self, what: signal.Signals) -> None:
        self.measure()
        self.popen.send_signal(what)

    def end(self) -> int:
        """Wait for its exit code; one that does not end in time is killed."""
        try:
            code = self.popen.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            code = self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()
        return code


def cpu_of(pid: int, *, with_children: bool = False) -> float:
    """Seconds that a process took so far (Linux), with those of its children, also the ended."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own, ended = numbers[11:13], numbers[13:15]
    if not with_children:
        return sum(map(int, own)) * _TICK_S
    spent = sum(map(int, own + ended)) * _TICK_S
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has just ended
            spent += cpu_of(int(child))
    return spent


@dataclass(slots=True)
class ModelServer:
    """`counted` is there once it has ended."""

    port: int
    process: Process
    counted: Mapping[str, int]


@contextlib.contextmanager
def model_server(latency_s: float) -> Iterator[ModelServer]:
    words = [sys.executable, "-m", "benchmarks.crowd.model", "--latency", str(latency_s)]
    process = Process.start(words)
    assert process.popen.stdout is not None  # noqa: S101 - for mypy
    served = ModelServer(int(process.popen.stdout.readline()), process, {})
    try:
        yield served
    finally:
        process.measure()
        out, _ = process.popen.communicate()
        served.counted = json.loads(out)


@dataclass(slots=True)
class Workers:
    """`support-agent worker`, as many as are started; all of them write one log."""

    env: Environment
    log: IO[str]
    started: list[Process]

    def start(self) -> Process:
        process = Process.start([COMMAND, "worker"], self.env, self.log)
        self.started.append(process)
        return process

    def measure(self) -> list[float]:
        return [one.measure() for one in self.started]


@contextlib.contextmanager
def workers(env: Environment, count: int, log: Path) -> Iterator[Workers]:
    """Running workers; asked to stop at the end, all at once."""
    with log.open("w") as out:
        fleet = Workers(env, out, [])
        try:
            for _ in range(count):
                fleet.start()
            yield fleet
        finally:
            running = [one for one in fleet.started if one.is_running]
            for one in running:
                one.send(signal.SIGTERM)
            for one in fleet.started:
                one.end()


@contextlib.contextmanager
def crowd_of(env: Environment, count: int, think_s: float) -> Iterator[Process]:
    """The crowd's own process; it ends by itself."""
    asked = ["--stories", str(count), "--think", str(think_s)]
    words = [sys.executable, "-m", "benchmarks.crowd.client", *asked]
    process = Process.start(words, env)
    try:
        yield process
    finally:
        process.popen.kill()
        process.end()


def wait_until(what: str, is_so: Any, patience_s: float = PATIENCE_S) -> None:  # noqa: ANN401
    """Look again and again.

    Raises:
        TimeoutError: it did not come about; with what was waited for.
    """
    give_up = time.monotonic() + patience_s
    while not is_so():
        if time.monotonic() > give_up:
            raise TimeoutError(f"waited {patience_s:.0f} s for: {what}")
        time.sleep(0.05)

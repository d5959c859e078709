"""What a request to the HTTP API costs, beside a bare FastAPI route in the same run.

    python benchmarks/api.py [--requests 1000] [--streams 500]

Each is served by a process of its own with one kind of server, asked over kept connections, and its
CPU is read of the system. The model plays a script, so a turn is what it costs by itself.
"""

import sys

sys.path.pop(0)  # this folder has a file named like a module of the standard library

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import jwt

from support_agent.container import open_container
from support_agent.domain.access import Scope
from support_agent.domain.people import Principal, PrincipalKind, Proof

SECRET = "a-secret-of-the-backend-of-the-shop-0123456789"  # noqa: S105 - of nobody
HOST = Principal(
    kind=PrincipalKind.STAFF, id="bench", person_id=None, proof=Proof.SYSTEM, via="bench"
)
PLENTY = "1000000000"
CONNECTIONS = 8
BARE = Path(__file__).with_name("bare_api.py")
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
HELLO = {"text": "Xin chào shop"}


@dataclass(kw_only=True)
class Served:
    """A process that serves."""

    process: subprocess.Popen[str]
    port: int

    def cpu_s(self) -> float:
        """User and system time of it so far."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_S

    def memory_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1_024


@dataclass(kw_only=True)
class Case:
    """One kind of request. `answers` is the status it has to have."""

    name: str
    server: Served
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    answers: int = 200
    cpu_ms: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)

    def raw(self) -> bytes:
        body = b"" if self.body is None else json.dumps(self.body).encode()
        told = {"Host": "bench", **self.headers}
        if body:
            told |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@contextlib.contextmanager
def started(words: tuple[str, ...], env: Mapping[str, str]) -> Iterator[Served]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        (sys.executable, *words), stdout=subprocess.PIPE, text=True, env=dict(env)
    )
    try:
        told = process.stdout.readline() if process.stdout else ""
        yield Served(process=process, port=int(told.rpartition(":")[2]))
    finally:
        process.terminate()
        process.wait(30)


async def ask(case: Case, requests: int) -> None:
    """So many requests over a few connections at once."""
    raw, left = case.raw(), iter(range(requests))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", case.server.port)
        for _ in left:
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            body = await reader.readexactly(length)
            if status != case.answers:
                raise SystemExit(f"{case.name}: {status} {body[:300]!r}")
        writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))


async def measure(case: Case, requests: int) -> None:
    cpu, began = case.server.cpu_s(), time.perf_counter()
    await ask(case, requests)
    took = time.perf_counter() - began
    await settled(case.server)
    case.cpu_ms.append((case.server.cpu_s() - cpu) / requests * 1_000)
    case.per_s.append(requests / took)


async def settled(server: Served) -> None:
    """Turns that go on behind the requests count, too."""
    while True:
        before = server.cpu_s()
        await asyncio.sleep(0.5)
        if server.cpu_s() - before < 0.05:
            return


@contextlib.asynccontextmanager
async def streaming(case: Case, many: int) -> AsyncIterator[None]:
    writers = []
    for _ in range(many):
        reader, writer = await asyncio.open_connection("127.0.0.1", case.server.port)
        writer.write(case.raw())
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
    yield
    for writer in writers:
        writer.close()


async def idle(case: Case, many: int, seconds: float) -> tuple[float, float]:
    """CPU in seconds a second, and memory in MB, of streams on which nothing happens."""
    memory = case.server.memory_mb()
    async with streaming(case, many):
        await asyncio.sleep(2)
        cpu = case.server.cpu_s()
        await asyncio.sleep(seconds)
        return (case.server.cpu_s() - cpu) / seconds, case.server.memory_mb() - memory


async def keys_of() -> tuple[dict[str, str], dict[str, str]]:
    """Headers of staff, and of the shop's backend for a customer."""
    async with open_container() as container:
        keys = container.api_keys()
        _, staff = await keys.create(name="staff", scopes=frozenset({Scope.TASKS_READ}), by=HOST)
        _, web = await keys.create(name="web", scopes=frozenset({Scope.CUSTOMERS_ACT}), by=HOST)
    now = int(time.time())
    claims = {"sub": "C001", "aud": "support-agent", "iat": now, "exp": now + 3_000}
    token = jwt.encode(claims, SECRET, algorithm="HS256", headers={"kid": "shop"})
    acting = {"Authorization": f"Bearer {web}", "Support-Agent-Customer-Token": token}
    return {"Authorization": f"Bearer {staff}"}, acting


def environment(folder: Path) -> dict[str, str]:
    script = folder / "script.jsonl"
    script.write_text(json.dumps({"answer": "Chào bạn."}), encoding="utf-8")
    ours = {
        "DATABASE__URL": f"sqlite:///{folder / 'bench.db'}",
        "MODEL__KIND": "scripted",
        "MODEL__SCRIPT": str(script),
        "API__CUSTOMER_TOKEN_SECRETS": f"shop:{SECRET}",
        "API__CUSTOMER_TOKEN_SECONDS": "3600",
        "API__RATE_PER_MINUTE": PLENTY,
        "API__CUSTOMER_RATE_PER_MINUTE": PLENTY,
        "BUDGETS__CUSTOMER_DAY_REQUESTS": PLENTY,
        "BUDGETS__CUSTOMER_DAY_TOKENS": PLENTY,
        "LOG__LEVEL": "error",
    }
    return {f"SUPPORT_AGENT_{name}": value for name, value in ours.items()}


def cli(*words: str) -> tuple[str, ...]:
    return ("-c", "from support_agent.cli import main; main()", *words)


def cases(
    plain: Served, ours: Served, staff: Mapping[str, str], acting: Mapping[str, str]
) -> list[Case]:
    waits, talk = {**acting, "Prefer": "wait=20"}, "/v1/conversations"

    def get(name: str, server: Served, path: str, headers: Mapping[str, str]) -> Case:
        return Case(name=name, server=server, method="GET", path=path, headers=headers)

    def post(
        name: str, server: Served, path: str, headers: Mapping[str, str], answers: int
    ) -> Case:
        one = Case(name=name, server=server, method="POST", path=path, headers=headers)
        return replace(one, body=HELLO, answers=answers)

    return [
        get("bare route, GET", plain, "/rows?limit=20", {}),
        post("bare route, POST", plain, "/rows", {}, 202),
        get("GET /healthz", ours, "/healthz", {}),
        get("GET /v1/tasks", ours, "/v1/tasks", staff),
        get("GET /v1/conversations", ours, talk, acting),
        post("POST a message, 202, and its turn", ours, talk, acting, 202),
        post("POST a message, wait=20, and its turn", ours, talk, waits, 200),
    ]


def run(requests: int, rounds: int, streams: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ.update(environment(Path(name)))
        for words in (("db", "upgrade"), ("db", "seed")):
            command = (sys.executable, *cli(*words))
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        staff, acting = asyncio.run(keys_of())
        with (
            started((str(BARE),), os.environ) as plain,
            started(cli("serve", "--port", "0"), os.environ) as ours,
        ):
            every = cases(plain, ours, staff, acting)
            asyncio.run(measured(every, requests, rounds))
            tell(every)
            asyncio.run(tell_streams(ours, acting, streams))


async def measured(every: list[Case], requests: int, rounds: int) -> None:
    for case in every:
        await ask(case, CONNECTIONS * 5)  # warm
    for _ in range(rounds):
        for case in every:
            await measure(case, requests if case.body is None else requests // 4)


def tell(every: list[Case]) -> None:
    base = {"GET": every[0], "POST": every[1]}
    print("| | requests/s | CPU ms a request | in bare routes |\n|---|---:|---:|---:|")
    for case in every:
        cpu, of_bare = (statistics.median(one.cpu_ms) for one in (case, base[case.method]))
        rate = statistics.median(case.per_s)
        print(f"| {case.name} | {rate:.0f} | {cpu:.2f} | {cpu / of_bare:.1f} |")


async def tell_streams(ours: Served, acting: Mapping[str, str], many: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    nothing = await idle(Case(name="", server=ours, method="GET", path="/"), 0, 10)
    listed = await asyncio.create_subprocess_exec(
        *(sys.executable, *cli("conversations", "list", "--limit", "1", "--json")),
        stdout=subprocess.PIPE,
    )
    out, _ = await listed.communicate()
    path = f"/v1/conversations/{json.loads(out)['data'][0]['id']}/events"
    case = Case(name="", server=ours, method="GET", path=path, headers=acting)
    cpu, memory = await idle(case, many, 10)
    print(
        f"\n{many} idle streams: {cpu * 100:.1f} % of one CPU ({nothing[0] * 100:.1f} % without), "
        f"{memory:.0f} MB more ({memory / many * 1_024:.0f} kB each)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=500)
    given = parser.parse_args()
    run(given.requests, given.rounds, given.streams)


if __name__ == "__main__":
    main()

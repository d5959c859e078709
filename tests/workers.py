"""Processes of their own for tests of races and crashes: imported once, forked, started together.

`python -m tests.workers` is the server that forks. It reads one JSON list of jobs a line and answers
with one JSON list of what they answered; a job that died answered null. A job that is no list is
done by the server itself: what it compiled and cached in doing it, its forks need not do again.
"""

import asyncio
import atexit
import contextlib
import functools
import io
import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from support_agent.agent.retrying import RetryingModel
from support_agent.cli.app import app
from support_agent.domain.errors import AlreadyDecided, ModelUnavailable, SupportAgentError
from support_agent.domain.runs import Usage
from support_agent.domain.usage import Allowance, Hold, Scope, UsageAccount
from support_agent.ports.events import ProviderEvent
from support_agent.ports.model import ModelReply, ModelRequest
from support_agent.services.usage import UsageMeter
from tests.agent_kit import take
from tests.crashes import KeptGateway, play, recover
from tests.heart import ANSWERED, asker, calls, error_of, open_shop_with, operator
from tests.killed_turns import play_turns, recover_turns, work_turn
from tests.kit import KEYS, TODAY, Shop

Job = dict[str, Any]
PATIENCE_S = 60.0
LOST_TOKENS = 20_000  # of a failed attempt: more than any request of the sample shop has
FAILED = "failed: "


async def approve(shop: Shop, request_id: str, name: str) -> str:
    """Approve and pay, as the terminal does."""
    by = await shop.approver(name)
    await shop.container.approvals().approve(request_id, by=by)
    return (await shop.container.payouts().pay(request_id)).status


async def reject(shop: Shop, request_id: str, name: str) -> str:
    by = await shop.approver(name)
    return (await shop.container.approvals().reject(request_id, by=by)).status


async def file(shop: Shop, conversation: str, quote_id: str, customer: str) -> str:
    """The customer says yes, the model files."""
    result = await shop.say(
        "đồng ý",
        calls("request_refund", quote_id=quote_id),
        ANSWERED,
        customer=customer,
        conversation=conversation,
    )
    return result.requests[0].status if result.requests else error_of(result) or result.answer


async def cancel(shop: Shop, request_id: str) -> str:
    """The customer takes it back."""
    request = await shop.request(request_id)
    who = asker(request.customer_id, request.conversation_id or "")
    life = shop.container.life()
    return (await shop.write(lambda tx: life.cancel(tx, request_id, who))).status


class MortalModel:
    """Fails once, having cost something; whoever asks it again is gone."""

    def __init__(self) -> None:
        self._asked = 0

    async def decide(self, request: ModelRequest) -> ModelReply:
        self._asked += 1
        if self._asked > 1:
            os._exit(0)
        raise ModelUnavailable("HTTP 503", usage=Usage(requests=1, input_tokens=LOST_TOKENS))

    async def aclose(self) -> None:
        """Nothing is open."""


async def die_asking_again(shop: Shop, conversation: str) -> str:
    """The model is away, and the process is gone when it asks a second time."""
    shop.model.model = RetryingModel(MortalModel(), attempts=3, backoff_s=0.001)
    await take(shop, "Đơn A100 đâu?", conversation=conversation)
    return "survived"


async def expire(shop: Shop) -> str:
    expired = await shop.container.life().expire_due(shop.container.database())
    return f"{len(expired)} expired"


async def pay(shop: Shop, request_id: str) -> str:
    return (await shop.container.payouts().pay(request_id)).status


async def pay_due(shop: Shop) -> str:
    await shop.container.payouts().pay_due()
    return "swept"


async def reconcile(shop: Shop) -> str:
    await shop.container.payouts().reconcile()
    return "swept"


async def retry(shop: Shop, request_id: str) -> str:
    retried = await shop.container.retries().retry(request_id, by=operator("op"))
    return f"{retried.status} {retried.attempt_no}"


async def resolve(shop: Shop, request_id: str, name: str, evidence: str) -> str:
    by = await shop.approver(name)
    resolutions = shop.container.resolutions()
    return (await resolutions.resolve(request_id, paid=True, evidence=evidence, by=by)).status


async def receive(shop: Shop, event_id: str) -> str:
    """The provider delivers an event."""
    return (await shop.container.provider_events().receive(event_id.encode(), {})).outcome


async def hold(shop: Shop, *, limit: int, tries: int, name: str) -> str:
    """How many calls this process may hold, when the whole shop may have `limit` of them."""
    clock, zone = shop.container.clock(), shop.container.terms().zone
    allowances = {Scope.INSTALLATION: Allowance(requests=limit)}
    meter = UsageMeter(allowances=allowances, clock=clock, zone=zone)
    account = UsageAccount(conversation_id=f"con_{name}", customer_id="C001", channel="cli")
    call, database = Usage(requests=1, input_tokens=100), shop.container.database()
    held = [
        await database.transact(
            lambda tx: meter.exchange(tx, account, held=None, spent=Usage(), ahead=call),
            durable=False,
        )
        for _ in range(tries)
    ]
    return f"{sum(isinstance(outcome, Hold) for outcome in held)} held"


class AboutTheNewest:
    """Verifies any body as an event about the gateway's newest refund; the body is its id."""

    def __init__(self, gateway: KeptGateway) -> None:
        self._gateway = gateway

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> ProviderEvent:
        simulator = self._gateway.simulator()
        return simulator.event_for(simulator.refunds[-1], id=body.decode())


WORK = {
    work.__name__: work
    for work in (
        *(approve, reject, file, cancel, expire, pay, pay_due, reconcile),
        *(retry, resolve, receive, die_asking_again, hold),
    )
}


STORIES: dict[str, Callable[..., Any]] = {
    work.__name__: work for work in (play, recover, play_turns, work_turn)
}


async def in_shop(start: Callable[[], None], do: str, url: str, **job: Any) -> str:
    """Open the shop, wait for the others, then work: its answer, or the code of its refusal."""
    now = datetime.fromisoformat(job.pop("now", TODAY.isoformat()))
    kept = job.pop("gateway", None)
    gateway = KeptGateway(Path(kept)) if kept else None
    parts = {"gateway": gateway, "events": AboutTheNewest(gateway)} if gateway else {}
    async with open_shop_with(url, now=now, overrides=parts) as shop:
        start()
        try:
            return await WORK[do](shop, **job)
        except AlreadyDecided as error:
            return f"{error.code} by {error.by or 'nobody'}"
        except SupportAgentError as error:
            return error.code


def on_terminal(start: Callable[[], None], url: str, words: Sequence[str]) -> dict[str, Any]:
    """A command as somebody types it."""
    ours = {"DATABASE__URL": url, "SECURITY__KEYS": KEYS, "APPROVALS__PROOF": "asserted"}
    ours["CLOCK__NOW"] = TODAY.isoformat()
    environment = {f"SUPPORT_AGENT_{name}": value for name, value in ours.items()}
    start()
    done = CliRunner().invoke(app, list(words), env=environment)
    return {"code": done.exit_code, "out": done.stdout, "err": done.stderr}


def done(start: Callable[[], None], job: Job) -> Any:
    match job.pop("do"):
        case "command":
            return on_terminal(start, **job)
        case "recover_turns":
            start()
            return [asyncio.run(recover_turns(**one)) for one in job["each"]]
        case do if do in STORIES:
            start()
            return asyncio.run(STORIES[do](**job))
        case do:
            return asyncio.run(in_shop(start, do, **job))


class _Fork:
    """One job in a process of its own, which waits for the others before it works."""

    def __init__(self, job: Job, gate: int, starter: int) -> None:
        self.answers, answering = os.pipe()
        self.ready, readying = os.pipe()
        self.told = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.close(starter)
            self._work(job, gate, readying, answering)
        os.close(readying)
        os.close(answering)

    def _work(self, job: Job, gate: int, readying: int, answering: int) -> None:
        def start() -> None:
            os.close(readying)
            os.read(gate, 1)  # ends when the last holder of the other end lets go

        answer = json.dumps(answered(start, job))
        with contextlib.suppress(OSError):
            os.write(answering, answer.encode())
        os._exit(0)

    def read(self) -> bool:
        """Whether there is more to come."""
        part = os.read(self.answers, 65_536)
        self.told += part
        return bool(part)

    def end(self) -> Any:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # only one that hangs is still there
        os.waitpid(self.pid, 0)
        os.close(self.answers)
        os.close(self.ready)
        return json.loads(self.told) if self.told else None


def together(jobs: Sequence[Job]) -> list[Any]:
    """Fork, wait until each is at the gate or gone, open it, wait for the answers."""
    gate, starter = os.pipe()
    forks = [_Fork(job, gate, starter) for job in jobs]
    os.close(gate)
    give_up = time.monotonic() + PATIENCE_S
    _wait({fork.ready: lambda: False for fork in forks}, give_up)
    os.close(starter)
    _wait({fork.answers: fork.read for fork in forks}, give_up)
    return [fork.end() for fork in forks]


def _wait(reads: dict[int, Callable[[], bool]], give_up: float) -> None:
    waiting = dict(reads)
    while waiting and time.monotonic() < give_up:
        for end in select.select(waiting, (), (), 1.0)[0]:
            if not waiting[end]():
                del waiting[end]


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        answer = together(asked) if isinstance(asked, list) else answered(lambda: None, asked)
        print(json.dumps(answer), file=ANSWERS, flush=True)


def answered(start: Callable[[], None], job: Job) -> Any:
    """What a job answers; of one that failed in a way no user would see, how."""
    try:
        return done(start, job)
    except BaseException:  # noqa: BLE001 - told to the test, which fails with it
        return FAILED + traceback.format_exc()


@functools.cache
def _server() -> subprocess.Popen[str]:
    """Started by the first test that needs it, gone with the test run."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )

    @atexit.register
    def stop() -> None:
        server.communicate()  # it ends with its input

    return server


def run_together(jobs: Sequence[Job]) -> list[Any]:
    """What the jobs answered, in their order, each in a process of its own, all started at once.

    None for one that died. One that failed in a way no user would see fails the test.
    """
    answers: list[Any] = _asked(list(jobs))
    return answers


def run_once(job: Job) -> Any:
    """What a job answered that is to be done before those like it, and does not die."""
    return _asked(job)


def _asked(what: Job | list[Job]) -> Any:
    server = _server()
    assert isinstance(server.stdin, io.TextIOWrapper)
    assert isinstance(server.stdout, io.TextIOWrapper)
    server.stdin.write(json.dumps(what) + "\n")
    server.stdin.flush()
    answers = json.loads(server.stdout.readline())
    told = answers if isinstance(answers, list) else [answers]
    failures = [a for a in told if isinstance(a, str) and a.startswith(FAILED)]
    assert not failures, "\n".join(failures)
    return answers


if __name__ == "__main__":
    # Whatever is logged in here, or in a fork, is no answer.
    with os.fdopen(os.dup(1), "w") as ANSWERS:
        os.dup2(2, 1)
        main()

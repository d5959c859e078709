"""`support-agent worker` as a process of its own: answers what another process posted, and ends."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from support_agent.ports.storage import Transaction
from tests.cli.terminal import COMMAND, PATIENCE_S, environment_of
from tests.queue_kit import answered, authors, eventually, open_with, post

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=["inline", "procrastinate"])
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Where the shop is, and which queue it has."""
    name = "shop_url" if request.param == "inline" else "queue_url"
    return request.getfixturevalue(name), request.param


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker; gives it back once it works."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603 - our own command
            (*COMMAND, "worker", *words),
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        started.append(process)
        assert process.stdout is not None
        assert "working" in process.stdout.readline(), process.communicate()
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def settings_of(place: tuple[str, str], **settings: str) -> Mapping[str, str]:
    url, kind = place
    return environment_of(url, QUEUE__KIND=kind, QUEUE__POLL_SECONDS="0.1", **settings)


async def test_a_worker_answers_what_another_process_posted_and_ends_when_it_is_told_to(
    place, start
):
    url, kind = place
    worker = start(env=settings_of(place))
    async with open_with(url, queue={"kind": kind}) as shop:
        posted = await post(shop, "Đơn A100 có được hoàn tiền không?")
        await eventually(lambda: answered(shop, posted.conversation_id))

        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=PATIENCE_S)

        assert (worker.returncode, out) == (0, "stopped\n"), err
        assert await authors(shop, posted.conversation_id) == ["customer", "agent"]


async def test_told_twice_it_ends_at_once_and_tick_or_the_next_worker_goes_on(
    place, start, tmp_path: Path
):
    url, kind = place
    script = tmp_path / "script.jsonl"
    script.write_text(
        '{"tool": "lookup_order", "arguments": {"order_id": "A100"}}\n'
        '{"answer": "chậm", "delay_s": 50}\n'
    )
    worker = start(env=settings_of(place, MODEL__KIND="scripted", MODEL__SCRIPT=str(script)))
    async with open_with(url, queue={"kind": kind}) as shop:
        posted = await post(shop, "Đơn A100 có được hoàn tiền không?")
        await eventually(lambda: shop.read(lambda tx: observed(tx, posted.conversation_id)))

        worker.send_signal(signal.SIGINT)
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=20)

        assert worker.returncode == 0, err
        assert await authors(shop, posted.conversation_id) == ["customer"]
        ticked = tick(settings_of(place))
        if kind == "inline":
            assert ticked["answered"] == {"CONVERSATIONS": 1}
        else:
            assert ticked["woken"] == {}  # the one that let go has woken it
            start(env=settings_of(place))
        await eventually(lambda: answered(shop, posted.conversation_id))


def observed(tx: Transaction, conversation_id: str) -> int:
    """How many calls have an observation."""
    steps = tx.runs.steps_of_conversation(conversation_id)
    return sum(call.observation is not None for step in steps for call in step.calls)


def tick(env: Mapping[str, str]) -> Mapping[str, Mapping[str, int]]:
    done = subprocess.run(  # noqa: S603 - our own command
        (*COMMAND, "tick", "--json"), env=dict(env), capture_output=True, text=True, check=True
    )
    found: Mapping[str, Mapping[str, int]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("words", [(), ("--without-payouts",)])
def test_the_worker_that_pays_needs_the_key_and_another_one_does_not(shop_url, start, words):
    env = environment_of(
        shop_url,
        PAYMENTS__KIND="stripe",
        PAYMENTS__STRIPE_ACCOUNT="acct_ours",
        PAYOUTS__RUN="worker",
    )
    if words:
        start(*words, env=env)
        return
    refused = subprocess.run(  # noqa: S603 - our own command
        (*COMMAND, "worker"), env=dict(env), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "PAYMENTS__STRIPE_KEY: is needed by the worker that pays" in refused.stderr


def test_a_queue_without_tables_names_the_command_to_run(postgres_url):
    env = environment_of(postgres_url, QUEUE__KIND="procrastinate")
    refused = subprocess.run(  # noqa: S603 - our own command
        (*COMMAND, "worker"), env=dict(env), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "its queue has no tables yet; run `support-agent db upgrade`" in refused.stderr

"""The queue that settings name, built with its worker; nothing of it connects before it is used."""

import pytest

from support_agent.adapters.queue.inline import InlineQueue
from support_agent.adapters.queue.procrastinate import ProcrastinateQueue
from support_agent.adapters.queue.procrastinate_worker import ProcrastinateWorker
from support_agent.agent.worker import InlineWorker
from support_agent.container import Container
from tests.kit import settings_for

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.mark.parametrize(
    ("kind", "queue", "worker", "sweep"),
    [
        ("inline", InlineQueue, InlineWorker, "answered"),
        ("procrastinate", ProcrastinateQueue, ProcrastinateWorker, "woken"),
    ],
)
async def test_each_kind_has_its_worker_and_its_sweep(kind, queue, worker, sweep):
    container = Container()
    container.settings.override(settings_for(NOWHERE, queue={"kind": kind}))

    assert isinstance(container.queue(), queue)
    assert isinstance(container.worker(), worker)
    assert sweep in [chore.name for chore in container.chores()]
    for built in reversed(container.to_close()):
        await built.aclose()


async def test_chores_have_different_names_and_only_payouts_need_the_gateway():
    container = Container()
    container.settings.override(settings_for(NOWHERE))
    chores = container.chores()

    assert len({chore.name for chore in chores}) == len(chores)
    assert {c.name for c in chores if c.needs_gateway} == {"paid", "reconciled"}
    for built in reversed(container.to_close()):
        await built.aclose()

"""A chore goes on whatever its work raises, and ends when it is called off."""

import asyncio

import pytest

from support_agent.services.chores import Chore, Counts
from support_agent.services.workers import Stop, repeated


async def test_a_cancellation_that_nobody_asked_for_does_not_end_it():
    """As a shop's own class lets one out that awaits a task of its own."""
    stop, runs = Stop(), 0

    async def run() -> Counts:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise asyncio.CancelledError
        stop.ask()
        return {}

    async with asyncio.timeout(5):
        await repeated(Chore(name="paid", every_s=0, run=run), stop)

    assert runs == 2


async def test_called_off_it_ends():
    async def run() -> Counts:
        await asyncio.sleep(60)
        return {}

    chore = asyncio.create_task(repeated(Chore(name="paid", every_s=0, run=run), Stop()))
    await asyncio.sleep(0)
    chore.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chore

"""What every worker does alike: ending in good order, and the chores in between."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import structlog

from support_agent.domain.errors import SupportAgentError
from support_agent.services.chores import Chore

log = structlog.get_logger(__name__)


class Stop:
    """How a worker is told to end: `asked`, finish what runs; `at_once`, let go of it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()

    def ask(self) -> None:
        """The first time politely, the second time at once."""
        if self.asked.is_set():
            self.at_once.set()
        self.asked.set()


class Answering(Protocol):
    """What a worker needs of the agent."""

    async def work(self, conversation_id: str, *, once: bool = False) -> float | None:
        """Answer what is unread; None when nothing is left, else in how many seconds to look.

        `once`: one turn; what is left then has woken the queue.
        """
        ...


class Worker(Protocol):
    """Answers conversations and does chores until it is told to stop, whatever fails meanwhile.

    Invariants:
        - Told to stop it takes nothing new, gives what runs some seconds to end, and then lets go:
          another worker goes on at once with what it had.
        - A database or server that is gone for a while does not end it.
    """

    async def run(self, stop: Stop) -> None: ...


async def repeated(chore: Chore, stop: Stop) -> None:
    """Do the chore at once and then at its intervals; a failure is for its next time."""
    while not stop.asked.is_set():
        await done(chore)
        await until(stop.asked, within_s=chore.every_s)


async def done(chore: Chore) -> None:
    """Do the chore once; what goes wrong is in the log."""
    try:
        counts = await chore.run()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody called us off: some foreign code's own. It would end the chore for good, unheard.
        log.exception("chore.failed", chore=chore.name)
    except Exception as error:  # noqa: BLE001 - it is tried again, the others run on
        tell(error, "chore.failed", chore=chore.name)
    else:
        if counts:
            log.info("chore.done", chore=chore.name, counts=dict(counts))


def tell(error: Exception, event: str, **facts: object) -> None:
    """A failure in the log: one that was foreseen in a line, any other whole."""
    if isinstance(error, SupportAgentError):
        log.warning(event, problem=str(error), **facts)
    else:
        log.error(event, exc_info=error, **facts)


async def until(*events: asyncio.Event, within_s: float) -> None:
    """Wait for one of the events, or so long."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


async def let_end(
    tasks: Iterable[asyncio.Task[None]], *, within_s: float, at_once: asyncio.Event
) -> None:
    """Wait for the tasks for so long, or until there is a hurry; then call them off."""
    left = list(tasks)
    await ended(left, within_s=within_s, at_once=at_once)
    await called_off(left)


async def ended(
    tasks: Sequence[asyncio.Task[Any]], *, within_s: float, at_once: asyncio.Event
) -> None:
    """Wait for the tasks for so long, or until there is a hurry."""
    if not tasks:
        return
    hurry = asyncio.create_task(at_once.wait())
    all_ended = asyncio.create_task(asyncio.wait(tasks))
    await asyncio.wait((hurry, all_ended), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    await called_off((hurry, all_ended))


async def called_off(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks, and wait until each has taken note of it."""
    left = list(tasks)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)

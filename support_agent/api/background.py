"""What goes on behind the requests of a serving process, and ends with it in good order."""

import asyncio
from collections.abc import Awaitable

import structlog

from support_agent.services.workers import let_end, tell

log = structlog.get_logger(__name__)


class Background:
    """Tasks that no request waits for. Closed, they have some seconds to end and are let go."""

    def __init__(self, *, shutdown_s: float) -> None:
        self._shutdown_s = shutdown_s
        self._running: set[asyncio.Task[None]] = set()
        self.closing = asyncio.Event()

    def start(self, work: Awaitable[None], *, name: str) -> asyncio.Task[None]:
        """Do it beside everything else; what goes wrong is in the log."""
        task = asyncio.create_task(self._quiet(work, name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def aclose(self) -> None:
        self.closing.set()
        await let_end(tuple(self._running), within_s=self._shutdown_s, at_once=asyncio.Event())

    async def _quiet(self, work: Awaitable[None], name: str) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            tell(error, f"{name}.failed")

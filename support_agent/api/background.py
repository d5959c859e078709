"""What goes on behind the requests of a serving process, and ends with it in good order."""

import asyncio
from collections.abc import Awaitable

import structlog

from support_agent.services.workers import Stop, Worker, let_end, tell

log = structlog.get_logger(__name__)


class Background:
    """Tasks that no request waits for. Closed, they have some seconds to end and are let go."""

    def __init__(self, *, shutdown_s: float) -> None:
        self._shutdown_s = shutdown_s
        self._running: set[asyncio.Task[None]] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self.stop = Stop()  # asked a second time, nobody is waited for
        self.closing = self.stop.asked

    @property
    def running(self) -> int:
        """How many tasks there are, without workers."""
        return len(self._running)

    def start(self, work: Awaitable[None], *, name: str) -> asyncio.Task[None]:
        """Do it beside everything else; what goes wrong is in the log."""
        task = asyncio.create_task(self._quiet(work, name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def work(self, worker: Worker) -> asyncio.Task[None]:
        """Let it work until all is closed. It gives its own turns time to end, and is not cut."""
        task = asyncio.create_task(self._quiet(worker.run(self.stop), "worker"))
        self._workers.add(task)
        return task

    async def aclose(self, *, within_s: float | None = None) -> None:
        """`within_s`: of the seconds that there are, those that are left."""
        if not self.closing.is_set():
            self.stop.ask()
        left_s = self._shutdown_s if within_s is None else within_s
        while self._running:  # a request that was still answered may have begun another one
            await let_end(tuple(self._running), within_s=left_s, at_once=self.stop.at_once)
            left_s = 0.0
        await asyncio.gather(*self._workers)

    async def _quiet(self, work: Awaitable[None], name: str) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            tell(error, f"{name}.failed")

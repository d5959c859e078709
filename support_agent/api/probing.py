"""Looks at something that may hang, for many who ask and none of whom can wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Probe(Generic[T]):
    """One look at a time, and its outcome for whoever asks in the moment after it.

    Who gives up waiting leaves the look alone: a transaction that was begun ends by itself, and
    until it does no second one is begun.
    """

    def __init__(
        self, look: Callable[[], Awaitable[T]], *, within_s: float = 2.0, keep_s: float = 0.5
    ) -> None:
        self._look = look
        self._within_s = within_s
        self._keep_s = keep_s
        self._task: asyncio.Future[T] | None = None
        self._ended_at = 0.0

    async def __call__(self) -> T:
        """What was found.

        Raises:
            TimeoutError: nothing was, so far; or what the look raises.
        """
        task = self._current()
        done, _ = await asyncio.wait((task,), timeout=self._within_s)
        if not done:
            raise TimeoutError
        return task.result()

    def _current(self) -> "asyncio.Future[T]":
        fresh = time.monotonic() - self._ended_at < self._keep_s
        if self._task is None or (self._task.done() and not fresh):
            self._task = asyncio.ensure_future(self._look())
            self._task.add_done_callback(self._ended)
        return self._task

    def _ended(self, task: "asyncio.Future[T]") -> None:
        self._ended_at = time.monotonic()
        if not task.cancelled():
            task.exception()  # it is no news to asyncio when everybody has given up

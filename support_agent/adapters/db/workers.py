"""Threads that do an event loop's database work, each piece from its beginning to its end."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Piece = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Workers:
    """At most `count` threads, each started when all others are busy.

    A `ThreadPoolExecutor` would do. Handing over to it costs half as much again, and each step of a
    run hands over three times.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._pieces: SimpleQueue[_Piece | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._busy = 0
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """The result, under the caller's context (log keys).

        A cancellation is held back until there is one, then raised instead of it.

        Raises:
            RuntimeError: after `close`.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        context = copy_context()
        with self._lock:
            if self._closed:
                raise RuntimeError("the database takes no work after its shutdown")
            self._busy += 1
            if self._busy > len(self._threads) < self._count:
                self._start()
        self._pieces.put((lambda: context.run(work), loop, done))
        return await held_back(done)

    @property
    def is_idle(self) -> bool:
        """Nothing is being done, and nothing waits to be."""
        return self._busy == 0

    def close(self) -> None:
        """Finish what was handed over, then end the threads."""
        with self._lock:
            self._closed = True
        for _ in self._threads:
            self._pieces.put(None)
        for thread in self._threads:
            thread.join()

    def _start(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while (piece := self._pieces.get()) is not None:
            work, loop, done = piece
            try:
                tell = partial(_succeed, done, work())
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                tell = partial(_fail, done, error)
            with self._lock:
                self._busy -= 1
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(tell)
            del piece, work, loop, done, tell  # nothing of it lives on while the thread waits


async def held_back(done: asyncio.Future[T]) -> T:
    """Wait for a result; a cancellation is held back until there is one, then raised instead.

    Its cause is the failure when there was one: without a cause the work was done.
    """
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        waiter = done.get_loop().create_future()

        def wake(_: object, waiter: "asyncio.Future[None]" = waiter) -> None:
            if not waiter.done():
                waiter.set_result(None)

        done.add_done_callback(wake)
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = error
        finally:
            done.remove_done_callback(wake)
    if cancelled is not None:
        # Seen, too, so that the loop does not report it as lost.
        raise cancelled from done.exception()
    return done.result()


def _succeed(done: asyncio.Future[Any], result: object) -> None:
    if not done.done():
        done.set_result(result)


def _fail(done: asyncio.Future[Any], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)

"""What procrastinate and its pool say, in our own log."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog

log = structlog.get_logger(__name__)
POOL = "psycopg.pool"


class _ToOurLog(logging.Handler):
    """What procrastinate logs, in our log; it never holds what customers write.

    Of a pool that cannot connect each try is a warning, dozens a minute: told once by the worker.
    """

    def emit(self, record: logging.LogRecord) -> None:
        level = logging.INFO if record.name == POOL else record.levelno
        text = " ".join(record.getMessage().split())
        log.log(level, "queue.said", text=text, by=record.name)


def route_log() -> None:
    """From now on, in this process."""
    for name in ("procrastinate", POOL):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _ToOurLog) for handler in logger.handlers):
            logger.addHandler(_ToOurLog())
            logger.propagate = False


@contextmanager
def left_jobs_logged() -> Iterator[None]:
    """A job whose end could not be stored, in a line: nobody awaits it, and it is woken again.

    So it is when the database is away, and when another worker was thought to have died with it.
    """
    from procrastinate.exceptions import ConnectorException

    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def tell_of(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, ConnectorException):
            log.warning("queue.job_left", problem=repr(error.__cause__ or error))
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(tell_of)
    try:
        yield
    finally:
        loop.set_exception_handler(before)

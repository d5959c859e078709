"""Ending what runs until it is told to stop: SIGTERM and Ctrl-C, the second one at once."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support_agent.services.workers import Stop

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def told_by_signals(stop: "Stop") -> Iterator[None]:
    """Within the block the signals of this process ask it to stop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.ask)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

"""Code of others that runs among ours: what it raises, told without its words."""

import asyncio
import traceback
from pathlib import Path

_DESCRIBING = (ImportError, TypeError, SyntaxError)  # their words are Python's own


def fault_of(error: BaseException) -> str:
    """An error of foreign code by its type and place: its own words may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    told = f": {error}" if isinstance(error, _DESCRIBING) else ""
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{told}{where}"


def is_ours_to_raise(error: BaseException) -> bool:
    """Whether it ends this task because we end it, and not because foreign code says so.

    A CancelledError of its own would otherwise end the task that called it, unheard.
    """
    task = asyncio.current_task()
    called_off = task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit) or called_off

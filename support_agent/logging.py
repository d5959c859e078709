"""Structured logs on stderr: noun.verb with keys, no values in the message, no local variables."""

import logging
import sys
from typing import Literal

import structlog

from support_agent.domain.text import visible

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
MOST_CHARS = 10_000  # of one value


def configure(
    *,
    format: Literal["console", "json"],  # noqa: A002 - the setting's name
    level: Literal["debug", "info", "warning", "error"],
) -> None:
    """Set up structlog for this process. Called by entry points, never at import."""
    renderer: structlog.typing.Processor = structlog.processors.JSONRenderer(ensure_ascii=False)
    if format == "console":
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Plain: the richer tracebacks print local variables, which may hold customer text.
            structlog.processors.format_exc_info,
            _printable,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),  # whatever that is by then
        cache_logger_on_first_use=False,
    )


def configure_if_nobody_did(
    *,
    format: Literal["console", "json"],  # noqa: A002 - the setting's name
    level: Literal["debug", "info", "warning", "error"],
) -> None:
    """As `configure`, for an application that this is part of and that left structlog as it is.

    As it is, structlog prints the local variables of a traceback: keys, tokens and what customers
    wrote. What an application has set up itself stays.
    """
    if not structlog.is_configured():
        configure(format=format, level=level)


def _printable(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """What a model or a server said must not drive the terminal that shows the log."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = visible(value, MOST_CHARS, keep_newlines=key == "exception")
    return event

"""The one table from what happened to an exit code."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from support_agent.domain import errors
from support_agent.domain.runs import RunStatus, StopReason


class ExitCode(IntEnum):
    """Contracts: scripts rely on them."""

    DONE = 0  # also when a tool refused inside `ask`
    REFUSED = 1  # a rule said no, or a check found something
    USAGE = 2  # usage or configuration
    STOPPED = 3  # a limit stopped the run; see `code_of_run`
    NOT_FOUND = 4
    CONFLICT = 5  # already decided, stale, busy
    UNAVAILABLE = 6  # a foreign system is down
    BROKEN = 70  # a fault of ours (EX_SOFTWARE of sysexits.h)
    INTERRUPTED = 130  # Ctrl-C, as shells count it
    UNREAD = 141  # who read the output went away, as shells count it; what was done stays done


# The nearest class of an error's own line of ancestors counts.
EXIT_CODES: Mapping[type[BaseException], ExitCode] = MappingProxyType(
    {
        errors.ConfigurationError: ExitCode.USAGE,
        errors.InvalidInput: ExitCode.USAGE,
        errors.NotFound: ExitCode.NOT_FOUND,
        errors.Refused: ExitCode.REFUSED,
        errors.NotAuthorised: ExitCode.REFUSED,
        errors.HistoryBroken: ExitCode.REFUSED,
        errors.Conflict: ExitCode.CONFLICT,
        errors.DatabaseUnavailable: ExitCode.UNAVAILABLE,
        errors.OrdersUnavailable: ExitCode.UNAVAILABLE,
        errors.ChannelUnavailable: ExitCode.UNAVAILABLE,
        errors.ModelError: ExitCode.UNAVAILABLE,
        errors.PaymentError: ExitCode.UNAVAILABLE,
    }
)


def code_of(error: BaseException) -> ExitCode:
    """The exit code of an error; one that is not in the table is a fault of ours."""
    for kind in type(error).__mro__:
        if kind in EXIT_CODES:
            return EXIT_CODES[kind]
    return ExitCode.BROKEN


def code_of_run(status: RunStatus, reason: StopReason | None) -> ExitCode:
    """How a command that drove a run ends; a silent model is a foreign system that is down."""
    if status is RunStatus.DEAD:
        return ExitCode.STOPPED
    if status is not RunStatus.STOPPED:
        return ExitCode.DONE
    return ExitCode.UNAVAILABLE if reason is StopReason.MODEL_UNAVAILABLE else ExitCode.STOPPED

"""What every error of this product is, and those that no other room takes."""

from typing import ClassVar


class SupportAgentError(Exception):
    """Everything this product raises on purpose. `code` is stable, the message is for people."""

    code: ClassVar[str] = "INTERNAL"


class ConfigurationError(SupportAgentError):
    """The operator must fix a setting, a file or the database before anything can run."""

    code = "CONFIGURATION"

    def __init__(self, message: str, *, setting: str | None = None) -> None:
        super().__init__(f"{setting}: {message}" if setting else message)
        self.setting = setting


class NewerState(ConfigurationError):
    """A run was recorded by a newer version of this program; it is left as it is."""

    code = "NEWER_STATE"

    def __init__(self, run_id: str, *, found: int, known: int) -> None:
        super().__init__(
            f"run {run_id!r} was recorded in form {found}, this program reads up to {known}; "
            "use the version of support-agent that recorded it, or a newer one"
        )
        self.run_id = run_id


class InvalidInput(SupportAgentError):
    """One field of the input is wrong; the message says which and how to mend it."""

    code = "INVALID_INPUT"

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field} {problem}")
        self.field = field
        self.problem = problem


class HistoryBroken(SupportAgentError):
    """The signed history does not prove what was asked of it: somebody changed the database."""

    code = "HISTORY_BROKEN"

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}; run: support-agent audit verify")


class ReserveMissing(SupportAgentError):
    """The books do not hold what a posting moves: a fault of ours, or a hand in the database."""

    code = "RESERVE_MISSING"

    def __init__(self, request_id: str, *, account: str) -> None:
        super().__init__(
            f"request {request_id!r} holds no such reserve on {account}; check the books"
        )
        self.request_id = request_id
        self.account = account


class EventRefused(SupportAgentError):
    """An incoming provider event is not genuine, not ours or not of now; nothing was changed."""

    code = "EVENT_REFUSED"

"""A model that did not decide, or a call of its that did not work."""

from support_agent.domain.errors.root import SupportAgentError
from support_agent.domain.runs import Usage


class ToolError(SupportAgentError):
    """A tool call that did not produce a result."""

    code = "TOOL_ERROR"


class UnknownTool(ToolError):
    """The model named a tool that does not exist; it may correct itself."""

    code = "UNKNOWN_TOOL"


class InvalidArguments(ToolError):
    """The model's arguments do not fit; `fields` maps a field to what is wrong with it."""

    code = "INVALID_ARGUMENTS"

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in fields.items()))
        self.fields = fields


class ModelError(SupportAgentError):
    """The model did not give a usable decision."""

    code = "MODEL_ERROR"


class ModelUnavailable(ModelError):
    """No answer.

    Attributes:
        retry_after: seconds, when the server named a time.
        may_pass: whether the same request may be answered if it is sent again (429, 5xx, a broken
            connection, a time-out); a request that is refused for what it is will be again.
        usage: what the attempts cost. One that may have been billed without an answer (a time-out,
            a reply that broke off) counts the tokens it sent, as estimated.
    """

    code = "MODEL_UNAVAILABLE"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        may_pass: bool = True,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.may_pass = may_pass
        self.usage = usage or Usage(requests=1)


class ContextTooLong(ModelUnavailable):
    """The model cannot read that much; a shorter view of the conversation may be sent once."""

    code = "CONTEXT_TOO_LONG"

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message, may_pass=False, usage=usage)


class ModelReplyInvalid(ModelError):
    """The reply is not a decision; the model is told, the error and its `usage` are counted."""

    code = "MODEL_REPLY_INVALID"

    def __init__(self, message: str, *, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage(requests=1)

"""Who came by the API and was not let in."""

from support_agent.domain.errors.missing import NotFound
from support_agent.domain.errors.refused import NotAuthorised
from support_agent.domain.errors.root import SupportAgentError


class NotAuthenticated(SupportAgentError):
    """Nothing proves who sends this."""

    code = "NOT_AUTHENTICATED"


class KeyRefused(NotAuthenticated):
    """The key is unknown, was revoked or is too old; only its own holder is told which."""

    code = "KEY_REFUSED"


class CustomerTokenRefused(NotAuthenticated):
    """The token that names the customer is not genuine, too old or lives too long."""

    code = "CUSTOMER_TOKEN_REFUSED"


class ScopeMissing(SupportAgentError):
    """The key is good, but not for this."""

    code = "SCOPE_MISSING"

    def __init__(self, scopes: tuple[str, ...]) -> None:
        needed = " or ".join(scopes)
        super().__init__(
            f"the key may not do this; it needs {needed}: support-agent keys create --scope …"
        )
        self.scopes = scopes


class IdentityNotVerified(NotAuthorised):
    """Nobody proved which customer this is, and it is about their orders or money."""

    code = "IDENTITY_NOT_VERIFIED"

    def __init__(self) -> None:
        super().__init__(
            "it is only said, not proved, which customer this is; send a customer token, or a key "
            "of a channel that proves its customers"
        )


class KeyNotFound(NotFound):
    code = "KEY_NOT_FOUND"
    kind = "API key"

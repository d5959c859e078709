"""What the API is built with."""

from support_agent.adapters.customer_tokens import CustomerTokens, parse_secrets
from support_agent.settings import Settings


def customer_tokens_of(settings: Settings) -> CustomerTokens | None:
    """What checks the tokens of the shop's backend; None where none are set up.

    Raises:
        ConfigurationError: the setting is malformed.
    """
    given = settings.api.customer_token_secrets
    if given is None:
        return None
    return CustomerTokens(
        parse_secrets(given.get_secret_value()), longest_s=settings.api.customer_token_seconds
    )

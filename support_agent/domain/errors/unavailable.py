"""A foreign system, or our own database, that did not answer."""

from support_agent.domain.errors.root import SupportAgentError


class DatabaseUnavailable(SupportAgentError):
    """The database did not answer; nothing was changed by this call."""

    code = "DATABASE_UNAVAILABLE"


class ChannelUnavailable(SupportAgentError):
    """A message to the outside was not, or may not have been, delivered; it is tried again."""

    code = "CHANNEL_UNAVAILABLE"


class OrdersUnavailable(SupportAgentError):
    """The shop's order system did not answer."""

    code = "ORDERS_UNAVAILABLE"

"""The HTTP API. `open_api` gives an application to serve, or to mount in a backend's own."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support_agent.api.app import open_api

__all__ = ["open_api"]


def __getattr__(name: str) -> object:
    """Resolved on use: importing this costs nothing."""
    if name == "open_api":
        from support_agent.api.app import open_api  # noqa: PLC0415 - see above

        return open_api
    raise AttributeError(name)

"""The secrets of endpoints: made from our keys each time they are needed, and never stored."""

import base64

from support_agent.domain.errors import ConfigurationError
from support_agent.domain.signing import KeyRing
from support_agent.domain.webhooks import WebhookEndpoint

PREFIX = "whsec_"


def secrets_of(
    endpoint: WebhookEndpoint, keys: KeyRing, *, overlaps: bool = False
) -> tuple[bytes, ...]:
    """What signs for the endpoint, the newest first; `overlaps`: the one before it as well.

    Raises:
        ConfigurationError: the key that the newest is made from is gone.
    """
    newest = keys.derive(endpoint.key_id, _fields(endpoint.id, endpoint.generation))
    if newest is None:
        raise ConfigurationError(
            f"has no key {endpoint.key_id!r} any more, from which the secret of webhook endpoint "
            f"{endpoint.id!r} is made; put it back, or rotate the endpoint's secret",
            setting="SUPPORT_AGENT_SECURITY__KEYS",
        )
    before = endpoint.previous_key_id
    if not overlaps or before is None:
        return (newest,)
    older = keys.derive(before, _fields(endpoint.id, endpoint.generation - 1))
    return (newest,) if older is None else (newest, older)


def secret_text(endpoint: WebhookEndpoint, keys: KeyRing) -> str:
    """The newest, as who verifies with it writes it.

    Raises:
        ConfigurationError: as `secrets_of`.
    """
    return f"{PREFIX}{base64.b64encode(secrets_of(endpoint, keys)[0]).decode()}"


def _fields(endpoint_id: str, generation: int) -> tuple[str, ...]:
    return "webhook endpoint", endpoint_id, str(generation)

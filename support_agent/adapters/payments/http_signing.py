"""Signs what is sent to the shop's refund endpoint, by the Standard Webhooks scheme."""

import importlib.util
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from support_agent.domain.errors import ConfigurationError


class Signing:
    """The headers of one request: `webhook-id`, `webhook-timestamp` and `webhook-signature`.

    The scheme signs id, time and body, neither method nor path: so everything that says what is to
    be done stands in the body, and the method is always POST. While a secret is replaced each one
    signs, and the shop may hold either.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        """`secrets` start with whsec_.

        Raises:
            ConfigurationError: the extra is not installed.
        """
        if importlib.util.find_spec("standardwebhooks") is None:
            raise ConfigurationError(
                "is http, which needs the extra: pip install 'support-agent[api]'",
                setting="SUPPORT_AGENT_PAYMENTS__KIND",
            )
        self._secrets = tuple(secrets)

    def headers(self, body: str) -> Mapping[str, str]:
        """Of this very body, now; each request has an id of its own."""
        from standardwebhooks import Webhook

        id_, now = f"msg_{uuid.uuid4().hex}", datetime.now(UTC)
        signatures = (Webhook(secret).sign(id_, now, body) for secret in self._secrets)
        return {
            "webhook-id": id_,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }

"""Short-lived tokens in which the shop's backend says for which customer a request is made."""

from collections.abc import Mapping
from typing import Any

from support_agent.domain.errors import ConfigurationError, CustomerTokenRefused

SETTING = "SUPPORT_AGENT_API__CUSTOMER_TOKEN_SECRETS"
AUDIENCE = "support-agent"
ALGORITHM = "HS256"
LEEWAY_S = 30  # between the shop's clock and ours
MIN_BYTES = 32
LONGEST_ID = 200


class CustomerTokens:
    """JSON Web Tokens (RFC 7519), HS256: `kid` in the header; `sub`, `aud`, `iat`, `exp` claimed.

    Several secrets verify, so that one can be replaced while the other is still in use.
    """

    def __init__(self, secrets: Mapping[str, bytes], *, longest_s: int) -> None:
        self._secrets = secrets
        self._longest_s = longest_s

    def customer_of(self, token: str) -> str:
        """The customer's id, byte for byte as the shop signed it.

        Raises:
            CustomerTokenRefused: not genuine, not of now, or it lives longer than is allowed.
        """
        import jwt

        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._secret(key_id),
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                leeway=LEEWAY_S,
                options={"require": ["sub", "aud", "iat", "exp"]},
            )
        except jwt.PyJWTError as error:
            raise CustomerTokenRefused(f"the customer token is not valid: {error}") from error
        return self._checked(claims)

    def _secret(self, key_id: object) -> bytes:
        secret = self._secrets.get(key_id) if isinstance(key_id, str) else None
        if secret is None:
            raise CustomerTokenRefused(
                "the customer token names no secret of ours (kid in its header); it has to be one "
                f"of {SETTING}"
            )
        return secret

    def _checked(self, claims: Mapping[str, Any]) -> str:
        lives_s = claims["exp"] - claims["iat"]
        if lives_s > self._longest_s:
            raise CustomerTokenRefused(
                f"the customer token lives {lives_s:.0f} s, at most {self._longest_s} s are taken"
            )
        customer_id: str = claims["sub"]
        if not 1 <= len(customer_id) <= LONGEST_ID or not customer_id.isprintable():
            raise CustomerTokenRefused("the customer token's sub is no customer id")
        return customer_id


def parse_secrets(text: str) -> Mapping[str, bytes]:
    """`id:secret`, several with commas.

    Raises:
        ConfigurationError: malformed, or a secret that is too short to sign with.
    """
    secrets: dict[str, bytes] = {}
    for entry in text.split(","):
        key_id, colon, secret = entry.strip().partition(":")
        if not colon or not key_id or len(secret.encode()) < MIN_BYTES:
            raise ConfigurationError(
                f"is malformed: write id:secret, the secret at least {MIN_BYTES} bytes, several "
                "with commas",
                setting=SETTING,
            )
        secrets[key_id] = secret.encode()
    return secrets

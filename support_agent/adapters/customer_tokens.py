"""Short-lived tokens in which the shop's backend says for which customer a request is made."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from support_agent.domain.errors import ConfigurationError, CustomerTokenRefused
from support_agent.domain.text import visible

SETTING = "SUPPORT_AGENT_API__CUSTOMER_TOKEN_SECRETS"
AUDIENCE = "support-agent"
ALGORITHM = "HS256"
LEEWAY_S = 30  # between the shop's clock and ours
MIN_BYTES = 32
LONGEST_ID = 200
LONGEST_TOKEN = 8_192
MOST_TOLD = 200  # characters of why a token is not valid
LAST_MOMENT = 253_402_300_799  # the end of the year 9999; a larger number is no moment


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBearer:
    """The customer a token names, and until when it does."""

    customer_id: str
    until: datetime


class CustomerTokens:
    """JSON Web Tokens (RFC 7519), HS256: `kid` in the header; `sub`, `aud`, `iat`, `exp` claimed.

    Several secrets verify, so that one can be replaced while the other is still in use.
    """

    def __init__(self, secrets: Mapping[str, bytes], *, longest_s: int) -> None:
        self._secrets = secrets
        self._longest_s = longest_s

    def bearer_of(self, token: str) -> TokenBearer:
        """The customer's id, byte for byte as the shop signed it, and when the token ends.

        Raises:
            CustomerTokenRefused: not genuine, not of now, or it lives longer than is allowed.
        """
        import jwt

        if len(token) > LONGEST_TOKEN:
            raise CustomerTokenRefused(
                f"the customer token is longer than {LONGEST_TOKEN} bytes; it needs sub, aud, iat "
                "and exp only"
            )
        try:
            key_id = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._secret(key_id),
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                leeway=LEEWAY_S,
                options={"require": ["sub", "aud", "iat", "exp"], "strict_aud": True},
            )
        except jwt.InvalidAudienceError as error:
            raise CustomerTokenRefused(
                f"the customer token's aud is not {AUDIENCE!r} alone, as a text"
            ) from error
        except jwt.PyJWTError as error:
            told = visible(str(error), MOST_TOLD)  # some say what was in the token
            raise CustomerTokenRefused(f"the customer token is not valid: {told}") from error
        return self._checked(claims)

    def _secret(self, key_id: object) -> bytes:
        secret = self._secrets.get(key_id) if isinstance(key_id, str) else None
        if secret is None:
            raise CustomerTokenRefused(
                "the customer token names no secret of ours (kid in its header); it has to be one "
                f"of {SETTING}"
            )
        return secret

    def _checked(self, claims: Mapping[str, Any]) -> TokenBearer:
        """The library takes `"12"` and true for moments; we do not."""
        for name in ("iat", "exp", "nbf"):
            moment = claims.get(name, 0)
            if type(moment) not in {int, float} or not 0 <= moment <= LAST_MOMENT:
                raise CustomerTokenRefused(
                    f"the customer token's {name} is not a number of seconds since 1970"
                )
        lives_s = claims["exp"] - claims["iat"]
        if not 0 < lives_s <= self._longest_s:
            raise CustomerTokenRefused(
                f"the customer token lives {lives_s:.0f} s from iat to exp, 1 to {self._longest_s} "
                "s are taken"
            )
        customer_id: str = claims["sub"]
        if not 1 <= len(customer_id) <= LONGEST_ID or not customer_id.isprintable():
            raise CustomerTokenRefused(
                f"the customer token's sub is no customer id: 1 to {LONGEST_ID} printable "
                "characters are taken"
            )
        return TokenBearer(
            customer_id=customer_id, until=datetime.fromtimestamp(claims["exp"], UTC)
        )


def parse_secrets(text: str) -> Mapping[str, bytes]:
    """`id:secret`, several with commas; a secret itself holds no comma.

    Raises:
        ConfigurationError: malformed, an id twice, or a secret that is too short to sign with.
    """
    secrets: dict[str, bytes] = {}
    for entry in text.split(","):
        key_id, colon, secret = entry.strip().partition(":")
        if not colon or not key_id or len(secret.encode()) < MIN_BYTES:
            raise ConfigurationError(
                f"is malformed: write id:secret, the secret at least {MIN_BYTES} bytes and without "
                "a comma, several with commas between them",
                setting=SETTING,
            )
        if key_id in secrets:
            raise ConfigurationError(
                f"names the id {key_id!r} twice; give each secret an id of its own", setting=SETTING
            )
        secrets[key_id] = secret.encode()
    return secrets

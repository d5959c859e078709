"""What a foreign endpoint's address and a secret to sign with have to look like."""

import base64
import binascii
from urllib.parse import urlsplit

from support_agent.domain.addresses import is_loopback

_PREFIX = "whsec_"


def is_endpoint(url: str) -> bool:
    """Whether signed requests and their answers may travel to this address and back.

    The answers are not signed: nobody on the way may change them, so beyond this machine it is TLS.
    """
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or port == 0 or "#" in url:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))


def is_signing_secret(secret: str) -> bool:
    """Whether it is one of the Standard Webhooks scheme, which wants 24 to 64 random bytes."""
    if not secret.startswith(_PREFIX):
        return False
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return 24 <= len(key) <= 64

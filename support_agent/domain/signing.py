"""Keyed signatures over canonical rows, so that who can only write the database cannot approve."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache


def canonical(fields: Sequence[str]) -> bytes:
    """Length-prefixed UTF-8 fields: two different rows never have the same bytes."""
    text = "".join([f"{len(value)}:{value}" for value in fields])
    if text.isascii():  # then characters are bytes, as in the digests and ids that most of it is
        return text.encode()
    return b"".join(b"%d:%b" % (len(raw), raw) for raw in map(str.encode, fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    """Keys by id; the first signs, all verify. Never stored in the database."""

    keys: tuple[tuple[str, bytes], ...] = field(repr=False)

    def sign(self, fields: Sequence[str]) -> tuple[str, str]:
        """(key id, hex MAC) of the fields under the first key."""
        key_id, secret = self.keys[0]
        return key_id, _mac(secret, key_id, tuple(fields))

    def knows(self, key_id: str) -> bool:
        return any(known == key_id for known, _ in self.keys)

    def verify(self, fields: Sequence[str], *, key_id: str, mac: str) -> bool:
        for known, secret in self.keys:
            if known == key_id:
                # As bytes: a stored MAC may hold anything, and text must be ASCII here.
                return hmac.compare_digest(
                    _mac(secret, key_id, tuple(fields)).encode(), mac.encode()
                )
        return False


@lru_cache(maxsize=256)
def _mac(secret: bytes, key_id: str, fields: tuple[str, ...]) -> str:
    """Remembered, because what is newest is asked for again and again."""
    return hmac.new(secret, canonical((key_id, *fields)), hashlib.sha256).hexdigest()

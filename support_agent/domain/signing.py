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

    @property
    def newest_id(self) -> str:
        """Of the key that signs."""
        return self.keys[0][0]

    def derive(self, key_id: str, fields: Sequence[str]) -> bytes | None:
        """A secret of 32 bytes that this key makes of the fields, the same each time.

        It tells nothing of the key, nor of what the key signs. None: the key is not here.
        """
        for known, secret in self.keys:
            if known == key_id:
                # What is signed begins with a length, and so is never what is derived.
                message = b"derive:" + canonical((key_id, *fields))
                return hmac.digest(secret, message, hashlib.sha256)
        return None

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

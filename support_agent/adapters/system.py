"""The machine's clock and random ids."""

import secrets
import threading
import time
from datetime import UTC, datetime

# Crockford's alphabet: no letter that reads like a digit.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
TIME_BITS, RANDOM_BITS = 48, 80


class SystemClock:
    """Business time from the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SortableIds:
    """`{prefix}_{26 characters}` in the ULID layout: milliseconds, then randomness.

    Within a process each id is larger than the one before it, also within one millisecond.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def new(self, prefix: str) -> str:
        with self._lock:
            now = (time.time_ns() // 1_000_000) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)
            self._last = max(now, self._last + 1)
            value = self._last
        letters = [ALPHABET[value >> shift & 31] for shift in range(125, -1, -5)]
        return f"{prefix}_{''.join(letters)}"

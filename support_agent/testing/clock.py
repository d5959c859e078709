"""A clock that stands still until it is moved."""

from datetime import UTC, datetime, timedelta


class FixedClock:
    """Business time for tests and the demo."""

    def __init__(self, now: datetime) -> None:
        if now.tzinfo is None:
            raise ValueError(f"a clock needs a time zone: {now!r}")
        self._now = now.astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, by: timedelta) -> None:
        self._now += by

    def set(self, now: datetime) -> None:
        self._now = now.astimezone(UTC)

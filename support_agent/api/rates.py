"""How often somebody may come: moving windows in the memory of this process.

Several serving processes each count for themselves.
"""

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from support_agent.api.problems import ProblemError

WINDOW_S = 60.0
MOST_NAMES = 10_000  # of one kind that are remembered; beyond it the one that was idle longest goes
Seconds = Callable[[], float]


class Rate:
    """At most so many in any 60 seconds, for each name."""

    def __init__(self, what: str, most: int, *, seconds: Seconds = time.monotonic) -> None:
        self._what = what
        self._most = most
        self._seconds = seconds
        self._came: OrderedDict[str, deque[float]] = OrderedDict()  # the idle ones in front

    def count(self, name: str) -> None:
        """One more of this name.

        Raises:
            ProblemError: 429, too many; this one does not count.
        """
        self.check(name)
        self.add(name)

    def check(self, name: str) -> None:
        """Pass when one more is allowed; nothing is counted.

        Raises:
            ProblemError: 429, too many.
        """
        came = self._came.get(name)
        if came is None:
            return
        now = self._seconds()
        while came and came[0] <= now - WINDOW_S:
            came.popleft()
        if len(came) >= self._most:
            raise self._too_many(came[0] + WINDOW_S - now)

    def add(self, name: str) -> None:
        """Count one whether it is allowed or not; no more are remembered than are allowed."""
        now = self._seconds()
        came = self._came.setdefault(name, deque(maxlen=self._most))
        came.append(now)
        self._came.move_to_end(name)
        while len(self._came) > MOST_NAMES or self._is_idle(now):
            self._came.popitem(last=False)

    def __len__(self) -> int:
        """How many names are remembered."""
        return len(self._came)

    def _is_idle(self, now: float) -> bool:
        first = next(iter(self._came.values()))
        return first[-1] <= now - WINDOW_S

    def _too_many(self, wait_s: float) -> ProblemError:
        seconds = max(1, math.ceil(wait_s))
        return ProblemError(
            429,
            "RATE_LIMITED",
            f"more than {self._most} {self._what} in {WINDOW_S:.0f} s; try again in {seconds} s",
            headers={
                "Retry-After": str(seconds),
                "RateLimit-Policy": f'"minute";q={self._most};w={WINDOW_S:.0f}',
                "RateLimit": f'"minute";r=0;t={seconds}',
            },
        )

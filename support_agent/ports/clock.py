"""Time and ids, so that the domain never asks the machine."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Business time. Durations and leases use monotonic or database time instead."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...


class Ids(Protocol):
    def new(self, prefix: str) -> str:
        """`{prefix}_{26 characters}`: unique, sorts by creation within a process."""
        ...

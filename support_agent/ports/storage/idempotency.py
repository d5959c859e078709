"""Requests that are answered once, however often they are sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a request is looked for: whose it is, for which customer ('' for none), what it does.

    `key` is what its sender calls it.
    """

    principal: str
    customer_id: str
    route: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a request was answered with; without a body once that was erased with a customer."""

    status: int
    headers: Mapping[str, str]
    body: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """Who took the slot answers the request. The end of the lease tells takers apart."""

    lease_until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """Somebody answers the request at this moment, or died doing so `left_s` before that counts."""

    left_s: float


class Reused:
    """The slot is another request's."""


class IdempotencyStore(Protocol):
    """Slots, by the database's clock."""

    def take(
        self, slot: Slot, request_hash: str, *, lease_s: float, kept_s: float
    ) -> Mine | Reply | InFlight | Reused:
        """The slot, when it is free, its time is over, or whoever had it is gone."""
        ...

    def settle(self, slot: Slot, mine: Mine, reply: Reply) -> None:
        """Keep the answer, unless another one took the slot meanwhile."""
        ...

    def release(self, slot: Slot, mine: Mine) -> None:
        """Forget that there was a request, so that it can be sent again; as `settle`."""
        ...

    def let_go(self, *, limit: int) -> int:
        """Delete slots whose time is over; how many."""
        ...

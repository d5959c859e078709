"""Endpoints of other systems, and the events on their way to them, as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from support_agent.domain.webhooks import (
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from support_agent.ports.storage.requests import Page


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """An event for one endpoint, with the id of its delivery."""

    id: str
    endpoint_id: str
    event: WebhookEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSend:
    """A delivery that is its claimer's while the lease runs.

    `tries` counts this one and those that came to an end: not what was called off, or died with its
    worker. `claim` is the number by which its claimer is told.
    """

    id: str
    endpoint: WebhookEndpoint
    event_id: str
    body: str
    tries: int
    claim: int
    overlaps: bool  # the secret before the endpoint's newest still signs


class Webhooks(Protocol):
    """Leases, pauses and how long two secrets sign are counted by the database's clock."""

    def add(self, endpoint: WebhookEndpoint) -> None: ...

    def get(self, endpoint_id: str) -> WebhookEndpoint | None: ...

    def list(self) -> tuple[WebhookEndpoint, ...]:
        """All there are, oldest first."""
        ...

    def listeners(self) -> tuple[WebhookEndpoint, ...]:
        """Those that are enabled; none of them is removed before this transaction ends."""
        ...

    def hold(self) -> None:
        """Nobody else adds or changes endpoints before this transaction ends."""
        ...

    def change(self, endpoint: WebhookEndpoint) -> None:
        """Its address, events and state, and why it is disabled."""
        ...

    def rotate(self, endpoint_id: str, *, key_id: str) -> WebhookEndpoint | None:
        """A new generation, from now on; None when there is no such endpoint."""
        ...

    def remove(self, endpoint_id: str) -> bool:
        """The endpoint and its deliveries; False when there is none."""
        ...

    def has_new(self) -> bool:
        """Whether `take_new` would give or end anything."""
        ...

    def take_new(self, *, limit: int, at: datetime) -> tuple[int, tuple[WebhookEvent, ...]]:
        """The oldest events of the outbox that nobody has taken: how many rows, and what they are.

        Rows that somebody else is just taking are left to him. What is nothing to other systems
        is taken with them.
        """
        ...

    def address(self, many: Sequence[Addressed], *, at: datetime) -> None:
        """Put them on their way at once; an event that an endpoint has already is left out."""
        ...

    def due(self) -> tuple[str, ...]:
        """Ids of enabled endpoints for which something is to be sent now."""
        ...

    def claim(self, endpoint_id: str, *, limit: int, lease_s: float) -> tuple[ToSend, ...]:
        """Take the oldest that are due; nobody else gets them while the lease runs."""
        ...

    def settle(
        self,
        sent: ToSend,
        state: DeliveryState,
        *,
        at: datetime,
        status: int | None,
        error: str | None,
    ) -> bool:
        """It is over; False when somebody else has it, or it is gone."""
        ...

    def put_off(
        self, sent: ToSend, *, pause_s: float, status: int | None, error: str | None
    ) -> bool:
        """To be tried again after a pause; False as `settle`."""
        ...

    def again(self, endpoint_id: str, delivery_id: str) -> WebhookDelivery | None:
        """One more try, now; None when there is no such delivery."""
        ...

    def deliveries(
        self,
        endpoint_id: str,
        *,
        state: DeliveryState | None,
        limit: int,
        cursor: str | None,
    ) -> Page[WebhookDelivery]:
        """Newest first.

        Raises:
            InvalidInput: the cursor is none of this list.
        """
        ...

    def let_go(self, before: datetime, *, limit: int) -> int:
        """Delete deliveries that were over before that, or wait since then for a disabled endpoint.

        Returns how many, at most `limit`.
        """
        ...

"""What a payment provider reports on its own: proved genuine first, then treated as a hint."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from support_agent.ports.payments import PaymentRef


class EventKind(StrEnum):
    REFUND = "refund"  # a refund was made, changed or failed
    DISPUTE_OPENED = "dispute.opened"
    DISPUTE_WON = "dispute.won"
    DISPUTE_LOST = "dispute.lost"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderEvent:
    """One genuine event. It says what to look at, not what is true: the refund is fetched by id."""

    id: str
    gateway: str
    kind: EventKind
    account: str
    livemode: bool
    created_at: datetime
    payment: PaymentRef | None  # None: about no payment
    provider_refund_id: str | None = None
    dispute_id: str | None = None
    amount_minor: int | None = None  # of a dispute
    currency: str | None = None
    other_payment_id: str | None = None  # as in GatewayRefund


class EventVerifier(Protocol):
    """Tells a genuine event from any other bytes."""

    def verify(self, body: bytes, headers: Mapping[str, str], *, now: datetime) -> ProviderEvent:
        """The event in these raw bytes; header names in any case.

        Raises:
            EventRefused: no valid signature of any of our secrets, signed more than 300 s before or
                after `now`, or not readable.
        """
        ...

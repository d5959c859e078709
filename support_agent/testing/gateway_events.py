"""Events as a payment provider would report them, for tests of what receives them."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any

from support_agent.ports.events import EventKind, ProviderEvent
from support_agent.ports.payments import GatewayRefund, PaymentRef

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDispute:
    """A dispute at the simulated gateway; `kind` says how it stands."""

    id: str
    payment: PaymentRef
    amount_minor: int
    currency: str
    kind: EventKind = EventKind.DISPUTE_OPENED


def event_for(
    subject: GatewayRefund | SimulatedDispute,
    *,
    at: datetime,
    **changes: Any,  # noqa: ANN401 - any field of the event
) -> ProviderEvent:
    """The event a provider sends about this; `changes` replaces single fields of it.

    Each call makes an event of its own; pass `id=` to have one delivered twice.
    """
    event = ProviderEvent(
        id=f"evt_{next(_NUMBERS)}",
        gateway=subject.payment.gateway,
        kind=EventKind.REFUND,
        account=subject.payment.account,
        livemode=False,
        created_at=at,
        payment=subject.payment,
    )
    if isinstance(subject, GatewayRefund):
        about: dict[str, Any] = {"provider_refund_id": subject.provider_refund_id}
    else:
        about = {
            "kind": subject.kind,
            "dispute_id": subject.id,
            "amount_minor": subject.amount_minor,
            "currency": subject.currency,
        }
    return replace(event, **(about | changes))


def stripe_signature(body: bytes, *secrets: str, at: datetime) -> Mapping[str, str]:
    """The header with which Stripe signs a body, one signature a secret."""
    moment = int(at.timestamp())
    signed = f"{moment}.".encode() + body
    signatures = (hmac.new(secret.encode(), signed, hashlib.sha256) for secret in secrets)
    parts = [f"t={moment}", *(f"v1={signature.hexdigest()}" for signature in signatures)]
    return {"Stripe-Signature": ",".join(parts)}

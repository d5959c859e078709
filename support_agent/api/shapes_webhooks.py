"""What the API gives and takes of webhook endpoints and their deliveries."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import Field

from support_agent.api.schemas import Body, Instant, Shape
from support_agent.domain.webhook_targets import LONGEST
from support_agent.domain.webhooks import (
    OVERLAP_S,
    DeliveryState,
    EndpointState,
    EventType,
    WebhookDelivery,
    WebhookEndpoint,
)

Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST,
        description="https:// and a host of the open internet; no user, no fragment.",
        examples=["https://shop.example.vn/support-events"],
    ),
]
# Compared by value: strict models would otherwise take members of the enum only, not JSON texts.
Events = Annotated[
    list[Annotated[EventType, Field(strict=False)]],
    Field(min_length=1, max_length=len(EventType), examples=[["run.handed_off"]]),
]


class EndpointBody(Body):
    """A new endpoint."""

    url: Url
    events: Events


class EndpointChange(Body):
    """What is given replaces what was."""

    url: Url | None = None
    events: Events | None = None
    state: Annotated[EndpointState | None, Field(strict=False)] = None


class EndpointShape(Shape):
    """Where events are sent.

    `disabled_reason`: `gone`, it answered 410; `staff`, somebody disabled it. Until
    `overlap_until` events are signed with the secret before as well.
    """

    id: str
    url: str
    events: list[EventType]
    state: EndpointState
    disabled_reason: str | None
    secret_generation: int
    overlap_until: Instant | None
    created_at: Instant
    created_by: str


class SecretShape(Shape):
    """What the receiver verifies with: `whsec_` and base64, as Standard Webhooks writes it."""

    secret: str


class CreatedShape(EndpointShape):
    """An endpoint with its new secret, which an answer that is replayed does not have."""

    secret: str


class DeliveryShape(Shape):
    """One event on its way to the endpoint.

    `event_id` is sent as `webhook-id`. While it is pending it is tried at `next_attempt_at`, or
    soon after.
    """

    id: str
    endpoint_id: str
    event_id: str
    type: EventType
    state: DeliveryState
    attempts: int
    last_status: int | None = Field(description="The HTTP status of the last try, if it had one.")
    last_error: str | None = Field(
        description="Why the last try had none.", examples=["timeout", "tls", "address_refused"]
    )
    next_attempt_at: Instant | None
    created_at: Instant
    ended_at: Instant | None


def endpoint_shape(endpoint: WebhookEndpoint) -> EndpointShape:
    """An endpoint as it is given out."""
    return EndpointShape(**_told(endpoint))


def created_shape(endpoint: WebhookEndpoint, secret: str) -> CreatedShape:
    """The same with its secret."""
    return CreatedShape(**_told(endpoint), secret=secret)


def delivery_shape(delivery: WebhookDelivery) -> DeliveryShape:
    """A delivery as it is given out."""
    pending = delivery.state is DeliveryState.PENDING
    return DeliveryShape(
        id=delivery.id,
        endpoint_id=delivery.endpoint_id,
        event_id=delivery.event_id,
        type=delivery.type,
        state=delivery.state,
        attempts=delivery.attempts,
        last_status=delivery.last_status,
        last_error=delivery.last_error,
        next_attempt_at=datetime.fromtimestamp(delivery.retry_at, UTC) if pending else None,
        created_at=delivery.created_at,
        ended_at=delivery.ended_at,
    )


def _told(endpoint: WebhookEndpoint) -> dict[str, object]:
    began = endpoint.rotated_at
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "events": list(endpoint.events),
        "state": endpoint.state,
        "disabled_reason": endpoint.disabled_reason,
        "secret_generation": endpoint.generation,
        "overlap_until": None
        if began is None
        else datetime.fromtimestamp(began, UTC) + timedelta(seconds=OVERLAP_S),
        "created_at": endpoint.created_at,
        "created_by": endpoint.created_by,
    }
